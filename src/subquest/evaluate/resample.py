"""Bootstrap resamples: what the mean might have been with other questions from the same place.

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
from typing import Any

RESAMPLES = 2000
FEW = 8
"""Up to so many distinct values are drawn by their counts."""
_DRAWS = 1 << 20
"""At a time, by numpy."""


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
    # A value in so many bits that every sum of n values is a whole number that a float holds: 38 bits for 14,000.
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
