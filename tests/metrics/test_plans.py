"""SEPR: hand-worked scores and a brute-force matching."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.metrics import plans
from subquest.metrics.plans import match_score, score_plans

WORDS = ["who", "directed", "film", "born", "where", "capital", "country", "#1", "when"]


def bag(texts: list[str]) -> np.ndarray:
    """A stand-in encoder: counts of a few words, so that cosines can be worked out by hand."""
    return np.array([[text.split().count(w) for w in WORDS] for text in texts], dtype=float) + 1e-9


def test_paraphrased_and_reordered_plan_is_complete() -> None:
    gold = ["who directed film", "where born #1"]
    plan = ["born where #1", "film directed who"]
    score = score_plans([plan], [gold], bag, tau=0.8)[0]
    assert score.f1 == 1.0
    assert [(i, j) for i, j, _ in score.pairs] == [(0, 1), (1, 0)]


def test_missing_and_doubled_steps_by_hand() -> None:
    gold = ["who directed film", "where born #1"]
    # one of two found with one step: precision 1, recall 1/2, F1 2/3
    assert score_plans([["who directed film"]], [gold], bag)[0].f1 == pytest.approx(2 / 3)
    # the same step twice can match one gold step only: 1 pair of 2 and 2
    doubled = score_plans([["who directed film", "who directed film"]], [gold], bag)[0]
    assert (doubled.precision, doubled.recall, doubled.f1) == (0.5, 0.5, 0.5)
    assert score_plans([[]], [gold], bag)[0].f1 == 0.0
    assert score_plans([["  "]], [gold], bag)[0].f1 == 0.0


def test_threshold_is_strict_and_comes_after_the_matching() -> None:
    similarity = np.array([[0.9, 0.85], [0.88, 0.1]])
    # The best total pairs (0,1) with (1,0), 1.73, over (0,0) with (1,1), 1.0; then the threshold looks at each pair.
    assert [(i, j) for i, j, _ in match_score(similarity, 0.8).pairs] == [(0, 1), (1, 0)]
    assert [(i, j) for i, j, _ in match_score(similarity, 0.85).pairs] == [(1, 0)]
    assert match_score(np.array([[0.8]]), 0.8).f1 == 0.0


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_against_every_permutation(n: int, m: int, seed: int) -> None:
    similarity = np.random.default_rng(seed).uniform(-1, 1, (n, m))
    small, large = (similarity, m) if n <= m else (similarity.T, n)
    best = max(permutations(range(large), min(n, m)), key=lambda p: sum(small[i, j] for i, j in enumerate(p)))
    found = sum(small[i, j] > 0.3 for i, j in enumerate(best))
    precision, recall = found / n, found / m
    expected = 2 * precision * recall / (precision + recall) if found else 0.0
    assert match_score(similarity, 0.3).f1 == pytest.approx(expected)


def test_512_plans_embed_each_text_once() -> None:
    calls: list[list[str]] = []

    def counting(texts: list[str]) -> np.ndarray:
        calls.append(texts)
        return bag(texts)

    plans = [[f"who directed film {i % 7}", "where born #1"] for i in range(512)]
    scores = score_plans(plans, [["where born #1"]] * 512, counting)
    assert len(calls) == 1
    assert len(calls[0]) == 8
    assert all(s.f1 == pytest.approx(2 / 3) for s in scores)


def test_matching_without_scipy_is_the_same() -> None:
    draws = np.random.default_rng(3)
    for _ in range(60):
        similarity = draws.random(draws.integers(1, 6, 2))
        assert sorted(plans._assigned_plainly(similarity)) == sorted(plans._assigned(similarity))
