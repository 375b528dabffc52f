"""The result table of one or more runs: means with intervals, by data set and system."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..metrics import Calibration, calibration
from ..record import Question
from ..runs import RunStore, Summary
from .statistics import interval, mean

WITH_INTERVALS = ("em", "f1", "cem", "judge", "sepr")
CALIBRATION = ("ece", "ece_low", "ece_high", "auroc", "auroc_low", "auroc_high")
_LESS = (
    *("forced", "failed", "no_answer", "judge_undecided", "ece", "seconds", "cost", "model_calls", "tool_calls"),
    *("searches", "trajectories", "turns", "interactions", "prompt_tokens", "completion_tokens", "tokens", "loss"),
    *("errors", "error_rate", "failures", "latency", "unknown_answerable"),
)
_LESS_OF_EACH = ("tokens_", "peak_")
"""How metrics of a role begin."""


class Scored(NamedTuple):
    """The newest attempt at a question by a system, with its scores."""

    episode: str
    dataset: str
    system: str
    question: Question
    scores: Mapping[str, float]


def scored(store: RunStore) -> list[Scored]:
    """Every question's newest attempt, in an order that does not depend on which finished first.

    A score that is no finite number, as programs give where a metric does not apply, is none.
    """
    scores: dict[str, dict[str, float]] = {}
    for episode, metric, value in store.scores():
        if math.isfinite(value):
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


def less_is_better(metric: str) -> bool:
    """Whether a lower mean is the better one: of costs and of what goes wrong. Of what we do not know, more is."""
    return metric in _LESS or metric.startswith(_LESS_OF_EACH)


def values_of(rows: Iterable[Scored], metric: str) -> dict[int, float]:
    """What a metric gave the rows of one system that it applies to, by their place among them."""
    found = {at: row.scores for at, row in enumerate(rows)}
    values = {at: scores[metric] for at, scores in found.items() if metric in scores}
    if values and metric.startswith("tokens_"):  # a role that an episode did without cost it nothing
        values |= {at: 0.0 for at, scores in found.items() if at not in values and "prompt_tokens" in scores}
    return dict(sorted(values.items()))


def table(rows: Iterable[Scored], *, metric: str = "em") -> dict[str, dict[str, dict[str, Any]]]:
    """`{dataset: {system: {"n", "em", "em_low", "em_high", "f1", ...}}}`; plain means for costs but for `metric`."""
    cells: dict[str, dict[str, list[Scored]]] = {}
    for row in rows:
        cells.setdefault(row.dataset, {}).setdefault(row.system, []).append(row)
    return {d: {s: cell(found, metric=metric) for s, found in systems.items()} for d, systems in cells.items()}


def cell(rows: list[Scored], *, metric: str = "em") -> dict[str, Any]:
    """One cell of the table; `metric` has an interval whatever it is."""
    out: dict[str, Any] = {"n": len(rows)}
    for name in sorted({name for row in rows for name in row.scores}):
        values = list(values_of(rows, name).values())
        if name in (*WITH_INTERVALS, metric):
            found = interval(values)
            out |= {name: _round(found.mean), f"{name}_low": _round(found.low), f"{name}_high": _round(found.high)}
        else:
            out[name] = _round(mean(values))
    if (calibrated := calibration_of(rows)) is not None:
        out |= {name: _round(getattr(calibrated, name)) for name in CALIBRATION}
    for name, kind in (
        ("em_supported", (1.0, 0.0)),
        ("em_parts_supported", (0.0, 1.0)),
        ("em_unsupported", (0.0, 0.0)),
    ):
        right = [row.scores["em"] for row in rows if _support(row) == kind and "em" in row.scores]
        out |= {name: _round(mean(right))} if right else {}
    return out


def _support(row: Scored) -> tuple[float | None, float]:
    """Whether an answer is supported, and whether only its parts are."""
    return row.scores.get("supported"), row.scores.get("parts_supported", 0.0)


def calibration_of(rows: Iterable[Scored]) -> Calibration | None:
    """How far confidences can be trusted, where answers have any: against exact match."""
    confident = [row.scores for row in rows if "confidence" in row.scores and "em" in row.scores]
    if not confident:
        return None
    return calibration([scores["confidence"] for scores in confident], [scores["em"] for scores in confident])


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
