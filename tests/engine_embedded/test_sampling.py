"""Sampling, against numbers worked out by hand."""

import math
from collections import Counter

import numpy as np
import pytest

from subquest.engine.embedded.sampling import choose
from subquest.engine.interface import Sampling

# Probabilities 0.5, 0.25, 0.125, 0.125 at temperature 1.
LOGITS = np.log(np.array([0.125, 0.5, 0.25, 0.125], np.float32))


def draws(sampling: Sampling, n: int = 4000) -> Counter[int]:
    random = np.random.default_rng(7)
    return Counter(choose(LOGITS, sampling, random).token for _ in range(n))


def test_greedy_takes_the_likeliest_and_reports_its_probability_at_temperature_one() -> None:
    token, logprob = choose(LOGITS, Sampling(), np.random.default_rng(0))
    assert token == 1
    assert logprob == pytest.approx(math.log(0.5), abs=1e-6)


def test_temperature_two_flattens_by_square_roots() -> None:
    roots = np.sqrt([0.125, 0.5, 0.25, 0.125])
    expected = roots / roots.sum()
    seen = draws(Sampling(temperature=2.0))
    for token in range(4):
        assert seen[token] / 4000 == pytest.approx(expected[token], abs=0.03)
    choice = choose(LOGITS, Sampling(temperature=2.0, seed=1), np.random.default_rng(1))
    assert choice.logprob == pytest.approx(math.log(expected[choice.token]), abs=1e-6)


def test_top_k_leaves_the_k_likeliest_in_proportion() -> None:
    seen = draws(Sampling(temperature=1.0, top_k=2))
    assert set(seen) == {1, 2}
    assert seen[1] / 4000 == pytest.approx(2 / 3, abs=0.03)


@pytest.mark.parametrize(("top_p", "left"), [(0.5, {1}), (0.51, {1, 2}), (0.75, {1, 2}), (0.8, {0, 1, 2})])
def test_top_p_keeps_the_smallest_set_with_that_mass(top_p: float, left: set[int]) -> None:
    assert set(draws(Sampling(temperature=1.0, top_p=top_p))) == left


def test_min_p_is_relative_to_the_likeliest() -> None:
    assert set(draws(Sampling(temperature=1.0, min_p=0.49))) == {1, 2}
    assert set(draws(Sampling(temperature=1.0, min_p=0.51))) == {1}


def test_log_probs_are_those_of_the_whole_distribution_even_after_cuts() -> None:
    choice = choose(LOGITS, Sampling(temperature=1.0, top_k=1), np.random.default_rng(0))
    assert choice.token == 1
    assert choice.logprob == pytest.approx(math.log(0.5), abs=1e-6)
