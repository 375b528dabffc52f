"""Gold traces as token arrays: what supervised fine-tuning reads.

An episode of a teacher is kept as the token ids and action masks of its trajectories, nothing else, so that a hundred
thousand of them fit in memory and in a file.
"""

from __future__ import annotations

import json
import lzma
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..codec import checked, to_dict
from ..english import counted
from ..errors import DataError
from ..output_file import complete_file
from ..record import Episode
from .batch import Batch
from .trace_prompts import TracePrompts, prompts_of_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "subquest-traces-1"


@dataclass(frozen=True, slots=True)
class TraceSet:
    """Episodes end to end. E episodes, N trajectories, T tokens."""

    ids: NDArray[np.uint32]
    """[T]"""
    actions: NDArray[np.bool_]
    """[T] whether the teacher wrote the token"""
    lengths: NDArray[np.int64]
    """[N] tokens of each trajectory"""
    counts: NDArray[np.int64]
    """[E] trajectories of each episode"""
    rejected: Counter[str] = field(default_factory=Counter)
    """Questions that gave no trace, by reason."""
    made_by: Counter[str] = field(default_factory=Counter)
    """Episodes by system."""
    weights: NDArray[np.float32] | None = None
    """[N] how much a token of each trajectory counts; where None, all the same."""
    opening: str = ""
    """What the first tokens say, by which traces of another vocabulary are known; empty in old files."""
    prompts: tuple[TracePrompts, ...] | None = ()
    """What they were made with; None in old files."""
    command: str = ""
    """The command that prepared them."""

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def in_words(self) -> str:
        """`24 gold traces (coda 16, rag 8)`."""
        return f"{counted(len(self), 'gold trace')} ({counts_in_words(self.made_by)})"

    def counts_by_name(self) -> dict[str, Any]:
        """How much there is to learn from, for people."""
        return {
            "traces": len(self),
            "tokens": len(self.ids),
            "learnt": int(self.actions.sum()),
            "made_by": dict(self.made_by),
            "rejected": dict(self.rejected),
        }

    def batch(self, episodes: Sequence[int]) -> Batch:
        """The chosen episodes as one packed batch in which every action token weighs the same."""
        import numpy as np
        import torch

        from .loss import Layout

        first = np.concatenate([[0], np.cumsum(self.counts)])
        starts = np.concatenate([[0], np.cumsum(self.lengths)])
        chosen = [n for e in episodes for n in range(first[e], first[e + 1])]
        ids = np.concatenate([self.ids[starts[n] : starts[n + 1]] for n in chosen]).astype(np.int64)
        actions = np.concatenate([self.actions[starts[n] : starts[n + 1]] for n in chosen])
        lengths = self.lengths[chosen]
        places = np.flatnonzero(actions)
        trajectory = np.repeat(np.arange(len(chosen)), lengths)[places]
        episode = np.repeat(np.arange(len(episodes)), self.counts[list(episodes)])[trajectory]
        layout = Layout(torch.from_numpy(trajectory), torch.from_numpy(episode), torch.zeros(len(places)).long())
        weights = layout.weights("token-mean")
        if self.weights is not None:
            weights = weights * torch.from_numpy(self.weights[chosen][trajectory])
        return Batch(
            torch.from_numpy(ids),
            torch.from_numpy(lengths.copy()),
            torch.from_numpy(places - 1),
            layout,
            torch.ones(len(places)),
            None,
            weights,
            ("teacher",),
        )

    def fitting(self, window: int, vocabulary: int) -> TraceSet:
        """What a model can learn from: trajectories within its window (teachers have none), of episodes that keep any.
        The others are counted among the rejected."""
        import numpy as np

        if len(self.ids) and int(self.ids.max()) >= vocabulary:
            raise DataError(
                f"the traces have the token {int(self.ids.max())}, the model knows {vocabulary} tokens: "
                "they were prepared for another model; prepare them again"
            )
        fits = self.lengths <= window
        of = np.repeat(np.arange(len(self.counts)), self.counts)  # each trajectory's episode
        counts = np.bincount(of[fits], minlength=len(self.counts))
        if fits.all() and counts.all():
            return self
        tokens = np.repeat(fits, self.lengths)
        left_out = Counter({f"trajectory longer than the window of {window} tokens": int((~fits).sum())})
        return TraceSet(
            self.ids[tokens],
            self.actions[tokens],
            self.lengths[fits],
            counts[counts > 0],
            self.rejected + left_out,
            self.made_by,
            None if self.weights is None else self.weights[fits],
            self.opening,
            self.prompts,
            self.command,
        )

    def save(self, path: Path) -> None:
        """One compressed file; the many repetitions of prompts and passages cost next to nothing."""
        import numpy as np

        head = {
            "format": FORMAT,
            "tokens": len(self.ids),
            "lengths": self.lengths.tolist(),
            "counts": self.counts.tolist(),
            "rejected": dict(self.rejected),
            "made_by": dict(self.made_by),
        }
        if self.opening:
            head["opening"] = self.opening
        if self.prompts is not None:
            head["prompts"] = [to_dict(prompts) for prompts in self.prompts]
        if self.command:
            head["command"] = self.command
        if self.weights is not None:
            head["weights"] = self.weights.tolist()
        path.parent.mkdir(parents=True, exist_ok=True)
        filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 1 << 26}]
        with complete_file(path) as scratch, lzma.open(scratch, "wb", filters=filters) as file:
            file.write(json.dumps(head).encode() + b"\n")
            file.write(self.ids.astype("<u4" if self.ids.max(initial=0) > 0xFFFF else "<u2").tobytes())
            file.write(np.packbits(self.actions).tobytes())

    @classmethod
    def load(cls, path: Path) -> TraceSet:
        import numpy as np

        head, body = read_file(path)
        tokens, masks = head["tokens"], -(-head["tokens"] // 8)
        width = (len(body) - masks) // max(tokens, 1)
        if width not in (2, 4) or len(body) != tokens * width + masks:
            raise DataError(f"{path} is cut short; prepare the traces again")
        return cls(
            np.frombuffer(body, f"<u{width}", tokens).astype(np.uint32),
            np.unpackbits(np.frombuffer(body, np.uint8, masks, tokens * width), count=tokens).astype(np.bool_),
            np.asarray(head["lengths"], np.int64),
            np.asarray(head["counts"], np.int64),
            Counter(head["rejected"]),
            Counter(head["made_by"]),
            np.asarray(head["weights"], np.float32) if "weights" in head else None,
            head.get("opening", ""),
            prompts_in(head),
            head.get("command", ""),
        )


def read_file(path: Path, *, head_only: bool = False) -> tuple[dict[str, Any], bytes]:
    """What a file says about its traces, and the traces."""
    try:
        with lzma.open(path, "rb") as file:
            head = json.loads(file.readline())
            body = b"" if head_only else file.read()
    except (OSError, lzma.LZMAError, EOFError, ValueError, RecursionError) as error:
        raise DataError(f"{path} does not contain prepared traces: {error}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DataError(f"{path} does not contain prepared traces of the form {FORMAT}; prepare them again")
    return head, body


def prompts_in(head: dict[str, Any]) -> tuple[TracePrompts, ...] | None:
    return checked(tuple[TracePrompts, ...], head["prompts"], "prompts", error=DataError) if "prompts" in head else None


def traces_of(
    episodes: Iterable[Episode],
    rejected: Counter[str] | None = None,
    roles: Sequence[str] = (),
    weight: float = 1.0,
    prompts: TracePrompts | None = None,
) -> TraceSet:
    """Episodes as arrays; trajectories in which nothing was written, or of other roles, are left out."""
    import numpy as np

    ids: list[Any] = []
    actions: list[Any] = []
    counts: list[int] = []
    made_by: Counter[str] = Counter()
    for episode in episodes:
        before = len(ids)
        for trajectory in episode.trajectories:
            mask = np.asarray(trajectory.action_mask, np.bool_)
            if mask.any() and (not roles or trajectory.role in roles):
                ids.append(np.asarray(trajectory.token_ids, np.uint32))
                actions.append(mask)
        counts.append(len(ids) - before)
        made_by[episode.system] += 1
    return TraceSet(
        np.concatenate([np.zeros(0, np.uint32), *ids]),
        np.concatenate([np.zeros(0, np.bool_), *actions]),
        np.asarray([len(i) for i in ids], np.int64),
        np.asarray(counts, np.int64),
        rejected or Counter(),
        made_by,
        None if weight == 1.0 else np.full(len(ids), weight, np.float32),
        prompts=(prompts,) if prompts else (),
    )


def join(parts: Sequence[TraceSet]) -> TraceSet:
    import numpy as np

    return TraceSet(
        np.concatenate([p.ids for p in parts]),
        np.concatenate([p.actions for p in parts]),
        np.concatenate([p.lengths for p in parts]),
        np.concatenate([p.counts for p in parts]),
        sum((p.rejected for p in parts), Counter()),
        sum((p.made_by for p in parts), Counter()),
        None
        if all(p.weights is None for p in parts)
        else np.concatenate([np.ones(len(p.lengths), np.float32) if p.weights is None else p.weights for p in parts]),
        prompts=prompts_of_all([p.prompts for p in parts]),
    )


def counts_in_words(counts: Mapping[str, int]) -> str:
    """`coda 16, rag 8`, or `none`."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
