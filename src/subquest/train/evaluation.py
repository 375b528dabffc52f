"""Held-out evaluation during training, and the choice of the best checkpoint: on dev questions, never on test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..evaluate.score import score
from ..metrics import score_answer
from ..record import Episode, Question
from ..rewards import RewardFunction, written_answer
from ..runtime.system import System
from .guards import Guards
from .policy import Policy
from .ranks import ALONE, Ranks
from .rollouts import Place, place_seed, roll_out, searches_of
from .run import TrainRun

ANSWERS: tuple[str, ...] = ("em", "f1", "f1_written")
"""Figures about answers; `f1_written` counts forced ones as empty, as rewards do (`rewards.written_answer`)."""
REPORTED: tuple[str, ...] = ("forced", "searches", "completion_tokens")


class Evaluator:
    """Runs the dev questions greedily and keeps the weights that do best by the F1 of the answers they gave unforced.

    With a `reward`, what the system writes is no answer but a plan: the reward takes the place of EM and F1.
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
        self.dev = asked_of(dev, run.recipe.evaluate_questions, sources=len(run.recipe.dev))
        self.best = -1e9

    async def evaluate(self, step: int) -> dict[str, float]:
        """Figures named `dev_...`, by hops, type and set too; empty without dev questions. The best
        evaluation's episodes are kept."""
        if not self.dev:
            return {}
        with self.run.pace.timed("evaluation"):
            return await self._figures(step)

    async def _figures(self, step: int) -> dict[str, float]:
        recipe = self.run.recipe
        places = [Place(q, place_seed(recipe.seed, n, 0), f"dev-{step}-{n}") for n, q in enumerate(self.dev)]
        episodes = await roll_out(self.greedy, self.ranks.share(places), concurrency=recipe.rollout.concurrency)
        searched = self.ranks.gather(searches_of(episodes))
        failed, searches = (sum(counts) for counts in zip(*searched, strict=True))
        Guards(recipe.guards).check(step, {"failed_searches": failed / max(searches, 1)}, episodes)
        mine = [(_labels(e.question), {**score(e), "f1_written": _written_f1(e)}) for e in episodes]
        reported, told, decisive = (*ANSWERS, *REPORTED), "em", "f1_written"
        if self.reward is not None:
            reported, told, decisive = ("reward", *REPORTED), "reward", "reward"
            for (_, scores), reward in zip(mine, await self.reward.score(episodes), strict=True):
                scores["reward"] = reward.total
        scored = [one for part in self.ranks.gather(mine) for one in part]
        figures = {f"dev_{m}": _mean(s[m] for _, s in scored) for m in reported}
        for label in sorted({label for labels, _ in scored for label in labels}):
            figures[f"dev_{told}_{label}"] = _mean(s[told] for labels, s in scored if label in labels)
        if figures[f"dev_{decisive}"] > self.best:
            self.best = figures[f"dev_{decisive}"]
            self.run.save_best(self.policy, {"step": step, **figures})
            self.run.keep(step, episodes)
        return figures


def asked_of(dev: Sequence[Question], most: int, *, sources: int) -> list[Question]:
    """The dev questions of an evaluation: the first of one source, of several alike from all of them."""
    if sources < 2 or len(dev) <= most:
        return list(dev[:most])
    return [dev[n * len(dev) // most] for n in range(most)]


def _labels(question: Question) -> set[str]:
    """What a question's score counts for, apart from all: its hops, type and set."""
    return {f"{question.hops}hop" if question.hops else "", question.type, question.dataset} - {""}


def _written_f1(episode: Episode) -> float:
    return score_answer(written_answer(episode), episode.question.answers).f1


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
