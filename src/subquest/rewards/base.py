"""What a reward is: a number for an episode, with the terms it is made of and what it means for each role."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..errors import UsageError
from ..record import Episode

Term = Callable[[Episode], float]
"""A user's own reward term: any function of the episode."""


@dataclass(frozen=True, slots=True)
class Reward:
    """What one episode is worth."""

    total: float
    """The reward of the episode as a whole."""
    terms: Mapping[str, float] = field(default_factory=dict)
    """The named parts it is made of, weights included where they add up; logged as they are."""
    roles: Mapping[str, float] = field(default_factory=dict)
    """The reward of each role that acted; where a system rewards all alike, each is the total."""
    steps: Mapping[str, float] = field(default_factory=dict)
    """The reward of single trajectories by id, where the reward function tells a role's steps apart."""

    def __post_init__(self) -> None:
        for name, value in (("total", self.total), *self.terms.items(), *self.roles.items(), *self.steps.items()):
            if not math.isfinite(value):
                raise UsageError(f"the reward {name!r} is {value}: rewards must be finite numbers")

    def plus(self, name: str, value: float, weight: float) -> Reward:
        """With one more term, which counts for the episode and alike for every role and step."""
        extra = weight * value
        return Reward(
            self.total + extra,
            {**self.terms, name: extra},
            {role: r + extra for role, r in self.roles.items()},
            {step: r + extra for step, r in self.steps.items()},
        )


class RewardFunction(Protocol):
    """Scores episodes, many at a time, because judges and encoders work best in batches."""

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]: ...


def written_answer(episode: Episode) -> str:
    """The answer that the policy gave by itself; empty where it was forced or taken from a result.

    Users get such answers. A reward that paid for them would teach to run out of turns.
    """
    return "" if episode.forced else episode.answer


def roles_of(episode: Episode) -> tuple[str, ...]:
    """Roles that wrote at least one turn, in order of appearance."""
    acted = (t.role for t in episode.trajectories if any(s.kind == "agent" for s in t.segments))
    return tuple(dict.fromkeys(acted))


def shared(episode: Episode, terms: Mapping[str, float]) -> Reward:
    """The sum of the terms, as the reward of the episode and of each of its roles."""
    total = math.fsum(terms.values())
    return Reward(total, terms, dict.fromkeys(roles_of(episode), total))
