"""APEX-Searcher's plan reward: SEPR between the planner's plan and the gold decomposition (seeds 003, 004)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..data.gold_plans import gold_plan
from ..errors import DataError
from ..metrics.embeddings import Embedder, default_embedder
from ..metrics.plans import MINILM_TAU, score_plans
from ..protocol import parse
from ..record import Episode
from ..systems.plan import lines_of
from .base import Reward


@dataclass(frozen=True, slots=True)
class PlanReward:
    """The planner alone is rewarded; a plan outside `<plan>` is no plan."""

    embedder: Embedder | None = None
    """None is MiniLM, loaded at the first use."""
    tau: float = MINILM_TAU

    async def score(self, episodes: Sequence[Episode]) -> list[Reward]:
        for e in episodes:
            if not e.question.decomposition:
                raise DataError(f"question {e.question.id!r} has no gold decomposition, which the plan reward needs")
        plans = [plan_of(e) for e in episodes]
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


def plan_of(episode: Episode) -> list[str]:
    """The sub-questions as the planner wrote them, before any repair; empty where it wrote no `<plan>`."""
    for t in episode.by_role("planner"):
        block = parse("\n".join(t.written_turns)).last("plan")
        if block is not None:
            return lines_of(block.content)
    return []
