"""What an episode is worth in numbers: answer metrics, support, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping

from ..metrics import score_answer
from ..record import Episode


def score(episode: Episode) -> dict[str, float]:
    """All metrics that need no model. Metrics that do not apply to the question are left out."""
    usage = episode.usage
    failed = episode.stop_reason == "failed"
    scores: dict[str, float] = {
        **score_answer(episode.stated_answer, episode.question.answers)._asdict(),
        "forced": float(episode.forced and not failed),  # version 0.1 marked failed episodes as forced too
        "failed": float(failed),
        "no_answer": float(not episode.answer),
        "prompt_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cached_tokens,
        "completion_tokens": usage.completion_tokens,
        "peak_context": usage.peak_context,
        "model_calls": usage.model_calls,
        "searches": usage.searches,
        "tool_calls": usage.tool_calls,
        "seconds": usage.seconds,
        "cost": usage.cost,
        "trajectories": len(episode.contexts),
    }
    for trajectory in episode.trajectories:
        role, spent = trajectory.role, trajectory.usage
        scores[f"peak_{role}"] = max(scores.get(f"peak_{role}", 0), spent.peak_context)
        tokens = spent.prompt_tokens - spent.cached_tokens + spent.completion_tokens
        scores[f"tokens_{role}"] = scores.get(f"tokens_{role}", 0) + tokens
    if episode.question.unanswerable or any(map(episode.settings.get, ("abstain", "only_supported"))):
        kind = "unknown_unanswerable" if episode.question.unanswerable else "unknown_answerable"
        scores[kind] = float(episode.stop_reason == "abstained")
    if episode.supported is not None:
        scores["supported"] = float(episode.supported)
        scores["parts_supported"] = float(episode.parts_supported)
    if episode.confidence is not None:
        scores["confidence"] = episode.confidence
    recall = support_recall(episode)
    if recall is not None:
        scores["support_recall"] = recall
    return scores


def support_recall(episode: Episode) -> float | None:
    """Share of the gold passages that the episode's searches brought back; None where the gold ones are not known.

    Gold passages are compared by id where the searched corpus knows their ids, else by title.
    """
    found_ids: set[str] = set()
    found_titles: set[str] = set()
    for hit in _hits(episode):
        found_ids.add(str(hit["id"]))
        found_titles.add(_title(str(hit["title"])))
    question = episode.question
    if question.supporting_ids and found_ids & set(question.supporting_ids):
        return len(found_ids & set(question.supporting_ids)) / len(set(question.supporting_ids))
    titles = {_title(t) for t in question.supporting_titles}
    if titles:
        return len(titles & found_titles) / len(titles)
    return 0.0 if question.supporting_ids else None


def _hits(episode: Episode) -> list[Mapping[str, object]]:
    return [hit for event in episode.events if event.kind == "documents" for hit in event.data["hits"]]


def _title(text: str) -> str:
    return " ".join(text.casefold().split())
