"""BM25 in SQL: the formula of `bm25` for PostgreSQL, and which passages it need not read.

A passage has the numbers of its terms, sorted, and their counts in two arrays. `SCORE` adds up the formula over the
passages that match a condition; `essential` and `has` make that condition from a score that a passage must beat
(MaxScore, as in our own index, extended to pairs).
"""

from __future__ import annotations

from collections.abc import Sequence

from ..bm25 import ONE

MAX_PAIRS = 300
"""Above this many pairs of terms, their single terms are used instead."""

# Each addend is rounded to a multiple of 1 / ONE and summed as an integer, as in ../bm25.py. A passage's terms are
# sorted, so `width_bucket` finds a position by bisection; OFFSET 0 keeps the planner from computing a column twice.
SCORE = """
SELECT key::text, number, {sum} AS score FROM (
    SELECT key, number, norm, {counts} FROM (
        SELECT key, number, terms, counts, %(k1)s::float8 * (1.0::float8 - %(b)s::float8
            + %(b)s::float8 * length / %(average)s::float8) AS norm, {places}
        FROM {schema}.documents WHERE ({chosen}){facets} OFFSET 0
    ) AS placed OFFSET 0
) AS counted ORDER BY score DESC, number LIMIT %(k)s
"""


def columns(terms: Sequence[int], weights: Sequence[float]) -> dict[str, str]:
    """The columns of SCORE: each term's position in a passage, its count there (NULL for none), and the sum."""
    sums = (
        f"coalesce(floor({weight!r}::float8 * c{i} / (c{i} + norm) * {ONE!r}::float8 + 0.5::float8), 0)"
        for i, weight in enumerate(weights)
    )
    return {
        "places": ", ".join(f"width_bucket({term}, terms) AS p{i}" for i, term in enumerate(terms)),
        "counts": ", ".join(
            f"CASE WHEN terms[p{i}] = {term} THEN counts[p{i}]::float8 END AS c{i}" for i, term in enumerate(terms)
        ),
        "sum": " + ".join(sums),
    }


def essential(weights: dict[int, float], threshold: float) -> tuple[list[int], list[tuple[int, int]]]:
    """What a passage must have to score above the threshold: one of these terms, or one of these pairs of terms.

    A term adds less than its weight. So a passage without a term whose weight alone passes needs two, and the two
    heaviest that it has must pass together with all lighter ones.
    """
    order = sorted(weights, key=lambda number: -weights[number])
    slack = 1e-6  # addends are rounded
    singles = [number for number in order if weights[number] + slack > threshold]
    rest = order[len(singles) :]
    lighter = [0.0] * (len(rest) + 1)
    for i in range(len(rest) - 1, -1, -1):
        lighter[i] = lighter[i + 1] + weights[rest[i]]
    pairs = [
        (rest[i], rest[j])
        for i in range(len(rest))
        for j in range(i + 1, len(rest))
        if weights[rest[i]] + lighter[j] + slack > threshold
    ]
    if len(pairs) > MAX_PAIRS:
        return sorted({*singles, *(number for pair in pairs for number in pair)}), []
    return singles, pairs


def has(singles: Sequence[int], pairs: Sequence[tuple[int, int]]) -> str:
    """The condition that a passage has one of the terms or one of the pairs, in a form that the GIN index supports."""
    parts = [f"terms @> ARRAY[{one}, {other}]" for one, other in pairs]
    if singles:
        parts.append(f"terms && ARRAY[{', '.join(map(str, singles))}]")
    return " OR ".join(parts)
