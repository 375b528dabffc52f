"""The page of a study's claims: each with the paper's numbers and ours, written from the stored results.

The page begins with `page.md` of the recipe's folder, which may use {questions}, {state}, {tokens}, {bare}, {start}
and {budgets}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .comparison import Comparison, Verdict, counted
from .design import OURS, Claim, Row
from .results import Progress
from .stamps import BARE_TOKENS, MAX_TOKENS, known_as
from .table import title_of

STRETCHES = 4
"""Of a training, each with its mean."""
NOT_MEASURED, STALE = "*not yet measured*", "*stale*"
UNEXPLAINED = "**Why it fails or stays open** is not known yet: its episodes have not been read."


class Page:
    def __init__(self, progress: Progress) -> None:
        self.study, self.results, self._progress = progress.study, progress.results, progress
        self.compared = Comparison(progress)

    def text(self) -> str:
        """All claims on one page."""
        parts = [self.head(), self._summary()]
        for paper in dict.fromkeys(c.paper for c in self.study.claims if c.paper != OURS):
            parts.append(f"## {paper}")
            parts += [self.claim(c) for c in self.study.claims if c.paper == paper]
        if ours := [self.claim(c) for c in self.study.claims if c.paper == OURS]:
            parts += ["## Where it stands", *ours]
        return joined(parts)

    def head(self) -> str:
        """What comes before the claims."""
        file = self.study.folder / "page.md"
        template = file.read_text(encoding="utf-8") if file.is_file() else f"# {self.study.name}\n\n{{state}}"
        questions = "\n".join(f"- {title_of(s.name)}: `{s.description}`" for s in self.study.sources.values())
        limits = {"tokens": MAX_TOKENS, "bare": BARE_TOKENS}
        return template.format(questions=questions, state=self._state(), **limits, **self._budget())

    def _state(self) -> str:
        rows = self._progress.rows(self.study.select(()))
        stale = f", {rows.stale} of them stale" if rows.stale else ""
        total = rows.done + rows.left
        return f"Of {total} rows (a variant on a source) {rows.done} are complete, {rows.left} are not{stale}."

    def _budget(self) -> dict[str, str]:
        """What every training spends, as the recipes say."""
        trainings = {t.recipe.name: replace(t, set={}) for t in self.study.trainings.values()}
        start = self.study.trainings.get(self.study.start)
        budgets: dict[str, list[str]] = {}
        for name, training in trainings.items():
            if training.setting("rollout") is not None:
                steps, questions, group = map(
                    training.setting, ("optimiser.steps", "rollout.questions", "rollout.group")
                )
                spent = f"{steps} steps of {questions} questions with {group} rollouts each"
                budgets.setdefault(spent, []).append(f"`{name}`")
        return {
            "start": str(start.setting("optimiser.steps")) if start else "",
            "budgets": " or ".join(f"{spent} ({', '.join(names)})" for spent, names in budgets.items()),
        }

    def _summary(self) -> str:
        lines = ["| claim | where | what the paper says | here |", "|---|---|---|---|"]
        for claim in self.study.claims:
            if claim.paper == OURS:
                continue
            where = f"[{claim.id}](#{claim.id}) | {claim.paper}, {claim.place}"
            lines.append(f"| {where} | {claim.says} | {self.words(claim)} |")
        return "\n".join(lines)

    def words(self, claim: Claim) -> str:
        """What was found of a claim, as in `holds 3, open 1`."""
        found = counted([v for _, verdicts in self.compared.all(claim) for v in verdicts])
        return ", ".join(f"{word} {count}" for word, count in found.items()) or NOT_MEASURED

    def unexplained(self, claim: Claim) -> bool:
        """Whether a claim fails or is open somewhere, and nobody has said why."""
        words = {v.word for _, verdicts in self.compared.all(claim) for v in verdicts}
        return bool(words & {"fails", "open"}) and not claim.finding

    # ---- one claim

    def claim(self, claim: Claim, *, level: str = "###", picture: str = "") -> str:
        """The section of a claim; `picture` is a file with its curves."""
        parts = [f"{level} {claim.id}\n\n{claim.place}: {claim.says}"]
        if claim.note:
            parts.append(claim.note)
        shown = {self.study.set_of(source) for source in self.study.shown_by(claim)}
        if claim.setting and any(key.partition(".")[0] in shown for row in claim.row for key in row.paper):
            parts.append(f"Paper's numbers (in brackets): {claim.setting}.")
        parts += [self._table(claim, metric) for metric in claim.metrics]
        parts += [self._curve(curve.training, curve.figures) for curve in claim.curve]
        parts += [f"![Curves of the trainings]({picture})"] if picture else []
        parts += self._compared(claim)
        parts += self._stale(claim)
        if claim.finding:
            parts.append(f"**Found:** {claim.finding}")
        elif self.unexplained(claim):
            parts.append(UNEXPLAINED)
        parts.append(self._commands(claim))
        return "\n\n".join(parts)

    def _commands(self, claim: Claim) -> str:
        variants = [self.study.variants[name] for row in claim.row for name in row.answered_by]
        adapters = dict.fromkeys(name for variant in variants for name in variant.adapters.values())
        trained = dict.fromkeys(_pattern(t) for t in adapters if t in self.study.trainings)
        command = f"    subquest study {self.study.name}"
        lines = [f"{command} --run --only {claim.id} --out again"]
        if trained:
            names = " ".join(f"--only {name}" for name in trained)
            lines.insert(0, f"{command} --train {names} --out again")
        return "\n".join(lines)

    def _table(self, claim: Claim, metric: str) -> str:
        sources = self.study.shown_by(claim)
        costs = claim.costs if metric == claim.metrics[0] else ()
        seeds = all(row.variants for row in claim.row)
        if claim.by_hops:
            heads = [f"{n} hop{'s' * (n > 1)}" for n in range(1, 7)] + ["all"]
        else:
            heads = [self._title(s) for s in sources]
        heads += [title_of(c) for c in costs] + ["each seed alone, " + self._title(sources[0])] * seeds
        lines = ["| " + " | ".join([title_of(metric), *heads]) + " |", "|---" * (1 + len(heads)) + "|"]
        for row in claim.row:
            cells = [self._cell(claim, row, s, metric) for s in sources]
            if claim.by_hops:
                cells = self._by_hops(row, sources[0], metric)
            cells += [self._cost(row, sources[0], cost) for cost in costs]
            if seeds:
                cells.append(self._each(row, sources[0], metric))
            lines.append("| " + " | ".join([row.name, *cells]) + " |")
        return "\n".join(lines)

    def _title(self, source: str) -> str:
        return title_of(self.study.set_of(source))

    def _cell(self, claim: Claim, row: Row, source: str, metric: str) -> str:
        printed = claim.printed(row, self.study.set_of(source), metric)
        paper = f" [{printed:.3f}]" if printed is not None else ""
        values = self.compared.values(row, source, metric, hops=claim.hops)
        if not values:
            return self._absent(row) + paper
        return self._mean(values) + paper + self._share(row, source)

    def _share(self, row: Row, source: str) -> str:
        """How much of a row is there, where it is not all of it."""
        share = self.compared.answered(row, source)
        return "" if share >= 1 else f" *({share:.0%} answered)*"

    def _absent(self, row: Row) -> str:
        return (
            STALE if any(self._progress.stale(self.study.variants[name]) for name in row.answered_by) else NOT_MEASURED
        )

    def _mean(self, values: Sequence[float]) -> str:
        found = self.compared.interval(values)
        return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f}; {len(values):,})"

    def _by_hops(self, row: Row, source: str, metric: str) -> list[str]:
        every = self.compared.values(row, source, metric)
        if not every:
            return [self._absent(row)] * 7
        hops = [h for units in self.compared.units(row, source).values() for h in units[0].hops]
        out = []
        for wanted in range(1, 7):
            values = [v for v, h in zip(every, hops, strict=True) if h == wanted]
            out.append(f"{sum(values) / len(values):.3f}" if values else "")
        return [*out, self._mean(every) + self._share(row, source)]

    def _cost(self, row: Row, source: str, name: str) -> str:
        """A mean over the source's questions."""
        found = [u for units in self.compared.units(row, source).values() for u in units if name in u.means]
        total = sum(len(u.hops) for u in found)
        return _number(sum(u.means[name] * len(u.hops) for u in found) / total) if total else ""

    def _each(self, row: Row, source: str, metric: str) -> str:
        """The means of the variants that a row pools."""
        means = []
        for name in row.answered_by:
            values = self.compared.values(row, source, metric, variants=(name,))
            means.append(f"{sum(values) / len(values):.3f}" if values else "–")
        return ", ".join(means) if set(means) != {"–"} else ""

    def training(self, name: str) -> Mapping[str, Any]:
        """What is kept of a training; empty where it was not run."""
        return self.results.training(name, known_as(self.study, self.study.trainings[name]))

    def _curve(self, training: str, figures: Sequence[str]) -> str:
        """Means over stretches of a training: a single step asks too few questions to show where it goes."""
        found = self.training(training)
        curves: Mapping[str, list[list[float]]] = found.get("figures", {})
        known = [f for f in figures if curves.get(f)]
        if not known:
            return f"Training `{training}`: {NOT_MEASURED}"
        steps = [int(step) for step, _ in curves[known[0]]]
        if not found["adapter"]:
            return f"Training `{training}`: *not finished*, stopped after step {steps[-1]}"
        count = min(STRETCHES, len(steps))
        stretches = [steps[i * len(steps) // count : (i + 1) * len(steps) // count] for i in range(count)]
        heads = [f"{s[0]}–{s[-1]}" if len(s) > 1 else str(s[0]) for s in stretches]
        lines = [f"| training `{training}`, steps | " + " | ".join(heads) + " |", "|---" * (1 + count) + "|"]
        for figure in known:
            points = {int(step): value for step, value in curves[figure]}
            means = [[points[s] for s in stretch if s in points] for stretch in stretches]
            cells = " | ".join(_number(sum(m) / len(m)) if m else "" for m in means)
            lines.append(f"| {title_of(figure)} | {cells} |")
        return "\n".join(lines)

    def _stale(self, claim: Claim) -> list[str]:
        """Why rows do not count, each variant once."""
        names = dict.fromkeys(name for row in claim.row for name in row.answered_by)
        why = {name: self._progress.stale(self.study.variants[name]) for name in names}
        reasons = [f"`{name}` ({reason})" for name, reason in why.items() if reason]
        return [f"Stale: {'; '.join(reasons)}."] if reasons else []

    # ---- comparisons

    def _compared(self, claim: Claim) -> list[str]:
        lines = []
        for compared, found in self.compared.all(claim):
            if found:
                each = (
                    f"{v.source} {_signed(v.difference)} ({_signed(v.low)} to {_signed(v.high)}; {v.n:,})"
                    for v in found
                )
                words = (f"{text}: **{v.word}**{_beside_paper(v)}" for text, v in zip(each, found, strict=True))
                lines.append(f"- {compared}: {'; '.join(words)}")
        return ["\n".join(lines)] if lines else []


def joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _pattern(training: str) -> str:
    """A training's name, or a pattern for all of its grid."""
    name, comma, _ = training.partition(",")
    return f"'{name},*'" if comma else name


def _signed(value: float) -> str:
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"


def _beside_paper(verdict: Verdict) -> str:
    """How a difference compares with the paper's, where that is outside its interval."""
    if verdict.paper is None or verdict.low <= verdict.paper <= verdict.high:
        return ""
    return f", {'smaller' if verdict.paper > verdict.high else 'larger'} than the paper's {_signed(verdict.paper)}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
