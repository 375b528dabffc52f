"""Intervals and tests against numbers worked out by hand or by scipy."""

import math
import random

import pytest

from subquest.evaluate.statistics import compare, interval, mcnemar


def test_interval_covers_the_mean_at_the_expected_width() -> None:
    values = [1.0] * 30 + [0.0] * 70
    found = interval(values)
    assert found.mean == pytest.approx(0.3)
    half = 1.96 * math.sqrt(0.3 * 0.7 / 100)  # normal approximation
    assert found.low == pytest.approx(0.3 - half, abs=0.015)
    assert found.high == pytest.approx(0.3 + half, abs=0.015)


def test_interval_edges() -> None:
    assert interval([0.5]) == (0.5, 0.5, 0.5)
    assert math.isnan(interval([]).mean)


def test_mcnemar_by_hand() -> None:
    # 9 questions only A got right, 1 only B: 2 * (C(10,0) + C(10,1)) / 2^10 = 22 / 1024
    a = [1.0] * 9 + [0.0] + [1.0] * 5
    b = [0.0] * 9 + [1.0] + [1.0] * 5
    assert mcnemar(a, b) == pytest.approx(22 / 1024)
    assert mcnemar(a, a) == 1.0


def test_mcnemar_matches_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for only_a, only_b in [(3, 8), (12, 12), (0, 5), (40, 21)]:
        a = [1.0] * only_a + [0.0] * only_b
        b = [0.0] * only_a + [1.0] * only_b
        expected = stats.binomtest(min(only_a, only_b), only_a + only_b, 0.5).pvalue
        assert mcnemar(a, b) == pytest.approx(expected)


def test_compare_tells_a_clear_difference_from_none() -> None:
    clear = compare([1.0] * 60 + [0.0] * 40, [0.0] * 60 + [0.0] * 40)
    assert clear.difference == pytest.approx(0.6)
    assert clear.p < 0.001
    assert clear.low > 0.4
    none = compare([1.0, 0.0] * 50, [0.0, 1.0] * 50)
    assert none.difference == 0.0
    assert none.p == 1.0
    with pytest.raises(ValueError, match="paired"):
        compare([1.0], [])


def test_a_few_questions_prove_nothing() -> None:
    """Signs that are chance all agree in two of 2^m cases: m differences can have no smaller p-value."""
    assert compare([0.9], [0.5]).p == 1.0
    assert compare([0.9, 0.8, 0.7], [0.5, 0.5, 0.5]).p == 0.25
    assert compare([0.9] * 3 + [0.5] * 97, [0.5] * 100).p >= 0.25
    assert compare([0.9] * 12, [0.5] * 12).p < 0.001


def test_compare_agrees_with_the_t_test_on_smooth_data() -> None:
    stats = pytest.importorskip("scipy.stats")
    a = [((i * 37) % 101) / 100 for i in range(200)]
    b = [max(0.0, x - 0.03 + (((i * 53) % 41) - 20) / 100) for i, x in enumerate(a)]
    expected = stats.ttest_rel(a, b).pvalue
    assert compare(a, b).p == pytest.approx(expected, abs=0.02)


def test_intervals_agree_with_scipys_bootstrap() -> None:
    numpy, stats = pytest.importorskip("numpy"), pytest.importorskip("scipy.stats")
    a = [((i * 37) % 101) / 100 for i in range(150)]
    b = [max(0.0, x - 0.05 + (((i * 53) % 41) - 20) / 60) for i, x in enumerate(a)]
    differences = [x - y for x, y in zip(a, b, strict=True)]
    for found, values in ((interval(a)[1:], a), (compare(a, b)[2:4], differences)):
        theirs = stats.bootstrap((values,), numpy.mean, n_resamples=3000, method="percentile", rng=1)
        width = found[1] - found[0]
        assert found == pytest.approx(tuple(theirs.confidence_interval), abs=0.06 * width)


def test_p_values_are_uniform_where_there_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.evaluate.statistics.RESAMPLES", 200)
    draw = random.Random(4)
    pairs = [[[float(draw.random() < 0.4) for _ in range(80)] for _ in range(2)] for _ in range(200)]
    found = [compare(a, b, seed=n) for n, (a, b) in enumerate(pairs)]
    assert 0.05 <= sum(c.p < 0.1 for c in found) / 200 <= 0.16
    assert sum((c.mcnemar or 0) < 0.1 for c in found) / 200 <= 0.11  # the exact test is careful
