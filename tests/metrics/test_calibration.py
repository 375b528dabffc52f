"""Calibration against numbers worked out by hand, and against drawing answers again."""

import math
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subquest.metrics import auroc, calibration, calibration_error
from subquest.metrics.calibration import wilson

CONFIDENCES = [0.95, 0.95, 0.15, 0.15]
RIGHT = [1, 0, 0, 0]
PAIRS = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.4, 0.9, 1.0]), st.booleans()), min_size=1, max_size=30)


def test_calibration_error_by_hand() -> None:
    # bin 0.9: confidence 0.95, accuracy 0.5, 2 answers; bin 0.1: confidence 0.15, accuracy 0, 2 answers
    assert calibration_error(CONFIDENCES, RIGHT) == pytest.approx((2 * 0.45 + 2 * 0.15) / 4)
    assert calibration_error(CONFIDENCES, RIGHT, bins=1) == pytest.approx(0.55 - 0.25)
    assert calibration_error([1.0], [1]) == 0.0
    assert math.isnan(calibration_error([], []))


def test_auroc_by_hand_and_ties() -> None:
    assert auroc([0.9, 0.8, 0.3, 0.1], [1, 0, 1, 0]) == pytest.approx(0.75)
    assert auroc([0.5, 0.5, 0.5], [1, 0, 1]) == pytest.approx(0.5)
    assert math.isnan(auroc([0.5], [1]))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PAIRS)
def test_auroc_is_the_pair_probability(pairs: list[tuple[float, bool]]) -> None:
    positive = [c for c, r in pairs if r]
    negative = [c for c, r in pairs if not r]
    found = auroc([c for c, _ in pairs], [float(r) for _, r in pairs])
    if not positive or not negative:
        assert math.isnan(found)
    else:
        wins = sum((p > n) + 0.5 * (p == n) for p in positive for n in negative)
        assert found == pytest.approx(wins / (len(positive) * len(negative)))


def test_the_reliability_table_by_hand() -> None:
    low, high = calibration(CONFIDENCES, RIGHT).bins
    assert low[:5] == pytest.approx((0.1, 0.2, 2, 0.15, 0.0))
    assert high[:5] == pytest.approx((0.9, 1.0, 2, 0.95, 0.5))
    # Wilson with z = 1.96 and 1 right of 2: centre 0.5, half 1.96 / (1 + 1.9208) * sqrt(0.125 + 0.2401) = 0.40546
    assert (high.right_low, high.right_high) == pytest.approx((0.09454, 0.90546), abs=1e-4)
    assert [b.low for b in calibration([0.0, 0.1, 1.0, 1.0], [0, 0, 1, 1]).bins] == [0.0, 0.1, 0.9]


def test_wilsons_interval_by_hand() -> None:
    assert wilson(0.0, 10) == pytest.approx((0.0, 0.27755), abs=1e-4)  # z^2 / (n + z^2)
    assert wilson(1.0, 10) == pytest.approx((0.72245, 1.0), abs=1e-4)


def test_the_interval_of_auroc_by_hand() -> None:
    # right ones above 1/2 and 1 of the wrong ones, wrong ones below 1 and 1/2 of the right ones:
    # both variances are 1/8, so the area 3/4 has the variance (1/8 + 1/8) / 2 = 1/8
    found = calibration([0.9, 0.5, 0.7, 0.1], [1, 1, 0, 0])
    assert found.auroc == 0.75
    assert found.auroc_low == pytest.approx(0.75 - 1.96 * math.sqrt(1 / 8))
    assert found.auroc_high == 1.0
    assert math.isnan(calibration([0.9, 0.1], [1, 0]).auroc_low)


def test_intervals_are_those_of_drawing_the_answers_again() -> None:
    draw = random.Random(1)
    confidences = [draw.random() for _ in range(400)]
    right = [float(draw.random() < 0.2 + 0.4 * c) for c in confidences]
    found = calibration(confidences, right)
    errors, areas = [], []
    for _ in range(400):
        chosen = draw.choices(range(400), k=400)
        again = [confidences[i] for i in chosen], [right[i] for i in chosen]
        errors.append(calibration_error(*again))
        areas.append(auroc(*again))
    for low, high, values in (
        (found.ece_low, found.ece_high, sorted(errors)),
        (found.auroc_low, found.auroc_high, sorted(areas)),
    ):
        assert low == pytest.approx(values[10], abs=0.02)
        assert high == pytest.approx(values[-10], abs=0.02)


@given(PAIRS)
def test_intervals_hold_what_they_are_about(pairs: list[tuple[float, bool]]) -> None:
    found = calibration([c for c, _ in pairs], [float(r) for _, r in pairs])
    assert 0 <= found.ece_low <= found.ece <= found.ece_high
    assert math.isnan(found.auroc_low) or 0 <= found.auroc_low <= found.auroc <= found.auroc_high <= 1
    assert sum(b.n for b in found.bins) == found.n == len(pairs)
    assert all(b.right_low <= b.right + 1e-9 and b.right <= b.right_high + 1e-9 for b in found.bins)


def test_confidences_beside_fewer_answers_are_refused() -> None:
    with pytest.raises(ValueError, match="argument"):
        calibration([0.5, 0.6], [1])
