"""Where two arms differ: stored answers by type of question and hops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from .book import Arm, Book
from .measure import Stamps
from .parts import parts_of, prepare
from .results import Results

METRIC, PLANS = "em", "sepr"


class Kind(NamedTuple):
    """Questions of one type and so many hops; of all hops where `hops` is 0."""

    type: str
    hops: int


class Figures(NamedTuple):
    questions: int
    means: Mapping[str, float]
    """By arm: exact match, or the plan's score of an arm that writes plans alone."""


def by_type(
    book: Book, arms: Sequence[Arm], results: Results, stamps: Stamps, *, source: str, data: Path, cache: Path
) -> dict[Kind, Figures]:
    """Means over the questions of a source that every arm has answered."""
    found = [results.arm(arm.id, stamps.of(arm)) for arm in arms]
    units = [dict(result.units) if result is not None else {} for result in found]
    values: dict[Kind, list[list[float]]] = {}
    cache.mkdir(parents=True, exist_ok=True)
    for part in parts_of(book.sources[source], data):
        if not all(part.name in answered for answered in units):
            continue
        ready = prepare(part, cache)
        if any(answered[part.name].questions != ready.digest for answered in units):
            continue
        columns = [u[part.name].metric(PLANS if a.plans else METRIC) for a, u in zip(arms, units, strict=True)]
        for question, *row in zip(ready.questions, *columns, strict=True):
            for hops in (0, question.hops or 0):
                values.setdefault(Kind(question.type or "", hops), []).append(row)
    return {
        kind: Figures(len(rows), {a.id: sum(r[n] for r in rows) / len(rows) for n, a in enumerate(arms)})
        for kind, rows in sorted(values.items())
    }


def told(figures: Mapping[Kind, Figures], arms: Sequence[Arm]) -> str:
    """The figures as a table."""
    heads = ["type", "hops", "questions", *(f"{a.id}{', plan score' if a.plans else ''}" for a in arms)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for kind, found in figures.items():
        cells = [kind.type or "?", str(kind.hops) if kind.hops else "all", str(found.questions)]
        lines.append("| " + " | ".join([*cells, *(f"{found.means[a.id]:.3f}" for a in arms)]) + " |")
    return "\n".join(lines)
