"""The rollouts of a step with their rewards: k episodes per question; groups without spread may be replaced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..record import Episode, Question
from ..rewards import Reward, RewardFunction, reads_quotes
from ..runtime.system import System
from .advantage import By, with_spread
from .data import Stream
from .distributed import ALONE, Ranks
from .recipe import Recipe
from .rollouts import Clock, PlannedEpisode, all_ended, begin, derive_seed

REFILLS = 4
"""Rounds of new questions that dynamic sampling tries before it takes what it has."""


class Sampled(NamedTuple):
    """One process's share of a step's rollouts."""

    episodes: list[Episode]
    rewards: list[Reward]
    drawn: int
    """All rollouts, including those of dropped groups."""
    seconds: dict[str, float]


@dataclass(slots=True)
class Begun:
    """The next step, of which some episodes run already."""

    planned: list[PlannedEpisode]
    position: int
    """Of the stream, before its questions were taken."""
    gate: asyncio.Semaphore
    tasks: list[asyncio.Task[Episode]] = field(default_factory=list)
    """The first of its episodes."""


class Sampler:
    """Takes questions from the stream, the same on every process, and rolls out this process's share of them.

    With `rollout.ahead` the places of episodes that ended are filled with episodes of the next step while the last ones
    of this step run. These are finished in the next step, by its weights; every turn records the weights that wrote it.
    """

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
        self.begun: Begun | None = None

    async def sample(self, step: int, *, ahead: bool = False) -> Sampled:
        """The rollouts of a step. `ahead` allows episodes of the next one to begin."""
        r = self.recipe.rollout
        clock = Clock()
        episodes: list[Episode] = []
        rewards: list[Reward] = []
        drawn, wanted = 0, r.questions
        last: tuple[list[Episode], list[Reward]] = ([], [])
        for refill in range(REFILLS if r.dynamic else 1):
            begun, self.begun = self.begun, None
            gate = begun.gate if begun else asyncio.Semaphore(r.concurrency)
            asked = begun.planned if begun else self._planned(step, refill, self.questions.take(wanted))
            tasks = begun.tasks if begun else []
            tasks += [begin(self.system, plan, gate) for plan in asked[len(tasks) :]]
            if ahead and r.ahead:
                position = self.questions.position
                self.begun = Begun(self._planned(step + 1, 0, self.questions.take(r.questions)), position, gate)
                self._fill(tasks, self.begun)
            found = await all_ended(tasks, self._progress_of(len(asked)))
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
        return Sampled(episodes, rewards, drawn, clock.laps)

    def _fill(self, tasks: Sequence[asyncio.Task[Episode]], following: Begun) -> None:
        """Begin an episode of the following step whenever one ends, while few and not none of this step's run."""
        least = min(round(self.recipe.rollout.ahead * len(tasks)), self.recipe.rollout.concurrency)

        def fill(_: object = None) -> None:
            left = sum(not task.done() for task in tasks)
            running = left + sum(not task.done() for task in following.tasks)
            waiting = following.planned[len(following.tasks) :] if left and self.begun is following else []
            for plan in waiting[: max(0, least - running)]:
                following.tasks.append(begin(self.system, plan, following.gate))
                following.tasks[-1].add_done_callback(fill)

        for task in tasks:
            task.add_done_callback(fill)

    async def forget_begun(self) -> None:
        """Stop the episodes of the next step: their questions are asked again."""
        if self.begun is not None:
            begun, self.begun = self.begun, None
            self.questions.position = begun.position
            for task in begun.tasks:
                task.cancel()
            await asyncio.gather(*begun.tasks, return_exceptions=True)

    def _planned(self, step: int, refill: int, questions: Sequence[Question]) -> list[PlannedEpisode]:
        """The episodes of this process. Seeds and names depend on the position alone, never on timing or processes.
        Quotes are chosen where the reward or the run's folder may need them, which keeps the first question's."""
        seed = derive_seed(self.recipe.seed, step, refill)
        name = f"step-{step + 1:05d}" + (f"-refill-{refill}" if refill else "")
        quoted = reads_quotes(self.reward) or self.recipe.rollout.dynamic  # which may drop the first question
        return [
            PlannedEpisode(
                question, derive_seed(seed, number, member), f"{name}-{number:03d}-{member}", number == 0 or quoted
            )
            for number, question in self.ranks.share(list(enumerate(questions)))
            for member in range(self.recipe.rollout.group)
        ]

    def _progress_of(self, total: int) -> Callable[[int], None] | None:
        if self._progress is None:
            return None
        show = self._progress
        return lambda done: show(f"rolling out: {done} of {total} episodes")
