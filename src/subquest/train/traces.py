"""Gold traces as token arrays: what supervised fine-tuning reads.

An episode of a teacher is kept as the token ids and action masks of its trajectories, nothing else, so that a hundred
thousand of them fit in memory and in a file. They are made from a recipe's sources, which takes a while, or
prepared once and read wherever the training runs.
"""

from __future__ import annotations

import json
import lzma
import shlex
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import assemble
from ..codec import checked, to_dict
from ..engine.chat_format import chat_format_of
from ..engine.torch.loader import Source
from ..engine.torch.vocabulary import Vocabulary
from ..errors import ConfigError, DataError
from ..output_file import complete_file
from ..process import end_with_parent, run_sync
from ..record import Episode
from ..systems.registry import get
from . import rerank_traces as judging
from .batch import Batch
from .data import load_material, open_search, refuse_test
from .instruct import run_pipeline
from .recipe import DataPart, Recipe
from .rollouts import MemoisedSearch
from .teacher import make_traces
from .trace_prompts import TracePrompts, check_prompts, prompts_of_all

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FORMAT = "subquest-traces-1"
OPENING = 64
"""Tokens whose text is kept beside them."""


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
        return f"{len(self):,} gold {'trace' if len(self) == 1 else 'traces'} ({counts_in_words(self.made_by)})"

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

        head, body = _read(path)
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
            _prompts_in(head),
            head.get("command", ""),
        )


def _read(path: Path, *, head_only: bool = False) -> tuple[dict[str, Any], bytes]:
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


def _prompts_in(head: dict[str, Any]) -> tuple[TracePrompts, ...] | None:
    return checked(tuple[TracePrompts, ...], head["prompts"], "prompts", error=DataError) if "prompts" in head else None


def check_prepared(recipe: Recipe, say: Callable[[str], None]) -> None:
    """Refuse prepared traces of other prompts before anything is loaded."""
    for path in (Path(path).expanduser() for path in recipe.traces):
        head, _ = _read(path, head_only=True)
        command = head.get("command") or f"subquest train RECIPE.toml --prepare {shlex.quote(str(path))}"
        check_prompts(path, _prompts_in(head), recipe.prompt_set, f"prepare the traces again: {command}", say)


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


def gold_traces(recipe: Recipe, source: Source, *, workers: int = 1) -> TraceSet:
    """The recipe's prepared traces, or traces of every source in every system's protocol; those that fit the model.

    Sources are worked on side by side: each is generated, indexed and traced in a process of its own.
    """
    if recipe.traces:
        made = join([_prepared(Path(path).expanduser(), recipe, source) for path in recipe.traces])
    else:
        made = _made(recipe, source, workers)
    traces = made.fitting(source.architecture.window, source.architecture.vocabulary)
    if not len(traces):
        raise DataError(f"no question gave a gold trace: {counts_in_words(traces.rejected)}")
    return traces


def opening_of(traces: TraceSet, source: Source) -> str:
    """What the first tokens say to a model."""
    ids = traces.ids[:OPENING].tolist()
    return Vocabulary(source.tokenizer, max(source.architecture.vocabulary, *ids, 0) + 1).decode(ids)


def _prepared(path: Path, recipe: Recipe, source: Source) -> TraceSet:
    traces = TraceSet.load(path)
    tiny = recipe.model.path.startswith("random:")  # makes itself a vocabulary each time
    if traces.opening and not tiny and opening_of(traces, source) != traces.opening:
        raise DataError(
            f"{path} was prepared for another model: {opening_of(traces, source)[:40]!r} is where it had "
            f"{traces.opening[:40]!r}; prepare the traces again"
        )
    return traces


def _made(recipe: Recipe, source: Source, workers: int) -> TraceSet:
    arguments = [(part, recipe, source.tokenizer, source.architecture.vocabulary) for part in recipe.data]
    if workers > 1 and len(arguments) > 1:
        # fresh processes: a fork would copy locks that threads of this one may hold
        with _pool(min(workers, len(arguments))) as pool:
            found = list(pool.map(_make, *zip(*arguments, strict=True)))
    else:
        found = [_make(*a) for a in arguments]
    return join(found)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end when this one is interrupted or killed, not when their work is done."""
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool:
        try:
            yield pool
        except BrokenProcessPool:
            raise DataError(
                "a process that made gold traces was killed, perhaps for want of memory; "
                "prepare the traces of fewer sources at a time (subquest train RECIPE --prepare FILE)"
            ) from None
        except BaseException:
            for process in list(pool._processes.values()):
                process.terminate()
            raise


def _begin() -> None:
    """Ctrl-C goes to all processes of a terminal; the one that was started by hand sees to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def _systems(part: DataPart, recipe: Recipe) -> tuple[str, ...]:
    """The systems whose protocols are taught on a source."""
    return part.systems or recipe.systems or (recipe.system,)


def _refuse_unknown_roles(part: DataPart, recipe: Recipe) -> None:
    """A misspelt role would quietly leave nothing of a source."""
    systems = [s for s in _systems(part, recipe) if s != judging.SYSTEM]
    known = {role: None for system in systems for role in get(system).roles}
    for role in part.roles if systems else ():
        if role not in known:
            raise ConfigError(
                f"{part.questions}: no role {role!r} in {', '.join(systems)}; there are {', '.join(known)}"
            )


def _make(part: DataPart, recipe: Recipe, tokenizer: Any, size: int) -> TraceSet:
    """The traces of a source in all its systems' protocols; its passages are read and indexed once."""
    _refuse_unknown_roles(part, recipe)
    systems = _systems(part, recipe)
    elsewhere = bool(recipe.index) and judging.SYSTEM not in systems
    material = load_material([part], passages_elsewhere=elsewhere, seed=recipe.seed)
    refuse_test(material.questions, "nothing is learnt from it")
    vocabulary, chat = Vocabulary(tokenizer, size), chat_format_of(tokenizer)
    found: list[TraceSet] = []
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        own = None if elsewhere else held.enter_context(open_search(material.documents, folder, material.papers))
        search = assemble.open_search(recipe.index) if recipe.index else MemoisedSearch(own) if own else None
        assert search is not None
        for system in systems:
            if system == judging.SYSTEM:
                assert own is not None
                judged = list(judging.judgements(material.questions, material.documents, own, seed=recipe.seed))
                prompts = TracePrompts(system, {}, judging.prompt_digests())
                episodes = judging.episodes(judged, vocabulary, chat)
                found.append(traces_of(episodes, weight=judging.COUNTS, prompts=prompts))
                continue
            tracing = (search, vocabulary, chat)
            settings = _settings_of(system, part, recipe)
            if recipe.instruct.teacher:
                seeds = material.questions
                making = run_pipeline(recipe.instruct, system, seeds, material.documents, *tracing, **settings)
            else:
                making = make_traces(system, material.questions, *tracing, **settings)
            made = run_sync(making)
            prompts = TracePrompts(system, settings, made.prompts)
            found.append(traces_of(made.episodes, made.rejected, part.roles, prompts=prompts))
    return join(found)


def _settings_of(system: str, part: DataPart, recipe: Recipe) -> dict[str, Any]:
    known = {f.name for f in fields(get(system).Settings)}
    own = {name: value for name, value in recipe.settings.items() if system == recipe.system or name in known}
    searching = {"k": part.k or recipe.k} if "k" in known else {}
    return {"prompts": recipe.prompt_set, "abstain": recipe.abstain, **searching, **own}


def counts_in_words(counts: Mapping[str, int]) -> str:
    """`coda 16, rag 8`, or `none`."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
