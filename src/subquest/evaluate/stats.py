"""Statistics for comparisons: intervals and paired tests.

500 questions cannot tell two points apart; every mean comes with an interval, every comparison with a p-value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from .resample import resampled_means


class Interval(NamedTuple):
    mean: float
    low: float
    high: float


class Comparison(NamedTuple):
    """A minus B over the questions both answered."""

    n: int
    difference: float
    low: float
    high: float
    p: float
    """Two-sided, by paired bootstrap."""
    mcnemar: float | None
    """Two-sided exact p-value on right/wrong; None where the metric is not binary."""


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def interval(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> Interval:
    """Mean with a percentile-bootstrap interval. A single value, or equal ones, have an interval of no width."""
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    means = resampled_means(values, seed)
    return Interval(mean(values), *_percentiles(means, level))


def compare(a: Sequence[float], b: Sequence[float], *, level: float = 0.95, seed: int = 0) -> Comparison:
    """Paired comparison of two systems on the same questions, in the same order."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    differences = [x - y for x, y in zip(a, b, strict=True)]
    if not differences:
        return Comparison(0, math.nan, math.nan, math.nan, 1.0, None)
    observed = mean(differences)
    means = resampled_means(differences, seed)
    low, high = _percentiles(means, level)
    # Shifted to the null hypothesis of no difference; the observed sample counts as one resample, so p is never 0.
    extreme = sum(1 for m in means if abs(m - observed) >= abs(observed) - 1e-12)
    # Were the signs of the differences chance, they would all agree in two of 2^m cases; so few questions say no more.
    chance = 2.0 ** (1 - sum(1 for d in differences if d))
    p = max((extreme + 1) / (len(means) + 1), min(chance, 1.0))
    binary = all(v in (0.0, 1.0) for v in (*a, *b))
    return Comparison(len(a), observed, low, high, p, mcnemar(a, b) if binary else None)


def mcnemar(a: Sequence[float], b: Sequence[float]) -> float:
    """Exact McNemar test: of the questions that only one got right, could a fair coin have split them so?"""
    only_a = sum(1 for x, y in zip(a, b, strict=True) if x > y)
    only_b = sum(1 for x, y in zip(a, b, strict=True) if x < y)
    n, smaller = only_a + only_b, min(only_a, only_b)
    if n == 0:
        return 1.0
    tail = ways = 1
    for i in range(smaller):
        ways = ways * (n - i) // (i + 1)
        tail += ways
    return min(1.0, float(2 * tail / 2**n))


def _percentiles(values: Sequence[float], level: float) -> tuple[float, float]:
    ordered = sorted(values)
    edge = (1 - level) / 2
    return ordered[int(edge * (len(ordered) - 1))], ordered[math.ceil((1 - edge) * (len(ordered) - 1))]
