"""What both trainers share: evaluation on dev questions, checkpoints, reports, time.

The best checkpoint is chosen on dev questions, never on test questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Any

from ..evaluate.score import score
from ..metrics import score_answer
from ..record import Episode, Question
from ..rewards import RewardFunction, written_answer
from ..runtime.system import System
from .data import Stream
from .distributed import ALONE, Ranks
from .guards import Guards
from .monitoring import SECONDS_LEFT, STEPS
from .optimiser import Optimiser
from .policy import Policy
from .rollouts import PlannedEpisode, derive_seed, roll_out, searches_of
from .run import TrainRun

ANSWERS: tuple[str, ...] = ("em", "f1", "f1_written")
"""Figures about answers; `f1_written` counts forced ones as empty, as rewards do (`rewards.written_answer`)."""
REPORTED: tuple[str, ...] = ("forced", "searches", "completion_tokens")

Watch = Callable[[int, Mapping[str, float]], None]
"""Called with the number of a step and its figures."""


class Evaluator:
    """Runs the dev questions greedily and keeps the weights with the best F1 of answers given unforced.

    With a `reward` the system writes plans, not answers, and the reward takes the place of EM and F1.
    """

    def __init__(
        self,
        run: TrainRun,
        policy: Policy,
        greedy: System[Any],
        dev: Sequence[Question],
        *,
        reward: RewardFunction | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.run, self.policy, self.greedy, self.reward, self.ranks = run, policy, greedy, reward, ranks
        self.dev = choose_dev_questions(dev, run.recipe.evaluate_questions, sources=len(run.recipe.dev))
        self.best = -1e9

    async def evaluate(self, step: int) -> dict[str, float]:
        """Figures named `dev_...`, also by hops, type and set; empty without dev questions.

        The episodes of the best evaluation are kept.
        """
        if not self.dev:
            return {}
        with self.run.deadline.timed("evaluation"):
            return await self._figures(step)

    async def _figures(self, step: int) -> dict[str, float]:
        recipe = self.run.recipe
        planned = [PlannedEpisode(q, derive_seed(recipe.seed, n, 0), f"dev-{step}-{n}") for n, q in enumerate(self.dev)]
        episodes = await roll_out(self.greedy, self.ranks.share(planned), concurrency=recipe.rollout.concurrency)
        failed, searches = (sum(counts) for counts in zip(*self.ranks.gather(searches_of(episodes)), strict=True))
        Guards(recipe.guards).check(step, {"failed_searches": failed / max(searches, 1)}, episodes)
        mine = [(_labels(e.question), {**score(e), "f1_written": _written_f1(e)}) for e in episodes]
        reported, broken_down, decisive = (*ANSWERS, *REPORTED), "em", "f1_written"
        if self.reward is not None:
            reported, broken_down, decisive = ("reward", *REPORTED), "reward", "reward"
            for (_, scores), reward in zip(mine, await self.reward.score(episodes), strict=True):
                scores["reward"] = reward.total
        scored = [one for part in self.ranks.gather(mine) for one in part]
        figures = {f"dev_{m}": _mean(s[m] for _, s in scored) for m in reported}
        for label in sorted({label for labels, _ in scored for label in labels}):
            figures[f"dev_{broken_down}_{label}"] = _mean(s[broken_down] for labels, s in scored if label in labels)
        if figures[f"dev_{decisive}"] > self.best:
            self.best = figures[f"dev_{decisive}"]
            self.run.save_best(self.policy, {"step": step, **figures})
            self.run.keep(step, episodes)
        return figures


def choose_dev_questions(dev: Sequence[Question], most: int, *, sources: int) -> list[Question]:
    """The dev questions of an evaluation: the first of a single source, an even sample of several sources."""
    if sources < 2 or len(dev) <= most:
        return list(dev[:most])
    return [dev[n * len(dev) // most] for n in range(most)]


def _labels(question: Question) -> set[str]:
    """The groups that a question's score is reported under besides the total: its hops, type and set."""
    return {f"{question.hops}hop" if question.hops else "", question.type, question.dataset} - {""}


def _written_f1(episode: Episode) -> float:
    return score_answer(written_answer(episode), episode.question.answers).f1


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)


class Trainer:
    """One run of training: the part that does not depend on what is learnt from."""

    def __init__(
        self,
        run: TrainRun,
        policy: Policy,
        engine: Any,
        evaluator: Evaluator,
        order: Stream[Any],
        *,
        steps: int,
        updates: int,
        watch: Watch | None,
        ranks: Ranks,
    ) -> None:
        """`order` is the stream of what is learnt from; the whole run takes `steps` with `updates` of the weights."""
        self.run, self.recipe, self.policy, self.engine, self.ranks = run, run.recipe, policy, engine, ranks
        self.evaluator, self.order, self.steps = evaluator, order, steps
        self.optimiser = Optimiser(policy, run.recipe.optimiser, updates, ranks=ranks)
        self.guards = Guards(run.recipe.guards)
        self.step = 0
        self._watch = watch
        self._started: tuple[float, int] | None = None
        """When this process began its first step, and after which step."""
        run.plan(steps)

    def resume(self) -> dict[str, Any]:
        """Go on from the newest checkpoint, if there is one; returns its state."""
        state = self.run.checkpoints.load_latest(self.policy, self.optimiser) or {}
        if state:
            self.step, self.evaluator.best = state["step"], state["best"]
            self.order.position = state["position"]
        return state

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds besides weights and moments."""
        return {"position": self.order.position, "best": self.evaluator.best, "sources": self.run.sources}

    def save(self) -> None:
        """Write a checkpoint."""
        with self.run.deadline.timed("checkpoint"):
            self.run.checkpoints.save(self.step, self.policy, self.optimiser, self.state())

    def refresh_engine(self) -> None:
        """Give the rollout engine the policy's weights."""
        self.engine.refresh(**self.policy.engine_state(), policy=self.step)

    def report(self, figures: Mapping[str, float], episodes: Sequence[Episode] = ()) -> None:
        """Store the figures of a step and some of its episodes, and show the figures."""
        self.run.record(self.step, figures, episodes)
        if self._watch is not None and self.ranks.first:
            self._watch(self.step, {**figures, STEPS: self.steps, **self._time_left()})
        if self._started is None:
            self._started = monotonic(), self.step

    def _time_left(self) -> dict[str, float]:
        """What the steps that are left will take, evaluations included, by those of this process so far."""
        if self._started is None:
            return {}
        since, first = self._started
        return {SECONDS_LEFT: (monotonic() - since) / max(self.step - first, 1) * (self.steps - self.step)}

    def evaluates_after(self, step: int) -> bool:
        """Whether the dev questions are asked after this many steps."""
        return step == self.steps or step % self.recipe.evaluate_every == 0

    def time_is_up(self) -> bool:
        return self.ranks.broadcast(self.run.deadline.is_near(evaluates=self.evaluates_after(self.step + 1)))
