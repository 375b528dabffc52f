"""Compares runs: what each scored, and whether a difference could be chance."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..evaluate.result_table import WITH_INTERVALS, Scored, cell, scored
from ..evaluate.statistics import compare
from .run_library import RunLibrary

MAX_COMPARED = 8
MAX_DIFFERENCES = 200


def compare_runs(library: RunLibrary, names: Sequence[str]) -> dict[str, Any]:
    """Each system of each run is a *side*. All are compared with the first, on the questions that both answered;
    questions are paired by data set, id and text."""
    sides: dict[str, list[Scored]] = {}
    runs: dict[str, str] = {}
    curves: dict[str, dict[str, list[list[float]]]] = {}
    for name in dict.fromkeys(names):
        with library.open(name) as store:
            for row in scored(store):
                label = f"{name} · {row.system}"
                sides.setdefault(label, []).append(row)
                runs[label] = name
        curves[name] = library.curves(name)["curves"]
    return {
        "sides": list(sides),
        "table": _tables(sides),
        "paired": [test for a, b in _pairs(list(sides)) for test in _tests(a, sides[a], b, sides[b])],
        "differences": _differences(sides, runs),
        "curves": curves,
    }


def _pairs(labels: list[str]) -> list[tuple[str, str]]:
    """Every side with the first, and with three or more sides also neighbours."""
    first = [(label, labels[0]) for label in labels[1:]]
    return first + [(b, a) for a, b in pairwise(labels) if a != labels[0]]


def _tables(sides: dict[str, list[Scored]]) -> dict[str, dict[str, dict[str, Any]]]:
    out: dict[str, dict[str, dict[str, Any]]] = {}
    for label, rows in sides.items():
        for dataset in dict.fromkeys(row.dataset for row in rows):
            out.setdefault(dataset, {})[label] = cell([row for row in rows if row.dataset == dataset])
    return out


def _tests(a: str, of_a: list[Scored], b: str, of_b: list[Scored]) -> list[dict[str, Any]]:
    """Paired tests of two sides, for each data set and metric."""
    by_question = {_asked(row): row for row in of_b}
    pairs = [(row, by_question[key]) for row in of_a if (key := _asked(row)) in by_question]
    out = []
    for dataset in dict.fromkeys(row.dataset for row, _ in pairs):
        for metric in WITH_INTERVALS:
            both = [
                (x.scores[metric], y.scores[metric])
                for x, y in pairs
                if x.dataset == dataset and metric in x.scores and metric in y.scores
            ]
            if both:
                found = compare([x for x, _ in both], [y for _, y in both])
                out.append({"dataset": dataset, "a": a, "b": b, "metric": metric, **found._asdict()})
    return out


def _differences(sides: dict[str, list[Scored]], runs: dict[str, str]) -> list[dict[str, Any]]:
    """Questions that some sides answered correctly and others did not, with the episodes."""
    by_question: dict[tuple[str, str, str], dict[str, Scored]] = {}
    for label, rows in sides.items():
        for row in rows:
            by_question.setdefault(_asked(row), {})[label] = row
    out = []
    for (dataset, *_), found in by_question.items():
        right = {label: row.scores.get("em") for label, row in found.items()}
        if len(found) > 1 and len(set(right.values())) > 1:
            question = next(iter(found.values())).question.question
            episodes = {
                label: {"run": runs[label], "episode": row.episode, "em": right[label]} for label, row in found.items()
            }
            out.append({"dataset": dataset, "question": question, "sides": episodes})
    return out[:MAX_DIFFERENCES]


def _asked(row: Scored) -> tuple[str, str, str]:
    return row.dataset, row.question.id, row.question.question
