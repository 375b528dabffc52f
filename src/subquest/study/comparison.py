"""What rows of a claim got, and whether the claim holds: paired differences with intervals, question by question."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..evaluate.statistics import Interval
from .design import Claim, Row
from .results import Progress, Unit
from .table import title_of

RESAMPLES = 2000
_DRAWN = 1 << 18
"""Values that are drawn at once."""


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Mean with a percentile interval. The draws stay as they are: verdicts of published pages depend on them."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(seed)
    at_once = max(1, _DRAWN // len(array))
    shapes = [(min(at_once, RESAMPLES - n), len(array)) for n in range(0, RESAMPLES, at_once)]
    means = np.concatenate([array[draws.integers(len(array), size=shape)].mean(axis=1) for shape in shapes])
    low, high = np.percentile(means, (2.5, 97.5))
    return Interval(float(array.mean()), float(low), float(high))


@functools.lru_cache(1024)
def _interval(values: tuple[float, ...]) -> Interval:
    """The sections, tables and pictures of a page show the same intervals."""
    return bootstrap(values)


class Verdict(NamedTuple):
    source: str
    difference: float
    low: float
    high: float
    n: int
    paper: float | None = None
    """The paper's difference, where it has both numbers."""

    @property
    def word(self) -> str:
        return "holds" if self.low > 0 else "fails" if self.high < 0 else "open"


class Compared(NamedTuple):
    """What a claim says about two rows, in words, and what was found of it, source by source."""

    text: str
    verdicts: list[Verdict]


class Comparison:
    """The rows of a study's claims."""

    def __init__(self, progress: Progress) -> None:
        self.study, self.progress = progress.study, progress

    def interval(self, values: Sequence[float]) -> Interval:
        return _interval(tuple(values))

    def units(self, row: Row, source: str, variants: Sequence[str] = ()) -> dict[str, list[Unit]]:
        """What counts of a row on a source, by part: a unit of each of its variants, or of these variants."""
        found: dict[str, list[Unit]] = {}
        asked = self.study.sources[source].description
        for name in variants or row.answered_by:
            variant = self.study.variants[name]
            result = self.progress.fresh(variant)
            if result is not None and source in self.study.sources_of(variant):
                for part, unit in result.of(source, asked).items():
                    if row.takes(name, part):
                        found.setdefault(part, []).append(unit)
        return dict(sorted(found.items()))

    def _whole(self, row: Row, source: str) -> dict[str, list[Unit]]:
        """The parts that all variants of a row have answered: one seed is no verdict on two."""
        found = self.units(row, source)
        return {p: units for p, units in found.items() if len(units) == sum(row.takes(v, p) for v in row.answered_by)}

    def values(self, row: Row, source: str, metric: str, *, hops: int = 0, variants: Sequence[str] = ()) -> list[float]:
        """A value a question: its mean over the variants that the row pools, or over these."""
        return [v for units in self.units(row, source, variants).values() for v in _means(units, metric, hops)]

    def answered(self, row: Row, source: str) -> float:
        """The share of a row's questions that are answered."""
        answered = sum(len(unit.hops) for units in self.units(row, source).values() for unit in units)
        alone = replace(self.study, claims=(Claim("", "", "", "", row=(row,)),))
        progress = Progress(alone, self.progress.results, self.progress.stamps)
        size = sum(progress.expected(self.study.variants[name], source) for name in row.answered_by)
        return min(answered / size, 1.0)

    def all(self, claim: Claim) -> list[Compared]:
        """Everything that a claim says about pairs of rows."""
        metric = claim.metrics[0]
        out = []
        for better, worse in claim.expect:
            text = f"{better} − {worse}, {title_of(metric)}"
            out.append(Compared(text, self.verdicts(claim, better, worse, metric)))
        for level in claim.level:
            keeps = 1 - level.share
            text = f"{level.row} − {keeps:.0%} of {level.base}, {title_of(metric)}"
            out.append(Compared(text, self.verdicts(claim, level.row, level.base, metric, keeps)))
        for less, more, cost in claim.cheaper:
            text = f"{more} − {less}, {title_of(cost)}"
            out.append(Compared(text, self.verdicts(claim, more, less, cost)[:1]))
        return out

    def verdicts(self, claim: Claim, first: str, second: str, metric: str, share: float = 1.0) -> list[Verdict]:
        """A row less a share of another, on every source where both answered the same questions."""
        out = []
        rows = {row.name: row for row in claim.row}
        for source in self.study.shown_by(claim):
            if found := self._differences(claim, first, second, source, metric, share):
                name = self.study.set_of(source)
                x, y = (claim.printed(rows[row], name, metric) for row in (first, second))
                paper = x - share * y if x is not None and y is not None else None
                out.append(Verdict(title_of(name), *self.interval(found), len(found), paper))
        return out

    def together(
        self, claim: Claim, first: str, second: str, metric: str, sources: Sequence[str] = ()
    ) -> Verdict | None:
        """A row less another over all questions of the claim's sources, or of these."""
        found = [
            value
            for source in self.study.shown_by(claim)
            if not sources or self.study.set_of(source) in sources
            for value in self._differences(claim, first, second, source, metric)
        ]
        return Verdict("all", *self.interval(found), len(found)) if found else None

    def _differences(
        self, claim: Claim, first: str, second: str, source: str, metric: str, share: float = 1.0
    ) -> list[float]:
        rows = {row.name: row for row in claim.row}
        left, right = self._whole(rows[first], source), self._whole(rows[second], source)
        out: list[float] = []
        for part in left:
            if part in right and len({unit.questions for unit in (*left[part], *right[part])}) == 1:
                x, y = (_means(side[part], metric, claim.hops) for side in (left, right))
                out += [p - share * q for p, q in zip(x, y, strict=True)] if x and y else []
        return out


def _means(units: Sequence[Unit], metric: str, hops: int) -> list[float]:
    columns = [found for unit in units if (found := unit.metric(metric, hops=hops))]
    return [sum(values) / len(values) for values in zip(*columns, strict=True)]


def counted(verdicts: Sequence[Verdict]) -> Mapping[str, int]:
    """How many hold, are open and fail, those that there are."""
    words = [v.word for v in verdicts]
    return {word: words.count(word) for word in ("holds", "open", "fails") if word in words}
