"""Resamples: with and without numpy the same, and distributed as they should be."""

import importlib
import math
import random
from statistics import fmean, pstdev, pvariance
from typing import Any

import pytest

from subquest.evaluate.statistics import RESAMPLES, binomial, compare, interval, resampled_means


@pytest.fixture
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name == "numpy":
            raise ImportError(name)
        return found(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)


@pytest.mark.parametrize("scale", [1.0, 3e-7, -2e9])
def test_plain_python_gives_what_numpy_gives(scale: float, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("numpy")
    rng = random.Random(4)
    values = [scale * rng.random() for _ in range(150)]
    by_numpy, compared = resampled_means(values, 7), compare(values, values[::-1])
    request.getfixturevalue("without_numpy")
    assert resampled_means(values, 7) == by_numpy
    assert compare(values, values[::-1]) == compared


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("numpy")
    values = [i / 97 for i in range(60)]
    whole = resampled_means(values, 1)
    monkeypatch.setattr("subquest.evaluate.statistics._DRAWS", 700)
    assert resampled_means(values, 1) == whole


def test_resamples_have_the_mean_and_the_spread_of_the_theory() -> None:
    rng = random.Random(1)
    for values in ([rng.random() for _ in range(200)], [rng.choice([0.0, 0.5, 1.0]) for _ in range(200)]):
        means = resampled_means(values, 3)
        error = pstdev(values) / math.sqrt(len(values))
        assert len(means) == RESAMPLES
        assert fmean(means) == pytest.approx(fmean(values), abs=5 * error / math.sqrt(RESAMPLES))
        assert pstdev(means) == pytest.approx(error, rel=0.08)  # its own standard error is 1.6 %


@pytest.mark.parametrize(("n", "p"), [(1, 0.3), (9, 0.5), (40, 0.02), (40, 0.98), (3000, 0.4)])
def test_the_binomial_takes_each_outcome_as_often_as_it_is_likely(n: int, p: float) -> None:
    grid = 20_000
    drawn = [binomial(n, p, (i + 0.5) / grid) for i in range(grid)]
    assert min(drawn) >= 0
    assert max(drawn) <= n
    for outcome in {0, int(n * p), int(n * p) + 1, n}:
        expected = math.comb(n, outcome) * p**outcome * (1 - p) ** (n - outcome) if n < 1000 else None
        if expected is not None:
            assert drawn.count(outcome) / grid == pytest.approx(expected, abs=2 / grid)
    assert fmean(drawn) == pytest.approx(n * p, rel=0.002)
    assert pvariance(drawn) == pytest.approx(n * p * (1 - p), rel=0.02)


def test_the_binomial_ends_at_its_ends() -> None:
    assert binomial(0, 0.5, 0.9) == 0
    assert binomial(7, 1.0, 0.2) == 7
    assert 0 <= binomial(10, 0.3, math.nextafter(1.0, 0.0)) <= 10


def test_values_that_are_no_numbers_give_no_interval() -> None:
    assert math.isnan(interval([1.0, math.nan, 0.0]).low)
