"""Random batches for parity runs: records as our trainer gets them, and their padded form as the peers want it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from subquest.record import Episode, Question, Segment, Trajectory
from subquest.train.batch import Batch, Rollout, pack
from subquest.train.loss import LossSettings

VOCABULARY = 61


@dataclass(frozen=True)
class Padded:
    """[B, P] prompts padded on the left, [B, C] completions on the right; env tokens are 0 in `actions`."""

    prompts: torch.Tensor
    prompt_mask: torch.Tensor
    completions: torch.Tensor
    completion_mask: torch.Tensor
    actions: torch.Tensor
    advantages: torch.Tensor

    def spread(self, values: torch.Tensor) -> torch.Tensor:
        """Values of action tokens, row by row, at their places in [B, C]."""
        out = torch.zeros(self.actions.shape, dtype=values.dtype)
        out[self.actions.bool()] = values
        return out


def random_rollouts(seed: int) -> list[Rollout]:
    """Two to four rollouts of one to four trajectories, agent and environment turns of random length."""
    r = random.Random(seed)

    def ids(least: int, most: int) -> tuple[int, ...]:
        return tuple(r.randrange(1, VOCABULARY) for _ in range(r.randint(least, most)))

    rollouts = []
    for n in range(r.randint(2, 4)):
        trajectories = []
        for m in range(r.randint(1, 4)):
            segments = [Segment("prompt", "p", ids(1, 6))]
            for turn in range(r.randint(1, 3)):
                if turn:
                    segments.append(Segment("env", "e", ids(1, 5)))
                tokens = ids(1, 6)
                segments.append(Segment("agent", "a", tokens, tuple(-r.random() for _ in tokens)))
            trajectories.append(Trajectory(f"{n}-{m}", "executor" if m else "planner", "", segments=tuple(segments)))
        episode = Episode(str(n), Question("q", "q?"), "parity", "parity", trajectories=tuple(trajectories))
        value = r.gauss(0, 1)
        rollouts.append(Rollout(episode, {t.id: value for t in trajectories}))
    return rollouts


def ours(rollouts: list[Rollout], settings: LossSettings) -> Batch:
    return pack(rollouts, aggregation=settings.aggregation, length=settings.length)


def padded(rollouts: list[Rollout]) -> Padded:
    rows = [(t, r.advantages[t.id]) for r in rollouts for t in r.episode.trajectories]
    prompts = [t.segments[0].token_ids for t, _ in rows]
    completions = [tuple(i for s in t.segments[1:] for i in s.token_ids) for t, _ in rows]
    masks = [t.action_mask[len(p) :] for (t, _), p in zip(rows, prompts, strict=True)]
    wide, long = max(map(len, prompts)), max(map(len, completions))

    def left(x: tuple[int, ...]) -> list[int]:
        return [0] * (wide - len(x)) + list(x)

    def right(x: tuple[int, ...]) -> list[int]:
        return list(x) + [0] * (long - len(x))

    return Padded(
        torch.tensor([left(p) for p in prompts]),
        torch.tensor([left((1,) * len(p)) for p in prompts]),
        torch.tensor([right(c) for c in completions]),
        torch.tensor([right((1,) * len(c)) for c in completions]),
        torch.tensor([right(m) for m in masks]),
        torch.tensor([a for _, a in rows], dtype=torch.float32),
    )


def noise(seed: int, shape: Sequence[int]) -> torch.Tensor:
    """Normal noise that is the same on every machine and with every version of torch."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(tuple(shape)).astype(np.float32))
