"""The rollouts of a step with their rewards: k episodes per question; groups without spread may be replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..record import Episode, Question
from ..rewards import Reward, RewardFunction
from ..runtime.system import System
from .advantage import By, with_spread
from .data import Stream
from .distributed import ALONE, Ranks
from .recipe import Recipe
from .rollouts import Clock, PlannedEpisode, derive_seed, roll_out

REFILLS = 4
"""Rounds of new questions that dynamic sampling tries before it takes what it has."""


class Sampled(NamedTuple):
    """One process's share of a step's rollouts."""

    episodes: list[Episode]
    rewards: list[Reward]
    drawn: int
    """All rollouts, including those of dropped groups."""
    version: int
    """The version of the weights that sampled them: the number of steps taken."""
    seconds: dict[str, float]


class Sampler:
    """Takes questions from the stream, the same on every process, and rolls out this process's share of them."""

    def __init__(
        self,
        recipe: Recipe,
        system: System[Any],
        questions: Stream[Question],
        reward: RewardFunction,
        *,
        by: By,
        ranks: Ranks = ALONE,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        self.recipe, self.system, self.questions, self.reward = recipe, system, questions, reward
        self.by, self.ranks, self._progress = by, ranks, progress

    async def sample(self, step: int, version: int) -> Sampled:
        """The rollouts of a step, sampled by the weights of a version."""
        r = self.recipe.rollout
        clock = Clock()
        episodes: list[Episode] = []
        rewards: list[Reward] = []
        drawn, wanted = 0, r.questions
        last: tuple[list[Episode], list[Reward]] = ([], [])
        for refill in range(REFILLS if r.dynamic else 1):
            asked = self._planned(step, refill, self.questions.take(wanted))
            found = await roll_out(
                self.system, asked, concurrency=r.concurrency, progress=self._progress_of(len(asked))
            )
            clock.lap("rollout")
            scored = await self.reward.score(found)
            clock.lap("reward")
            drawn += len(found)
            if found:  # with more processes than new questions, some have none
                last = found, scored
            alive = with_spread(found, scored, by=self.by) if r.dynamic else [True] * len(found)
            episodes += [e for e, kept in zip(found, alive, strict=True) if kept]
            rewards += [x for x, kept in zip(scored, alive, strict=True) if kept]
            wanted = r.questions - sum(self.ranks.gather(len(episodes))) // r.group
            if not wanted:
                break
        if not episodes:  # nothing to learn from, but every process takes part in the update
            episodes, rewards = last[0][-r.group :], last[1][-r.group :]
        return Sampled(episodes, rewards, drawn, version, clock.laps)

    def _planned(self, step: int, refill: int, questions: Sequence[Question]) -> list[PlannedEpisode]:
        """The episodes of this process. Seeds and names depend on the position alone, never on timing or processes."""
        seed = derive_seed(self.recipe.seed, step, refill)
        name = f"step-{step + 1:05d}" + (f"-refill-{refill}" if refill else "")
        return [
            PlannedEpisode(question, derive_seed(seed, number, member), f"{name}-{number:03d}-{member}")
            for number, question in self.ranks.share(list(enumerate(questions)))
            for member in range(self.recipe.rollout.group)
        ]

    def _progress_of(self, total: int) -> Callable[[int], None] | None:
        if self._progress is None:
            return None
        show = self._progress
        return lambda done: show(f"rolling out: {done} of {total} episodes")
