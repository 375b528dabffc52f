"""The result table of one or more runs: means with intervals, by data set and system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..record import Question
from ..runs import RunStore
from ..runs.reader import Summary
from .stats import auroc, calibration_error, interval, mean

WITH_INTERVALS = ("em", "f1", "cem", "judge", "sepr")
SHARES = ("forced", "failed", "no_answer")


class Scored(NamedTuple):
    """The newest attempt at a question by a system, with its scores."""

    episode: str
    dataset: str
    system: str
    question: Question
    scores: Mapping[str, float]


def scored(store: RunStore) -> list[Scored]:
    """Every question's newest attempt, in an order that does not depend on which finished first."""
    scores: dict[str, dict[str, float]] = {}
    for episode, metric, value in store.scores():
        scores.setdefault(episode, {})[metric] = value
    newest: dict[tuple[str, str, str], Summary] = {}
    for summary in store.summaries():
        key = (summary.dataset, summary.question, summary.system)
        if key not in newest or newest[key].attempt <= summary.attempt:
            newest[key] = summary
    questions = {(q.dataset, q.id): q for q in store.questions()}  # read last: the run may be growing
    return [
        Scored(s.id, s.dataset, s.system, questions[s.dataset, s.question], scores.get(s.id, {}))
        for _, s in sorted(newest.items())
    ]


def table(rows: Iterable[Scored]) -> dict[str, dict[str, dict[str, Any]]]:
    """`{dataset: {system: {"n", "em", "em_low", "em_high", "f1", ...}}}`; plain means for costs."""
    cells: dict[str, dict[str, list[Scored]]] = {}
    for row in rows:
        cells.setdefault(row.dataset, {}).setdefault(row.system, []).append(row)
    return {d: {s: cell(found) for s, found in systems.items()} for d, systems in cells.items()}


def cell(rows: list[Scored]) -> dict[str, Any]:
    """One cell of the table."""
    out: dict[str, Any] = {"n": len(rows)}
    metrics = sorted({metric for row in rows for metric in row.scores})
    for metric in metrics:
        values = [row.scores[metric] for row in rows if metric in row.scores]
        if metric.startswith("tokens_"):  # a role that an episode did without cost it nothing
            values += [0.0] * sum("prompt_tokens" in row.scores and metric not in row.scores for row in rows)
        if metric in WITH_INTERVALS:
            found = interval(values)
            out |= {
                metric: _round(found.mean),
                f"{metric}_low": _round(found.low),
                f"{metric}_high": _round(found.high),
            }
        else:
            out[metric] = _round(mean(values))
    confident = [row for row in rows if "confidence" in row.scores and "em" in row.scores]
    if confident:
        confidences = [row.scores["confidence"] for row in confident]
        right = [row.scores["em"] for row in confident]
        out |= {"ece": _round(calibration_error(confidences, right)), "auroc": _round(auroc(confidences, right))}
    return out


def broken_down(rows: Iterable[Scored], field: str) -> dict[str, list[Scored]]:
    """Rows by a field of the question, or of its meta: hops, type, level, difficulty, ..."""
    groups: dict[str, list[Scored]] = {}
    for row in rows:
        if value := field_of(row.question, field):
            groups.setdefault(value, []).append(row)
    return dict(sorted(groups.items()))


def field_of(question: Question, field: str) -> str:
    """A field of the question, or of its meta, as a text; empty where it says nothing."""
    value = getattr(question, field, None) if hasattr(Question, field) else question.meta.get(field)
    return "" if value in (None, "", ()) else str(value)


def _round(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 6)
