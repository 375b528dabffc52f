"""What a study found, with the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..evaluate.statistics import mean
from .recipe import AVERAGE, Study

NAMES = {"em": "EM", "f1": "F1", "cem": "CEM", "judge": "judge", "completion_tokens": "tokens", "interactions": "acts"}


class Row(NamedTuple):
    source: str
    variant: str
    n: int
    ours: Mapping[str, float | None]
    low: Mapping[str, float]
    high: Mapping[str, float]
    paper: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "ours": dict(self.ours), "paper": dict(self.paper)}


def rows(study: Study, table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Row]:
    """A row for each source and variant, and the unweighted averages over sources where there are several.

    The paper's average stands beside one over the same sources only.
    """
    out: list[Row] = []
    found: dict[str, list[Row]] = {}
    for source, cells in table.items():
        for variant in study.variants:
            if (cell := cells.get(variant.name)) is not None:
                row = _row(study, source, variant.name, cell)
                out.append(row)
                found.setdefault(variant.name, []).append(row)
    if len(table) > 1:
        for name, mine in found.items():
            ours = {m: _mean([r.ours[m] for r in mine]) for m in study.metrics}
            same = {r.source for r in mine} == {source.name for source in study.sources}
            paper = study.number(name, AVERAGE) if same else {}
            out.append(Row(AVERAGE, name, sum(r.n for r in mine), ours, {}, {}, paper))
    return out


def text(study: Study, found: Sequence[Row], setting: str) -> str:
    """The table for people."""
    width = max([len(v.name) for v in study.variants] + [8]) + 2
    place = max([len(r.source) for r in found] + [6]) + 2
    head = "".join(f"{NAMES.get(m, m):>9}{'95%':>15}{'paper':>9}" for m in study.metrics)
    lines = [study.title, f"ours:  {setting}", f"paper: {study.paper}"]
    lines += [f"note:  {study.note}"] if study.note else []
    lines += ["", f"{'on':<{place}}{'variant':<{width}}{'n':>6}{head}"]
    for r in found:
        cells = ""
        for m in study.metrics:
            span = f"{r.low[m]:.3f}-{r.high[m]:.3f}" if m in r.low else ""
            cells += f"{_value(r.ours.get(m)):>9}{span:>15}{_value(r.paper.get(m)):>9}"
        lines.append(f"{r.source:<{place}}{r.variant:<{width}}{r.n:>6}{cells}")
    return "\n".join([*lines, *_elsewhere(study, found, width)])


def _elsewhere(study: Study, found: Sequence[Row], width: int) -> list[str]:
    """The paper's numbers that stand beside none of ours, because our questions are others."""
    shown = {(r.variant, r.source) for r in found if r.paper}
    lines = []
    for variant in study.variants:
        for metric in study.metrics:
            values = [
                f"{n.source} {_value(n.values[metric])}"
                for n in study.numbers
                if n.variant == variant.name and metric in n.values and (n.variant, n.source) not in shown
            ]
            if values:
                lines.append(f"{variant.name:<{width}}{NAMES.get(metric, metric):<8}{', '.join(values)}")
    return ["", "the paper's numbers on its own questions:", *lines] if lines else []


def _row(study: Study, source: str, variant: str, cell: Mapping[str, Any]) -> Row:
    ours = {m: _metric(cell, m) for m in study.metrics}
    low = {m: cell[f"{m}_low"] for m in study.metrics if cell.get(f"{m}_low") is not None}
    high = {m: cell[f"{m}_high"] for m in low}
    return Row(source, variant, cell["n"], ours, low, high, study.number(variant, source))


def _metric(cell: Mapping[str, Any], name: str) -> float | None:
    if name == "interactions":  # HiRA's figure 5: everything that was asked of the environment
        return float(cell["searches"] + cell["tool_calls"])
    return cell.get(name)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(mean(known), 6) if known else None


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
