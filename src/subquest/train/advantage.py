"""Advantages: how much better a rollout did than the other rollouts of its question.

Baselines are over rollouts, never over rows. A rollout has one planner and any number of executors; counting each of
its trajectories would let rollouts with many of them dominate the mean. Three rollouts with rewards 1, 0 and
0.5 get +1, -1 and 0, however many trajectories each has.

    by = "rollout"   one reward a rollout, one baseline a question; all its trajectories share it (CoDA eq. 2)
    by = "role"      one reward a rollout and role, one baseline a question and role (DECOR eq. 6)
    by = "step"      the same baseline, but each trajectory is measured by its own step's reward

A group without spread gets zero, and so does a group of one: there is nothing to compare with.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from ..record import Episode, Question
from ..rewards import Reward
from ..systems.registry import declared

Spread = Literal["sample", "population", "none"]
By = Literal["rollout", "role", "step"]

_NOISE = 1e-9
"""Spread caused by rounding alone, relative to the size of the rewards."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a group's rewards become advantages: (reward - mean) / (std + epsilon)."""

    std: Spread = "sample"
    """sample divides by n - 1, population by n, none leaves the difference to the mean as it is (Dr. GRPO)."""
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.std not in ("sample", "population", "none"):
            raise UsageError(f"unknown kind of standard deviation {self.std!r}: sample, population or none")
        if not self.epsilon >= 0:
            raise UsageError(f"epsilon is {self.epsilon}, but cannot be negative")


_PEERS: Mapping[str, Baseline] = {
    "dr-grpo": Baseline("none"),
    "trl": Baseline("sample", 1e-4),
    "verl": Baseline("sample", 1e-6),
}


def baselines_for(system: str = "") -> dict[str, Baseline]:
    """Baselines by name: those that systems declare (`systems/NAME/reward.py`) and the peers'."""
    found = declared("reward", "BASELINES", system)
    return {**{name: Baseline(**options) for name, options in found.items()}, **_PEERS}


BASELINES: Mapping[str, Baseline] = baselines_for()


def group_advantages(
    rewards: Sequence[float], groups: Sequence[Hashable], baseline: Baseline = BASELINES["coda"]
) -> list[float]:
    """The advantage of each reward among those of its group."""
    members: dict[Hashable, list[int]] = {}
    for at, group in enumerate(groups):
        members.setdefault(group, []).append(at)
    out = [0.0] * len(rewards)
    for chosen in members.values():
        values = [rewards[at] for at in chosen]
        if not all(map(math.isfinite, values)):
            raise UsageError(f"a reward is not a finite number: {values}")
        mean, std = _statistics(values, baseline.std)
        if std is None:
            continue
        for at in chosen:
            out[at] = (rewards[at] - mean) / (std + baseline.epsilon)
    return out


def trajectory_advantages(
    episodes: Sequence[Episode],
    rewards: Sequence[Reward],
    baseline: Baseline = BASELINES["coda"],
    *,
    by: By = "rollout",
) -> list[dict[str, float]]:
    """For each episode, the advantage of each of its trajectories, by trajectory id.

    A trajectory whose role has no reward (DECOR's frozen compressor, APEX's executor while the plan is rewarded) gets
    none and stays out of the loss; a reward without roles applies to all.
    """
    if len(episodes) != len(rewards):
        raise UsageError(f"{len(episodes)} episodes beside {len(rewards)} rewards")
    keys = [question_key(e.question) for e in episodes]
    if by == "rollout":
        values = group_advantages([r.total for r in rewards], keys, baseline)
        return [
            {t.id: value for t in e.trajectories if not r.roles or t.role in r.roles}
            for e, r, value in zip(episodes, rewards, values, strict=True)
        ]
    if by not in ("role", "step"):
        raise UsageError(f"advantages by {by!r} are unknown: rollout, role or step")
    out: list[dict[str, float]] = [{} for _ in episodes]
    for role in sorted({role for r in rewards for role in r.roles}):
        having = [i for i, r in enumerate(rewards) if role in r.roles]
        statistics: dict[Hashable, tuple[float, float | None]] = {}
        for key in {keys[i] for i in having}:
            statistics[key] = _statistics([rewards[i].roles[role] for i in having if keys[i] == key], baseline.std)
        for i in having:
            mean, std = statistics[keys[i]]
            for t in (t for t in episodes[i].trajectories if t.role == role):
                step = rewards[i].steps.get(t.part_of or t.id) if by == "step" else None
                value = rewards[i].roles[role] if step is None else step
                out[i][t.id] = 0.0 if std is None else (value - mean) / (std + baseline.epsilon)
    return out


def with_spread(episodes: Sequence[Episode], rewards: Sequence[Reward], *, by: By = "rollout") -> list[bool]:
    """Whether each episode's group can be learnt from: its rewards (or those of some role) differ.

    Dynamic sampling drops whole groups without spread and asks new questions in their place, never single rollouts.
    """
    keys = [question_key(e.question) for e in episodes]
    alive: set[Hashable] = set()
    for key in set(keys):
        group = [r for k, r in zip(keys, rewards, strict=True) if k == key]
        columns: list[list[float]] = [[r.total for r in group]]
        if by != "rollout":
            columns = [
                [r.roles[role] for r in group if role in r.roles] for role in {x for r in group for x in r.roles}
            ]
        if any(_statistics(column, "population")[1] is not None for column in columns):
            alive.add(key)
    return [key in alive for key in keys]


def question_key(question: Question) -> tuple[str, str, str]:
    """The key by which rollouts belong to one question. Ids alone are not enough: data sets restart them from 0."""
    return question.dataset, question.id, question.question


def _statistics(values: Sequence[float], kind: Spread) -> tuple[float, float | None]:
    """Mean and standard deviation (1 for "none"); no deviation if the values differ by rounding alone."""
    mean = math.fsum(values) / len(values) if values else 0.0
    if len(values) < 2 or max(values) - min(values) <= _NOISE * max(1.0, *map(abs, values)):
        return mean, None
    if kind == "none":
        return mean, 1.0
    total = math.fsum((v - mean) ** 2 for v in values)
    return mean, math.sqrt(total / (len(values) - 1 if kind == "sample" else len(values)))
