"""Fusion: two rankings of the same documents combined into one.

*Reciprocal rank* fusion adds 1 / (60 + rank); it needs no common scale. *Weighted* fusion scales the scores of
each ranking to the range from 0 to 1 (its lowest listed score to its highest) and adds them by weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import UsageError
from .bm25 import Scored

RANK_CONSTANT = 60


@dataclass(frozen=True, slots=True)
class Fusion:
    """How BM25 and dense results are combined; the default was chosen on dev questions (docs/search.md)."""

    kind: Literal["weighted", "rrf"] = "weighted"
    dense: float = 0.5
    """Weight of the dense ranking; BM25 has the rest."""
    depth: int = 100
    """The least number of results of each ranking that are combined."""

    def __post_init__(self) -> None:
        if self.kind not in {"weighted", "rrf"} or not 0 <= self.dense <= 1 or self.depth < 1:
            raise UsageError(f"fusion is 'weighted' or 'rrf' with a dense weight from 0 to 1, not {self}")

    def fuse(self, lexical: Sequence[Scored], dense: Sequence[Scored], k: int) -> list[Scored]:
        """The best k of both, best first; ties go to the earlier document."""
        total: dict[int, float] = {}
        for ranking, weight in ((lexical, 1 - self.dense), (dense, self.dense)):
            for number, points in self._points(ranking):
                total[number] = total.get(number, 0.0) + weight * points
        best = sorted(total.items(), key=lambda item: (-item[1], item[0]))[:k]
        return [Scored(number, score) for number, score in best]

    def _points(self, ranking: Sequence[Scored]) -> list[tuple[int, float]]:
        if self.kind == "rrf":
            return [(scored.number, 1 / (RANK_CONSTANT + rank)) for rank, scored in enumerate(ranking, start=1)]
        if not ranking:
            return []
        low, high = ranking[-1].score, ranking[0].score
        span = (high - low) or 1.0
        return [(scored.number, (scored.score - low) / span if high > low else 1.0) for scored in ranking]
