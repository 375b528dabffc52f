"""What a study found as tables: with the paper's numbers beside ours, and by type of question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..evaluate.statistics import mean
from .design import AVERAGE, Study, Variant
from .results import Progress

TITLES = {
    "world": "worlds", "site": "web site", "pictures": "worlds with pictures", "hotpotqa": "HotpotQA",
    "2wikimultihopqa": "2Wiki", "musique": "MuSiQue", "em": "EM", "f1": "F1",
    "cem": "CEM", "judge": "judge", "sepr": "plan score", "idle": "idle executors", "peak_context": "peak context",
    "prompt_tokens": "tokens read", "completion_tokens": "tokens written", "support_recall": "support recall",
    "model_calls": "model calls", "written_planner": "tokens a plan", "idle_executors": "idle executors",
    "peak_planner": "peak, planner", "peak_answerer": "peak, answerer", "peak_executor": "peak, executor",
    "format_errors": "format errors", "tasks": "sub-tasks", "reward/sepr_precision": "plan precision",
    "reward/role_answerer": "judge of the answerer",
    "reward/sepr_recall": "plan recall", "reward/plan_steps": "steps a plan",
}  # fmt: skip
"""How sources, metrics, costs and figures of trainings are called in tables."""
SHORT = {"completion_tokens": "tokens", "interactions": "acts"}


def title_of(name: str) -> str:
    return TITLES.get(name, name)


class TableRow(NamedTuple):
    """A variant on a source: our numbers with their intervals, and the paper's."""

    source: str
    variant: str
    n: int
    ours: Mapping[str, float | None]
    low: Mapping[str, float]
    high: Mapping[str, float]
    paper: Mapping[str, float]

    def to_json(self) -> dict[str, Any]:
        return {**self._asdict(), "ours": dict(self.ours), "paper": dict(self.paper)}


def rows(study: Study, table: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[TableRow]:
    """A row for each source and variant, and the unweighted averages over sources where there are several.

    The paper's average is shown only beside an average over the same sources.
    """
    out: list[TableRow] = []
    found: dict[str, list[TableRow]] = {}
    for source, cells in table.items():
        for variant in study.variants:
            if (cell := cells.get(variant)) is not None:
                row = _row(study, source, variant, cell)
                out.append(row)
                found.setdefault(variant, []).append(row)
    if len(table) > 1:
        for name, mine in found.items():
            ours = {m: _mean([r.ours[m] for r in mine]) for m in study.table.metrics}
            same = {r.source for r in mine} == set(study.sources)
            paper = study.number(name, AVERAGE) if same else {}
            out.append(TableRow(AVERAGE, name, sum(r.n for r in mine), ours, {}, {}, paper))
    return out


def text(study: Study, found: Sequence[TableRow], setting: str) -> str:
    """The table for people."""
    width = max([*map(len, study.variants), 8]) + 2
    place = max([len(r.source) for r in found] + [6]) + 2
    head = "".join(f"{SHORT.get(m, title_of(m)):>9}{'95%':>15}{'paper':>9}" for m in study.table.metrics)
    lines = [study.title, f"ours:  {setting}", f"paper: {study.table.setting}"]
    lines += [f"note:  {study.table.note}"] if study.table.note else []
    lines += ["", f"{'on':<{place}}{'variant':<{width}}{'n':>6}{head}"]
    for r in found:
        cells = ""
        for m in study.table.metrics:
            span = f"{r.low[m]:.3f}-{r.high[m]:.3f}" if m in r.low else ""
            cells += f"{_value(r.ours.get(m)):>9}{span:>15}{_value(r.paper.get(m)):>9}"
        lines.append(f"{r.source:<{place}}{r.variant:<{width}}{r.n:>6}{cells}")
    return "\n".join([*lines, *_elsewhere(study, found, width)])


def _elsewhere(study: Study, found: Sequence[TableRow], width: int) -> list[str]:
    """The paper's numbers that are beside none of ours, because our questions are others."""
    shown = {(r.variant, r.source) for r in found if r.paper}
    lines = []
    for variant in study.variants:
        for metric in study.table.metrics:
            values = [
                f"{source} {_value(values[metric])}"
                for name, source, values in study.numbers
                if name == variant and metric in values and (name, source) not in shown
            ]
            if values:
                lines.append(f"{variant:<{width}}{SHORT.get(metric, title_of(metric)):<8}{', '.join(values)}")
    return ["", "the paper's numbers on its own questions:", *lines] if lines else []


def _row(study: Study, source: str, variant: str, cell: Mapping[str, Any]) -> TableRow:
    ours = {m: _metric(cell, m) for m in study.table.metrics}
    low = {m: cell[f"{m}_low"] for m in study.table.metrics if cell.get(f"{m}_low") is not None}
    high = {m: cell[f"{m}_high"] for m in low}
    return TableRow(source, variant, cell["n"], ours, low, high, study.number(variant, source))


def _metric(cell: Mapping[str, Any], name: str) -> float | None:
    if name == "interactions":  # HiRA's figure 5: everything that was asked of the environment
        return float(cell["searches"] + cell["tool_calls"])
    return cell.get(name)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return round(mean(known), 6) if known else None


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"


class Kind(NamedTuple):
    """Questions of one type and so many hops; of all hops where `hops` is 0."""

    type: str
    hops: int


class KindMeans(NamedTuple):
    questions: int
    means: Mapping[str, float]
    """By variant: exact match, or the plan's score of a variant that only writes plans."""


def by_type(
    progress: Progress, variants: Sequence[Variant], *, source: str, data: Path, cache: Path
) -> dict[Kind, KindMeans]:
    """Means over the questions of a source that every variant has answered."""
    from .questions import parts_of, prepare  # worlds and training data: only here

    units = [dict(found.units) if (found := progress.fresh(v)) is not None else {} for v in variants]
    values: dict[Kind, list[list[float]]] = {}
    cache.mkdir(parents=True, exist_ok=True)
    for part in parts_of(progress.study.sources[source], data):
        if not all(part.name in answered for answered in units):
            continue
        ready = prepare(part, cache)
        if any(answered[part.name].questions != ready.digest for answered in units):
            continue
        columns = [u[part.name].metric("sepr" if v.plans else "em") for v, u in zip(variants, units, strict=True)]
        for question, *row in zip(ready.questions, *columns, strict=True):
            for hops in (0, question.hops or 0):
                values.setdefault(Kind(question.type or "", hops), []).append(row)
    return {
        kind: KindMeans(len(found), {v.name: mean([row[n] for row in found]) for n, v in enumerate(variants)})
        for kind, found in sorted(values.items())
    }


def type_table(figures: Mapping[Kind, KindMeans], variants: Sequence[Variant]) -> str:
    heads = ["type", "hops", "questions", *(f"{v.name}{', plan score' if v.plans else ''}" for v in variants)]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for kind, found in figures.items():
        cells = [kind.type or "?", str(kind.hops) if kind.hops else "all", str(found.questions)]
        lines.append("| " + " | ".join([*cells, *(f"{found.means[v.name]:.3f}" for v in variants)]) + " |")
    return "\n".join(lines)
