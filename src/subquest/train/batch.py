"""Batches of trajectories laid end to end, without padding.

A batch holds whole trajectories as one long row of tokens. The positions that predict an action token are listed in
`rows`; everything the loss needs is stored alongside, one entry per action token. An optimiser step takes a mini-batch
of whole rollouts (`minibatches`), so the number of steps depends on the number of rollouts and not of executors; a
mini-batch goes through the model in micro-batches that fit the memory (`Batch.split`).
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import ConfigError, DataError, UsageError
from ..record import Episode, Segment, Trajectory
from .loss import Aggregation, Layout
from .operations import to_device
from .prefixes import Beginnings, Distinct, share_prefixes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode with the advantages of its trajectories: mini-batches consist of whole rollouts."""

    episode: Episode
    advantages: Mapping[str, float] = field(default_factory=dict)
    """By trajectory id. A trajectory that is not listed is left out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Trajectories end to end. N trajectories, T tokens, A action tokens."""

    token_ids: Tensor
    """[T]"""
    lengths: Tensor
    """[N] tokens of each trajectory; always on the CPU, which plans the device's work with them"""
    rows: Tensor
    """[A] positions whose next token is an action"""
    layout: Layout
    """[A] trajectory (0 to N - 1), rollout and role of each action token"""
    advantages: Tensor
    """[A]"""
    behaviour: Tensor | None
    """[A] log-probs as the rollout engine sampled them, where every trajectory has them"""
    weights: Tensor
    """[A] weight of each action token in the loss of the optimiser step"""
    roles: tuple[str, ...] = ()
    """Names of the role indices in `layout`."""
    places: Tensor | None = None
    """[A] index of each action token in the batch that this one was selected from"""
    distinct: Distinct | None = None
    """The tokens that go through the model, where trajectories share their beginnings"""
    older: Tensor | None = None
    """[A] whether weights before the last update sampled the action token; None where none was"""

    @property
    def computed(self) -> int:
        """Tokens that go through the model"""
        return (self.distinct or self).token_ids.numel()

    @property
    def pairs(self) -> int:
        """Queries times the keys that each sees"""
        queries, keys = self.lengths, self.lengths
        if self.distinct is not None:
            packing = self.distinct.packing
            queries, keys = torch.tensor(packing.sizes), torch.tensor((packing.of_keys or packing).sizes)
        return int((queries * keys - queries * (queries - 1) // 2).sum())

    @property
    def targets(self) -> Tensor:
        """[A] the action tokens themselves"""
        return self.token_ids[self.rows + 1]

    @property
    def position_ids(self) -> Tensor:
        """[T] position of each token in its own trajectory"""
        starts = self.cu_seqlens[:-1].repeat_interleave(self.lengths)
        return to_device(torch.arange(self.token_ids.numel()) - starts, self.token_ids.device)

    @property
    def cu_seqlens(self) -> Tensor:
        """[N + 1] where each trajectory begins and the last one ends"""
        return torch.cat([self.lengths.new_zeros(1), self.lengths.cumsum(0)])

    def to(self, device: torch.device | str) -> Batch:
        moved = _replace(self, lambda t: to_device(t, device))
        return moved if self.distinct is None else replace(moved, distinct=self.distinct.to(device))

    def select(self, trajectories: Sequence[int]) -> Batch:
        """Some of the trajectories, with the weights they have in the whole batch."""
        chosen = torch.tensor(sorted(trajectories), dtype=torch.long)
        starts, lengths = self.cu_seqlens, self.lengths[chosen]
        spans = zip(starts[chosen].tolist(), starts[chosen + 1].tolist(), strict=True)
        new_index = torch.full_like(self.lengths, -1)
        new_index[chosen] = torch.arange(chosen.numel())
        shift = torch.zeros_like(self.lengths)  # how far each trajectory moves
        shift[chosen] = lengths.cumsum(0) - lengths - starts[chosen]
        place = self.token_ids.device
        index = new_index.to(place)[self.layout.trajectory]
        kept = (index >= 0).nonzero().squeeze(1)
        return Batch(
            torch.cat([self.token_ids[start:end] for start, end in spans]),
            lengths,
            self.rows[kept] + shift.to(place)[self.layout.trajectory[kept]],
            Layout(index[kept], self.layout.rollout[kept], self.layout.role[kept]),
            self.advantages[kept],
            None if self.behaviour is None else self.behaviour[kept],
            self.weights[kept],
            self.roles,
            kept,
            older=None if self.older is None else self.older[kept],
        )

    def sharing(self, fill: int = 0) -> Batch:
        """The batch with common beginnings of trajectories to be computed once, where that saves enough."""
        return replace(self, distinct=share_prefixes(self.token_ids, self.lengths, self.rows, fill=fill))

    def filled(self, step: int, most: int) -> Batch:
        """The batch with tokens and rows in multiples of `step` (tokens up to `most` where that is less): few shapes.

        It is padded with a trajectory that nothing is read from and with rows of weight zero, so losses and gradients
        do not change.
        """
        tokens, rows = self.token_ids.numel(), self.rows.numel()
        end = -(-tokens // step) * step
        missing = (most if tokens <= most < end else end) - tokens
        again = torch.full((-rows % step,), rows - 1)  # the last row once more

        def more(values: Tensor) -> Tensor:
            return torch.cat([values, values[again]])

        return Batch(
            torch.cat([self.token_ids, self.token_ids.new_zeros(missing)]),
            torch.cat([self.lengths, self.lengths.new_full((min(missing, 1),), missing)]),
            more(self.rows),
            Layout(*map(more, self.layout)),
            more(self.advantages),
            None if self.behaviour is None else more(self.behaviour),
            torch.cat([self.weights, self.weights.new_zeros(again.numel())]),
            self.roles,
            None if self.places is None else more(self.places),
            older=None if self.older is None else more(self.older),
        )

    def teaching(self, *, whole: Literal["trajectory", "rollout"] = "trajectory") -> list[int]:
        """The trajectories that contribute to the policy gradient: those whose advantage is not zero.

        A ratio pooled per role needs whole rollouts: there one such trajectory keeps its rollout. Where nothing pulls,
        the shortest unit is kept, so that the optimiser still takes a step (momentum, schedule).
        """
        pulling = set(self.layout.trajectory[self.advantages != 0].tolist())
        units = self._units(whole, None)
        kept = [unit for unit in units if not pulling.isdisjoint(unit)]
        if not kept:
            kept = [min(units, key=lambda unit: int(self.lengths[unit].sum()))]
        return sorted(at for unit in kept for at in unit)

    def bins(
        self,
        max_tokens: int,
        *,
        whole: Literal["trajectory", "rollout"] = "trajectory",
        only: Collection[int] | None = None,
        alike: bool = False,
    ) -> list[list[int]]:
        """Trajectories (all, or `only` some) put together to at most so many tokens; a longer unit goes alone.

        With `alike`, what trajectories of a bin begin with alike counts once (`sharing`), and those that begin alike
        come one after the other. Otherwise the longest units come first. A ratio pooled per role needs whole rollouts
        together; any other loss takes whole trajectories.
        """
        if max_tokens < 1:
            raise UsageError(f"a micro-batch of {max_tokens} tokens cannot hold anything")
        units = self._units(whole, only)
        if alike:
            return self._bins_alike(units, max_tokens)
        sizes = [int(self.lengths[unit].sum()) for unit in units]
        bins: list[tuple[int, list[int]]] = []
        for size, unit in sorted(zip(sizes, units, strict=True), key=lambda pair: -pair[0]):
            room = next((b for b, (used, _) in enumerate(bins) if used + size <= max_tokens), None)
            if room is None:
                bins.append((size, list(unit)))
            else:
                bins[room] = (bins[room][0] + size, bins[room][1] + unit)
        return [chosen for _, chosen in bins]

    def _bins_alike(self, units: Sequence[list[int]], max_tokens: int) -> list[list[int]]:
        beginnings = Beginnings(self.token_ids.cpu(), self.lengths)
        bins: list[list[int]] = []
        inside: list[int] = []  # the ranks of the last bin's trajectories
        used = 0
        for unit in sorted(units, key=lambda unit: beginnings.ranks[unit[0]]):
            size, joined = beginnings.join(unit, inside)
            if not bins or used + size > max_tokens:
                bins.append([])
                used, (size, joined) = 0, beginnings.join(unit, [])
            bins[-1] += unit
            inside, used = joined, used + size
        return bins

    def _units(self, whole: Literal["trajectory", "rollout"], only: Collection[int] | None) -> list[list[int]]:
        """Groups of trajectories that must not be separated."""
        wanted = None if only is None else set(only)
        units: dict[int, list[int]] = {}
        for at, rollout in enumerate(_first(self.layout.rollout, self.layout.trajectory, self.lengths.numel())):
            if wanted is None or at in wanted:
                units.setdefault(rollout if whole == "rollout" else at, []).append(at)
        return list(units.values())

    def split(self, max_tokens: int, *, whole: Literal["trajectory", "rollout"] = "trajectory") -> list[Batch]:
        """The batch in micro-batches of at most so many tokens."""
        return [self.select(chosen) for chosen in self.bins(max_tokens, whole=whole)]


def pack(
    rollouts: Sequence[Rollout],
    *,
    aggregation: Aggregation = "token-mean",
    length: float | None = None,
    version: int | None = None,
) -> Batch:
    """One optimiser step's batch: every trajectory that has an advantage and wrote at least one token by itself.
    `version` is that of the weights it will improve: tokens that others sampled are marked (`older`).

    What follows a trajectory's last action is left out, including a forced turn: there is nothing to learn from it, and
    it may exceed the window, beyond which there are no positions.
    """
    roles = tuple(sorted({t.role for r in rollouts for t in r.episode.trajectories}))
    chosen: list[tuple[int, str, Sequence[Segment], float]] = []
    for at, rollout in enumerate(rollouts):
        for t in rollout.episode.trajectories:
            if t.id in rollout.advantages and (part := _up_to_last_action(t)):
                _check(t.id, part)
                chosen.append((at, t.role, part, rollout.advantages[t.id]))
    if not chosen:
        why = next((f"; {reason}" for r in rollouts if (reason := _obstacle(r.episode))), "")
        raise DataError(f"nothing to train on: no trajectory has an advantage and tokens of its own{why}")
    segments = [s for _, _, part, _ in chosen for s in part]
    acting = [s for s in segments if s.kind == "agent" and s.token_ids]
    token_ids = _tokens(segments)
    mask = np.repeat([s.kind == "agent" for s in segments], [len(s.token_ids) for s in segments])
    lengths = np.array([sum(len(s.token_ids) for s in part) for _, _, part, _ in chosen])
    actions = np.flatnonzero(mask)
    of = np.repeat(np.arange(len(chosen)), lengths)[actions]  # each action's trajectory
    beside = np.array([(at, roles.index(role)) for at, role, _, _ in chosen]).T
    worth = np.array([advantage for *_, advantage in chosen], np.float32)
    layout = Layout(*(torch.from_numpy(index[of]) for index in (np.arange(len(chosen)), *beside)))
    sampled = all(s.logprobs is not None for s in acting)
    older = [version is not None and s.policy not in (None, version) for s in acting]
    if any(older) and not sampled:
        raise ConfigError("rollouts that begin before an update need an engine that gives log-probs of what it sampled")
    return Batch(
        torch.from_numpy(token_ids),
        torch.from_numpy(lengths),
        torch.from_numpy(actions - 1),
        layout,
        torch.from_numpy(worth[of]),
        torch.from_numpy(_flat((s.logprobs or () for s in acting), np.float32)) if sampled else None,
        layout.weights(aggregation, length=length),
        roles,
        older=torch.from_numpy(np.repeat(older, [len(s.token_ids) for s in acting])) if any(older) else None,
    )


def _tokens(segments: Sequence[Segment]) -> np.ndarray[Any, Any]:
    """The ids of the segments end to end. Prompts are most of them and repeat the same objects: each is read once."""
    known: dict[int, np.ndarray[Any, Any]] = {}
    for segment in segments:
        if id(segment) not in known:
            known[id(segment)] = np.array(segment.token_ids, np.int64)
    return np.concatenate([known[id(segment)] for segment in segments])


def _flat(parts: Iterable[Sequence[Any]], dtype: Any) -> np.ndarray[Any, Any]:
    """Sequences end to end; fast, because a step has about a million tokens and the device waits for them."""
    return np.fromiter(itertools.chain.from_iterable(parts), dtype)


def minibatches(rollouts: Sequence[T], count: int) -> list[list[T]]:
    """`count` mini-batches of whole rollouts, of sizes as equal as possible."""
    if not 1 <= count <= len(rollouts):
        raise UsageError(f"{len(rollouts)} rollouts cannot make {count} mini-batches")
    cuts = [len(rollouts) * i // count for i in range(count + 1)]
    return [list(rollouts[a:b]) for a, b in itertools.pairwise(cuts)]


def _obstacle(episode: Episode) -> str:
    """What stopped an episode; empty if nothing did."""
    for error in episode.errors:
        return f"an episode failed: {error.message}"
    met = next((event.data for event in episode.events if event.kind == "limit"), None)
    return f"an episode met a limit: {met['what']}: {met['message']}" if met else ""


def _check(name: str, segments: Sequence[Segment]) -> None:
    if any(s.text and not s.token_ids for s in segments):
        raise DataError(f"trajectory {name} has text without token ids: train on an engine that shows them")
    if next(s.kind for s in segments if s.token_ids) == "agent":
        raise DataError(f"trajectory {name} begins with an action: nothing predicts its first token")


def _up_to_last_action(trajectory: Trajectory) -> Sequence[Segment]:
    """The segments up to the last action; empty if there is none. A forced turn comes last and is never included."""
    ends = (at for at, own in enumerate(trajectory.actions, 1) if own and trajectory.segments[at - 1].token_ids)
    return trajectory.segments[: max(ends, default=0)]


def _first(values: Tensor, index: Tensor, n: int) -> list[int]:
    """The value of each index (all values of one index are the same)."""
    out = values.new_zeros(n)
    out[index] = values
    return [int(v) for v in out.tolist()]


def _replace(batch: Batch, change: Any) -> Batch:
    return Batch(
        change(batch.token_ids),
        batch.lengths,
        change(batch.rows),
        Layout(*(change(t) for t in batch.layout)),
        change(batch.advantages),
        None if batch.behaviour is None else change(batch.behaviour),
        change(batch.weights),
        batch.roles,
        batch.places,
        batch.distinct,
        None if batch.older is None else change(batch.older),
    )
