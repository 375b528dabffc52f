"""Calibration: whether a confidence says how likely an answer is right.

The *reliability table* sorts answers into bins by their confidence and compares the mean confidence of each bin with
the share that is right. The *expected calibration error* (ECE) is the mean gap between the two, weighted by the answers
of each bin. *AUROC* is the chance that a right answer has a higher confidence than a wrong one: it says whether
confidences sort answers, whatever their scale. Intervals are 95% ones.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

BINS = 10
Z = 1.96
"""Standard deviations on either side of a 95% interval."""
DRAWS = 1000


class Bin(NamedTuple):
    """The answers whose confidence is between two bounds; the upper one belongs to the next bin."""

    low: float
    high: float
    n: int
    confidence: float
    """Mean."""
    right: float
    """Share."""
    right_low: float
    right_high: float


class Calibration(NamedTuple):
    n: int
    ece: float
    ece_low: float
    ece_high: float
    auroc: float
    """nan where all answers are right, or all wrong."""
    auroc_low: float
    auroc_high: float
    bins: tuple[Bin, ...]
    """Those that hold answers, lowest first."""


def calibration(confidences: Sequence[float], right: Sequence[float], *, bins: int = BINS) -> Calibration:
    """Everything about confidences in [0, 1] and whether the answers were right (above 0.5) or wrong."""
    groups = _binned(confidences, right, bins)
    return Calibration(
        len(confidences),
        calibration_error(confidences, right, bins=bins),
        *_error_interval(groups, len(confidences)),
        auroc(confidences, right),
        *_auroc_interval(confidences, right),
        tuple(_bin(at, found, bins) for at, found in sorted(groups.items())),
    )


def calibration_error(confidences: Sequence[float], right: Sequence[float], *, bins: int = BINS) -> float:
    """ECE over equal-width bins; nan without answers."""
    groups = _binned(confidences, right, bins).values()
    gaps = (abs(math.fsum(c - r for c, r in found)) for found in groups)
    return math.fsum(gaps) / len(confidences) if confidences else math.nan


def auroc(confidences: Sequence[float], right: Sequence[float]) -> float:
    """AUROC, ties counting half; nan without both kinds of answers."""
    over_wrong, _ = _placements(confidences, right)
    return math.fsum(over_wrong) / len(over_wrong) if over_wrong else math.nan


def _binned(confidences: Sequence[float], right: Sequence[float], bins: int) -> dict[int, list[tuple[float, float]]]:
    groups: dict[int, list[tuple[float, float]]] = {}
    for c, r in zip(confidences, right, strict=True):
        groups.setdefault(max(0, min(int(c * bins), bins - 1)), []).append((c, float(r > 0.5)))
    return groups


def _bin(at: int, found: Sequence[tuple[float, float]], bins: int) -> Bin:
    n = len(found)
    confidence, share = (math.fsum(values) / n for values in zip(*found, strict=True))
    return Bin(at / bins, (at + 1) / bins, n, confidence, share, *wilson(share, n))


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share, which a few answers, or all right ones, do not make narrow."""
    centre = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def _error_interval(groups: dict[int, list[tuple[float, float]]], n: int) -> tuple[float, float]:
    """ECEs of other samples of as many answers: each bin's gap is drawn with the mean and variance that drawing the
    answers again would give it. The error itself is inside, though noise can only add to it."""
    if not n:
        return math.nan, math.nan
    draw = random.Random(0)
    gaps = []
    for found in groups.values():
        total = math.fsum(c - r for c, r in found)
        variance = math.fsum((c - r) ** 2 for c, r in found) - total * total / n
        gaps.append((total, math.sqrt(max(variance, 0.0))))
    drawn = sorted(math.fsum(abs(draw.gauss(*gap)) for gap in gaps) / n for _ in range(DRAWS))
    found_here = math.fsum(abs(total) for total, _ in gaps) / n
    low, high = drawn[int(0.025 * (DRAWS - 1))], drawn[math.ceil(0.975 * (DRAWS - 1))]
    return min(low, found_here), max(high, found_here)


def _placements(confidences: Sequence[float], right: Sequence[float]) -> tuple[list[float], list[float]]:
    """For each right answer the share of wrong ones below it, for each wrong one that of right ones above it; ties
    count half. Both empty where one kind is missing."""
    positive = sorted(c for c, r in zip(confidences, right, strict=True) if r > 0.5)
    negative = sorted(c for c, r in zip(confidences, right, strict=True) if r <= 0.5)
    if not positive or not negative:
        return [], []

    def below(value: float, others: Sequence[float]) -> float:
        return (bisect_left(others, value) + bisect_right(others, value)) / (2 * len(others))

    return [below(p, negative) for p in positive], [1 - below(n, positive) for n in negative]


def _auroc_interval(confidences: Sequence[float], right: Sequence[float]) -> tuple[float, float]:
    """By DeLong's variance; nan where there are not two answers of each kind."""
    placements = _placements(confidences, right)
    if any(len(found) < 2 for found in placements):
        return math.nan, math.nan
    area = math.fsum(placements[0]) / len(placements[0])
    variances = (math.fsum((v - area) ** 2 for v in found) / (len(found) - 1) / len(found) for found in placements)
    half = Z * math.sqrt(math.fsum(variances))
    return max(0.0, area - half), min(1.0, area + half)
