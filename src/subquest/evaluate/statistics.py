"""Statistics for comparisons: bootstrap intervals and paired tests.

500 questions cannot separate systems that are two points apart, so every mean comes with an interval and every
comparison with a p-value. Both use the bootstrap: what the mean might have been with other questions of the same kind.

A resample draws as many values as there are, each any number of times. 14,000 questions and 2,000 resamples are 28
million draws, so

- where there are few distinct values (right and wrong, a difference of the two, the recall of three passages) it is
  enough to draw how often each comes: a binomial for the first, one for the second among the rest, ...
- else numpy draws, where there is one. Python's generator and numpy's make the same numbers from the same state, and
  sums are sums of whole numbers, so the result without numpy is equal to the last bit, only later.
"""

from __future__ import annotations

import importlib
import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

LEVEL = 0.95
"""Of all intervals."""
RESAMPLES = 2000
FEW = 8
"""Up to this many distinct values are drawn by their counts."""
_DRAWS = 1 << 20
"""At a time, by numpy."""


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


def interval(values: Sequence[float]) -> Interval:
    """Mean with a percentile-bootstrap interval. A single value, or equal ones, have an interval of no width."""
    if not values:
        return Interval(math.nan, math.nan, math.nan)
    return Interval(mean(values), *_percentiles(resampled_means(values, 0)))


def compare(a: Sequence[float], b: Sequence[float], *, seed: int = 0) -> Comparison:
    """Paired comparison of two systems on the same questions, in the same order."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} values cannot be paired")
    differences = [x - y for x, y in zip(a, b, strict=True)]
    if not differences:
        return Comparison(0, math.nan, math.nan, math.nan, 1.0, None)
    observed = mean(differences)
    means = resampled_means(differences, seed)
    low, high = _percentiles(means)
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


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    edge = (1 - LEVEL) / 2
    return ordered[int(edge * (len(ordered) - 1))], ordered[math.ceil((1 - edge) * (len(ordered) - 1))]


def resampled_means(values: Sequence[float], seed: int) -> list[float]:
    """The mean of each resample."""
    counts = Counter(values)
    if len(counts) == 1:
        return [float(values[0])] * RESAMPLES
    if not all(map(math.isfinite, counts)):
        return [math.nan] * RESAMPLES
    rng = random.Random(seed)
    if len(counts) <= FEW:
        return _by_counts(counts, rng)
    # Values are rounded so that every sum of n of them is a whole number that a float can hold: 38 bits for 14,000.
    shift = 52 - len(values).bit_length() - math.frexp(max(map(abs, counts)))[1]
    whole = [float(round(math.ldexp(value, shift))) for value in values]
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        sums = _plain_sums(whole, rng)
    else:
        sums = _numpy_sums(whole, rng, numpy)
    return [math.ldexp(total / len(values), -shift) for total in sums]


def _by_counts(counts: Counter[float], rng: random.Random) -> list[float]:
    *first, (last, _) = sorted(counts.items())
    n = counts.total()
    means = []
    for _ in range(RESAMPLES):
        drawn, among, parts = n, n, []
        for value, count in first:
            times = binomial(drawn, count / among, rng.random())
            parts.append(value * times)
            drawn, among = drawn - times, among - count
        means.append(math.fsum([*parts, last * drawn]) / n)
    return means


def binomial(n: int, p: float, uniform: float) -> int:
    """How many of n tries succeed, as a function of a number between 0 and 1: outcomes take their share of it, the
    likeliest first and then by turns above and below, so that few are looked at.
    """
    if n == 0 or p >= 1.0:
        return n
    low = high = mode = min(int((n + 1) * p), n)
    log_share = math.lgamma(n + 1) - math.lgamma(mode + 1) - math.lgamma(n - mode + 1)
    above = below = math.exp(log_share + mode * math.log(p) + (n - mode) * math.log1p(-p))
    odds = p / (1 - p)
    left = uniform - above
    while left >= 0 and above + below > 1e-18:  # beyond that only rounding is left
        above *= (n - high) / (high + 1) * odds
        high += 1
        left -= above
        if left < 0:
            return high
        below *= low / (n - low + 1) / odds
        low -= 1
        left -= below
        if left < 0:
            return low
    return mode


def _plain_sums(values: Sequence[float], rng: random.Random) -> list[float]:
    n, draw = len(values), rng.random
    return [sum([values[int(draw() * n)] for _ in range(n)]) for _ in range(RESAMPLES)]


def _numpy_sums(values: Sequence[float], rng: random.Random, numpy: Any) -> list[float]:
    *key, position = rng.getstate()[1]
    draw = numpy.random.RandomState()
    draw.set_state(("MT19937", numpy.array(key, dtype=numpy.uint32), position))
    n = len(values)
    table = numpy.array(values)
    sums: list[float] = []
    while len(sums) < RESAMPLES:
        rows = min(max(_DRAWS // n, 1), RESAMPLES - len(sums))
        picks = (draw.random_sample((rows, n)) * n).astype(numpy.int64)
        sums += table[picks].sum(axis=1).tolist()
    return sums
