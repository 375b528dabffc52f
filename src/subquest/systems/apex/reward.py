"""APEX-Searcher's plan reward: SEPR between the planner's plan and the gold decomposition."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...data.gold_plans import gold_plan
from ...errors import DataError
from ...metrics.embeddings import Embedder, default_embedder
from ...metrics.plans import MINILM_TAU, score_plans
from ...record import Episode
from ...rewards import Reward, RewardFunction
from .plan import written_plan


@dataclass(frozen=True, slots=True)
class APEXPlanReward:
    """The planner alone is rewarded; a plan outside `<plan>` is no plan."""

    reads_quotes: ClassVar[bool] = False
    embedder: Embedder | None = None
    """None is MiniLM, loaded at the first use."""
    tau: float = MINILM_TAU

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        for e in episodes:
            if not e.question.decomposition:
                raise DataError(f"question {e.question.id!r} has no gold decomposition, which the plan reward needs")
        plans = [written_plan(e) for e in episodes]
        golds = [gold_plan(e.question) for e in episodes]
        scores = score_plans(plans, golds, self.embedder or default_embedder(), tau=self.tau)
        return [
            Reward(
                s.f1,
                {"sepr": s.f1, "sepr_precision": s.precision, "sepr_recall": s.recall, "plan_steps": float(len(plan))},
                {"planner": s.f1},
            )
            for plan, s in zip(plans, scores, strict=True)
        ]


REWARDS: Mapping[str, Callable[[], RewardFunction]] = {"apex-plan": APEXPlanReward}
LOSSES: Mapping[str, Mapping[str, Any]] = {"apex": {"aggregation": "sequence-mean", "kl": 0.01, "entropy": 0.01}}
