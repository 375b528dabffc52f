"""What the claims count of an episode, beside the metrics of every evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..data.gold_plans import gold_plan
from ..evaluate.score import score
from ..judge.base import AnswerCase
from ..judge.rules import judge_answer
from ..metrics.plans import score_plans
from ..record import Episode, Question
from ..systems.apex.plan import written_plan

COSTS = (
    "forced", "failed", "no_answer", "prompt_tokens", "completion_tokens", "peak_context", "model_calls", "searches",
    "tool_calls", "trajectories", "support_recall",
)  # fmt: skip


HELPERS = ("coordinator", "explorer", "intent", "reader")
"""Roles that help with a sub-task which another context carries out."""


def scores_of(episode: Episode) -> tuple[dict[str, float], list[str]]:
    """Metrics and costs of an episode, and its plan. `judge` is DECOR's judgement of answers, by rule."""
    every = score(episode)
    question = episode.question
    kept = {m: every[m] for m in ("em", "f1", "cem")}
    kept |= {m: v for m, v in every.items() if m in COSTS or m.startswith(("peak_", "tokens_"))}
    verdict = judge_answer(AnswerCase(question.question, question.answers, episode.answer))
    tasks = sum(1 for t in episode.contexts if t.parent is not None and t.role not in HELPERS)
    written = episode.by_role("planner")
    kept |= {
        "judge": float(bool(verdict.yes)),
        "tasks": float(tasks),
        "idle": float(tasks == 0),
        "overflow": float(any(e.kind == "limit" and e.data.get("what") == "context window" for e in episode.events)),
        "interactions": every["searches"] + every["tool_calls"],
    }
    if written:
        tokens = sum(len(s.token_ids) for t in written for s in t.segments if s.kind == "agent")
        kept["written_planner"] = tokens / len(written)
    return kept, written_plan(episode)


def plan_scores(questions: Sequence[Question], plans: Sequence[Sequence[str]], embedder: Any) -> list[float | None]:
    """SEPR of each plan; None for questions without a gold plan."""
    known = [n for n, q in enumerate(questions) if q.decomposition]
    golds = [gold_plan(questions[n]) for n in known]
    found = score_plans([plans[n] for n in known], golds, embedder)
    out: list[float | None] = [None] * len(questions)
    for n, s in zip(known, found, strict=True):
        out[n] = s.f1
    return out
