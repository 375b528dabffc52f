"""The pages of a study on several sizes of model: one screen of verdicts, one page a paper, and what changes with size.

claims.md                    the verdicts, written from `page.md` of the recipe's folder
claims/coda.md, coda.svg     a paper's tables; the first comparison of each of its claims, by size
claims/coda-reward.svg       curves of a claim's trainings
claims/scale.svg             the first comparisons over the size of the model
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..output_file import complete_file
from ..plots import Point, Series, Whisker, picture, whisker_picture
from .comparison import Comparison, Verdict
from .design import Claim
from .page import Page, joined
from .recipe import PAPERS
from .results import Progress
from .table import title_of

COSTS = "Columns that name no set (peak context, sub-tasks and so on) are means over the first set of a table."
COLOURS = {"holds": 2, "open": 5, "fails": 4}


class Size(NamedTuple):
    """The study on one model."""

    name: str
    page: Page

    @property
    def parameters(self) -> float:
        return self.page.study.parameters


class Overview:
    def __init__(self, progress: Progress, open_size: Callable[[Path], Progress]) -> None:
        """`open_size` opens the study in another folder, with its results."""
        self.study, self.page = progress.study, Page(progress)
        found = [progress, *(open_size(self.study.folder / folder) for folder in self.study.sizes)]
        sizes = [Size(_short(p.study.parameters), Page(p)) for p in found]
        self.sizes = sorted(sizes, key=lambda size: -size.parameters)
        self.papers = [paper for paper in PAPERS if any(c.paper == paper for c in self.study.claims)]

    def write(self, place: Path) -> None:
        """Write all pages and pictures; those of papers into the folder that is named as the page."""
        folder = place.with_suffix("")
        folder.mkdir(parents=True, exist_ok=True)
        pictures = dict(self._pictures())
        for name, text in {**pictures, **dict(self._paper_pages(pictures))}.items():
            _write(folder / name, text)
        _write(place, self._front(folder.name, pictures))

    # ---- the first page

    def _front(self, folder: str, pictures: Mapping[str, str]) -> str:
        parts = [self.page.head()]
        for paper in self.papers:
            name = _slug(paper)
            parts.append(f"## {paper}\n\n" + self._table(paper, f"{folder}/{name}.md"))
            if f"{name}.svg" in pictures:
                parts.append(f"![First comparison of each claim of {paper}, by size]({folder}/{name}.svg)")
        if "scale.svg" in pictures:
            parts.append(f"## Size\n\n![The first comparisons over the size of the model]({folder}/scale.svg)")
        return joined(parts)

    def _table(self, paper: str, place: str) -> str:
        heads = ["claim", "what the paper says", *(size.name for size in self.sizes)]
        lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for claim in (c for c in self.study.claims if c.paper == paper):
            cells = [self._verdict(claim, size) for size in self.sizes]
            first = f"[{claim.place}]({place}#{claim.id})"
            lines.append("| " + " | ".join([first, claim.says, *cells]) + " |")
        return "\n".join(lines)

    def _verdict(self, claim: Claim, size: Size) -> str:
        """The claim's first comparison over all questions, and how many of all its comparisons hold."""
        own = _claim(size, claim.id)
        if own is None:
            return "–"
        first, counted = self.first(claim, size), size.page.words(own)
        return f"**{first.word}** {first.difference:+.3f} ({counted})" if first is not None else counted

    # ---- a page for each paper

    def _paper_pages(self, pictures: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for paper in self.papers:
            name = _slug(paper)
            parts = [
                f"# The claims of {paper} at {_short(self.study.parameters)}",
                f"[All claims](../claims.md). {COSTS}",
            ]
            parts += [f"![First comparison of each claim, by size]({name}.svg)"] if f"{name}.svg" in pictures else []
            for claim in (c for c in self.study.claims if c.paper == paper):
                curves = f"{claim.id}.svg" if f"{claim.id}.svg" in pictures else ""
                parts.append(self.page.claim(claim, level="##", picture=curves))
            yield f"{name}.md", joined(parts)

    # ---- pictures

    def _pictures(self) -> Iterator[tuple[str, str]]:
        for paper in self.papers:
            claims = [c for c in self.study.claims if c.paper == paper]
            rows = [
                Whisker(f"{claim.id}, {size.name}", v.difference, v.low, v.high, COLOURS[v.word])
                for claim in claims
                for size in self.sizes
                if (v := self.first(claim, size)) is not None
            ]
            title = f"difference (green: {paper}'s claim holds, red: it fails)"
            if rows:
                yield (
                    f"{_slug(paper)}.svg",
                    whisker_picture(title, rows),
                )
            for claim in claims:
                if curves := self._curves(claim):
                    yield f"{claim.id}.svg", curves
        everywhere = (c for c in self.study.claims if all(_claim(size, c.id) for size in self.sizes))
        if panels := {claim.id: series for claim in everywhere if (series := self._by_size(claim))}:
            title = "The first comparison of a claim over the parameters of the model"
            yield "scale.svg", picture(title, panels, x_log=True, y_log=False)

    def first(self, claim: Claim, size: Size, sources: Sequence[str] = ()) -> Verdict | None:
        """The first thing that a claim says of two rows, at a size, over all questions of its sources (the same sets as
        at the study's own size). An oracle has no size."""
        own = _claim(size, claim.id)
        if own is None or not claim.expect or _by_oracle(size.page.compared, own):
            return None
        names = {row.name for row in own.row}
        pair = claim.expect[0] if set(claim.expect[0]) <= names else own.expect[0]
        wanted = sources or [self.study.set_of(s) for s in self.study.shown_by(claim)]
        return size.page.compared.together(own, *pair, claim.metrics[0], wanted)

    def _by_size(self, claim: Claim) -> list[Series]:
        """Points over parameters, a line for each set; none where there is only one size."""
        out = []
        for source in self.study.shown_by(claim):
            name = self.study.set_of(source)
            found = [(size.parameters, self.first(claim, size, (name,))) for size in self.sizes]
            points = [Point(x, v.difference, v.low, v.high) for x, v in found if v is not None]
            if len(points) > 1:
                out.append(Series(title_of(name), points))
        return out

    def _curves(self, claim: Claim) -> str:
        panels: dict[str, list[Series]] = {}
        for curve in claim.curve:
            figures = self.page.training(curve.training).get("figures", {})
            for figure in (f for f in curve.figures if figures.get(f)):
                points = [Point(step, value) for step, value in figures[figure]]
                panels.setdefault(f"step: {title_of(figure)}", []).append(Series(curve.training, points))
        return picture(f"{claim.id}: trainings over their steps", panels, y_log=False) if panels else ""


def _claim(size: Size, name: str) -> Claim | None:
    return next((c for c in size.page.study.claims if c.id == name), None)


def _by_oracle(compared: Comparison, claim: Claim) -> bool:
    return any(compared.study.variants[name].oracle for row in claim.row for name in row.answered_by)


def _slug(paper: str) -> str:
    return paper.partition("-")[0].lower()


def _short(parameters: float) -> str:
    """As in 1.5B or 135M."""
    return f"{parameters / 1e9:.1f}B" if parameters >= 4e8 else f"{parameters / 1e6:.0f}M"


def _write(place: Path, text: str) -> None:
    with complete_file(place) as scratch:
        scratch.write_text(text, encoding="utf-8")
