"""The Set-Equivalence Plan Reward (SEPR) of APEX-Searcher: how well a plan covers the gold decomposition.

Sub-questions are embedded, each predicted one is matched with at most one gold one so that the total cosine similarity
is largest (the Hungarian algorithm), and pairs strictly above a threshold tau count as found. The score is the F1 of
found pairs over the sizes of the two plans: |M| pairs, n predicted and m gold steps give 2|M| / (n + m). Order and
wording do not matter; a missing, doubled or invented step costs (APEX-Searcher, version 1, 2.2.1; version 2, 3.3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import MissingDependency
from .embeddings import Embedder

if TYPE_CHECKING:
    import numpy as np

PAPER_TAU = 0.8
"""The threshold of the papers, tuned for their encoder."""
MINILM_TAU = 0.8
"""Our threshold for all-MiniLM-L6-v2; docs/rewards.md shows the measurement behind it."""

LONGEST = 12
"""Steps of the shorter of two plans that are matched without scipy."""


class PlanScore(NamedTuple):
    """One plan against its gold decomposition."""

    f1: float
    precision: float
    recall: float
    pairs: tuple[tuple[int, int, float], ...]
    """Matched steps: index in the plan, index in the gold plan, similarity."""


def score_plans(
    plans: Sequence[Sequence[str]], golds: Sequence[Sequence[str]], embedder: Embedder, *, tau: float = MINILM_TAU
) -> list[PlanScore]:
    """SEPR of many plans at once; every distinct sub-question is embedded once. An empty plan scores 0."""
    if len(plans) != len(golds):
        raise ValueError(f"{len(plans)} plans and {len(golds)} gold plans cannot be paired")
    texts = {s.strip(): None for plan in (*plans, *golds) for s in plan if s.strip()}
    place = {text: at for at, text in enumerate(texts)}
    vectors = _unit(embedder(list(texts))) if texts else None
    scores = []
    for plan, gold in zip(plans, golds, strict=True):
        predicted = [place[s.strip()] for s in plan if s.strip()]
        wanted = [place[s.strip()] for s in gold if s.strip()]
        if vectors is None or not predicted or not wanted:
            scores.append(PlanScore(0.0, 0.0, 0.0, ()))
        else:
            scores.append(match_score(vectors[predicted] @ vectors[wanted].T, tau))
    return scores


def match_score(similarity: np.ndarray[Any, Any], tau: float) -> PlanScore:
    """SEPR from the similarities of predicted (rows) and gold (columns) sub-questions."""
    n, m = similarity.shape
    matched = ((i, j, float(similarity[i, j])) for i, j in _assigned(similarity))
    pairs = tuple(pair for pair in matched if pair[2] > tau)
    return PlanScore(2 * len(pairs) / (n + m), len(pairs) / n, len(pairs) / m, pairs)


def _assigned(similarity: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """Rows with columns, each at most once, so that the total similarity is largest."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        return _assigned_plainly(similarity)
    return [(int(i), int(j)) for i, j in zip(*linear_sum_assignment(1.0 - similarity), strict=True)]


def _assigned_plainly(similarity: np.ndarray[Any, Any]) -> list[tuple[int, int]]:
    """The same without scipy, over the sets of taken places on the shorter side; for plans of usual length."""
    n, m = similarity.shape
    if n < m:
        return sorted((i, j) for j, i in _assigned_plainly(similarity.T))
    if m > LONGEST:
        raise MissingDependency(f"scipy, which matching plans of more than {LONGEST} steps needs,", "train")
    best: dict[int, tuple[float, tuple[tuple[int, int], ...]]] = {0: (0.0, ())}
    for i in range(n):
        for taken, (total, pairs) in list(best.items()):
            for j in (j for j in range(m) if not taken >> j & 1):
                found = (total + float(similarity[i, j]), (*pairs, (i, j)))
                key = taken | 1 << j
                best[key] = max(best.get(key, (-1e9, ())), found, key=lambda x: x[0])
    return list(best[(1 << m) - 1][1])


def _unit(vectors: Any) -> Any:
    import numpy as np

    array = np.asarray(vectors, dtype=np.float64)
    return array / np.maximum(np.linalg.norm(array, axis=1, keepdims=True), 1e-12)
