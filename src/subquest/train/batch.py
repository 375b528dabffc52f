"""Batches of trajectories laid end to end, without padding.

A batch holds whole trajectories as one long row of tokens. The positions that predict an action token are listed in
`rows`; everything the loss needs stands beside them, one entry an action token. An optimiser step takes a mini-batch
of whole rollouts (`minibatches`), so the number of steps depends on how many rollouts there are and not on how many
executors ran; a mini-batch goes through the model in micro-batches that fit the memory (`Batch.split`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from ..errors import DataError, UsageError
from ..record import Episode, Trajectory
from .loss import Aggregation, Layout

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rollout:
    """An episode with what its trajectories are worth: the unit that mini-batches are cut by."""

    episode: Episode
    advantages: Mapping[str, float] = field(default_factory=dict)
    """By trajectory id. A trajectory that is not listed is left out."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Trajectories end to end. N trajectories, T tokens, A action tokens."""

    token_ids: Tensor
    """[T]"""
    lengths: Tensor
    """[N] tokens of each trajectory"""
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
    """[A] where each action token stood in the batch that this one was selected from"""

    @property
    def targets(self) -> Tensor:
        """[A] the action tokens themselves"""
        return self.token_ids[self.rows + 1]

    @property
    def position_ids(self) -> Tensor:
        """[T] position of each token in its own trajectory"""
        starts = self.cu_seqlens[:-1].repeat_interleave(self.lengths)
        return torch.arange(self.token_ids.numel(), device=self.token_ids.device) - starts

    @property
    def cu_seqlens(self) -> Tensor:
        """[N + 1] where each trajectory begins and the last one ends"""
        return torch.cat([self.lengths.new_zeros(1), self.lengths.cumsum(0)])

    def to(self, device: torch.device | str) -> Batch:
        return _replace(self, lambda t: t.to(device, non_blocking=True))

    def select(self, trajectories: Sequence[int]) -> Batch:
        """Some of the trajectories, with the weights they have in the whole batch."""
        starts = self.cu_seqlens.tolist()
        chosen = torch.tensor(sorted(trajectories), dtype=torch.long, device=self.lengths.device)
        tokens = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in chosen.tolist()]).to(chosen.device)
        new_index = torch.full_like(self.lengths, -1)
        new_index[chosen] = torch.arange(chosen.numel(), device=chosen.device)
        new_place = torch.full_like(self.token_ids, -1)
        new_place[tokens] = torch.arange(tokens.numel(), device=tokens.device)
        kept = (new_index[self.layout.trajectory] >= 0).nonzero().squeeze(1)
        return Batch(
            self.token_ids[tokens],
            self.lengths[chosen],
            new_place[self.rows[kept]],
            Layout(new_index[self.layout.trajectory[kept]], self.layout.rollout[kept], self.layout.role[kept]),
            self.advantages[kept],
            None if self.behaviour is None else self.behaviour[kept],
            self.weights[kept],
            self.roles,
            kept,
        )

    def split(self, max_tokens: int, *, whole: Literal["trajectory", "rollout"] = "trajectory") -> list[Batch]:
        """Micro-batches of at most so many tokens (one unit longer than that goes alone), longest units first.

        A ratio pooled per role needs whole rollouts together; any other loss takes whole trajectories.
        """
        if max_tokens < 1:
            raise UsageError(f"a micro-batch of {max_tokens} tokens cannot hold anything")
        units: dict[int, list[int]] = {}
        for at, rollout in enumerate(_first(self.layout.rollout, self.layout.trajectory, self.lengths.numel())):
            units.setdefault(rollout if whole == "rollout" else at, []).append(at)
        lengths = self.lengths.tolist()
        bins: list[tuple[int, list[int]]] = []
        for unit in sorted(units.values(), key=lambda u: -sum(lengths[i] for i in u)):
            size = sum(lengths[i] for i in unit)
            room = next((b for b, (used, _) in enumerate(bins) if used + size <= max_tokens), None)
            if room is None:
                bins.append((size, list(unit)))
            else:
                bins[room] = (bins[room][0] + size, bins[room][1] + unit)
        return [self.select(chosen) for _, chosen in bins]


def pack(rollouts: Sequence[Rollout], *, aggregation: Aggregation = "token-mean", length: float | None = None) -> Batch:
    """One optimiser step's batch: every trajectory that has an advantage and wrote at least one token."""
    roles = tuple(sorted({t.role for r in rollouts for t in r.episode.trajectories}))
    chosen: list[tuple[int, Trajectory, float]] = []
    for at, rollout in enumerate(rollouts):
        for t in rollout.episode.trajectories:
            if t.id in rollout.advantages and any(s.kind == "agent" and s.token_ids for s in t.segments):
                _check(t)
                chosen.append((at, t, rollout.advantages[t.id]))
    if not chosen:
        raise DataError("nothing to train on: no trajectory has an advantage and tokens of its own")
    ids, rows, where, advantages, behaviour = [], [], [], [], []
    sampled = all(s.logprobs is not None for _, t, _ in chosen for s in t.segments if s.kind == "agent" and s.token_ids)
    start = 0
    for n, (at, t, advantage) in enumerate(chosen):
        mask = torch.tensor(t.action_mask, dtype=torch.bool)
        actions = mask.nonzero().squeeze(1)
        ids.append(torch.tensor(t.token_ids, dtype=torch.long))
        rows.append(actions + start - 1)
        where.append(torch.tensor([[n], [at], [roles.index(t.role)]]).expand(3, actions.numel()))
        advantages.append(torch.full((actions.numel(),), advantage, dtype=torch.float32))
        if sampled:
            behaviour.append(torch.tensor(t.logprobs, dtype=torch.float32)[mask])
        start += mask.numel()
    layout = Layout(*torch.cat(where, dim=1))
    return Batch(
        torch.cat(ids),
        torch.tensor([i.numel() for i in ids], dtype=torch.long),
        torch.cat(rows),
        layout,
        torch.cat(advantages),
        torch.cat(behaviour) if sampled else None,
        layout.weights(aggregation, length=length),
        roles,
    )


def minibatches(rollouts: Sequence[T], count: int) -> list[list[T]]:
    """`count` mini-batches of whole rollouts, sizes as equal as they can be."""
    if not 1 <= count <= len(rollouts):
        raise UsageError(f"{len(rollouts)} rollouts cannot make {count} mini-batches")
    cuts = [len(rollouts) * i // count for i in range(count + 1)]
    return [list(rollouts[a:b]) for a, b in itertools.pairwise(cuts)]


def _check(trajectory: Trajectory) -> None:
    if not trajectory.has_tokens:
        raise DataError(f"trajectory {trajectory.id} has text without token ids: train on an engine that shows them")
    if trajectory.action_mask[0]:
        raise DataError(f"trajectory {trajectory.id} begins with an action: nothing predicts its first token")


def _first(values: Tensor, index: Tensor, n: int) -> list[int]:
    """The value that stands beside each index (all values of one index are the same)."""
    out = values.new_zeros(n)
    out[index] = values
    return [int(v) for v in out.tolist()]


def _replace(batch: Batch, change: Any) -> Batch:
    return Batch(
        change(batch.token_ids),
        change(batch.lengths),
        change(batch.rows),
        Layout(*(change(t) for t in batch.layout)),
        change(batch.advantages),
        None if batch.behaviour is None else change(batch.behaviour),
        change(batch.weights),
        batch.roles,
        batch.places,
    )
