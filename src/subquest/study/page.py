"""The page of a study's claims: each with the paper's numbers and ours, written from the stored results.

The page begins with `page.md` of the recipe's folder, which may use {questions}, {state}, {tokens}, {bare}, {start}
and {budgets}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..evaluate.statistics import Interval
from .design import OURS, Claim, Row
from .results import Progress, Unit
from .stamps import BARE_TOKENS, MAX_TOKENS, known_as
from .table import title_of

RESAMPLES = 2000
STRETCHES = 4
"""Of a training, each with its mean."""
NOT_RUN, STALE = "*not run*", "*stale*"


def bootstrap(values: Sequence[float], seed: int = 0) -> Interval:
    """Mean with a percentile interval. The draws stay as they are: verdicts of published pages depend on them."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(seed)
    means = [array[draws.integers(len(array), size=len(array))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, (2.5, 97.5))
    return Interval(float(array.mean()), float(low), float(high))


class Verdict(NamedTuple):
    source: str
    difference: float
    low: float
    high: float
    n: int

    @property
    def word(self) -> str:
        return "holds" if self.low > 0 else "fails" if self.high < 0 else "open"


class Page:
    def __init__(self, progress: Progress) -> None:
        self.study, self.results, self._progress = progress.study, progress.results, progress
        self._intervals: dict[tuple[float, ...], Interval] = {}

    def text(self) -> str:
        parts = [self._head(), self._summary()]
        for paper in dict.fromkeys(c.paper for c in self.study.claims if c.paper != OURS):
            parts.append(f"## {paper}")
            parts += [self._claim(c) for c in self.study.claims if c.paper == paper]
        if ours := [self._claim(c) for c in self.study.claims if c.paper == OURS]:
            parts += ["## Where it stands", *ours]
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _head(self) -> str:
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
            found = [v for _, verdicts in self._all_verdicts(claim) for v in verdicts]
            words = _counted(v.word for v in found) or NOT_RUN
            lines.append(f"| [{claim.id}](#{claim.id}) | {claim.paper}, {claim.place} | {claim.says} | {words} |")
        return "\n".join(lines)

    # ---- one claim

    def _claim(self, claim: Claim) -> str:
        title = f"### {claim.id}\n\n{claim.place}: {claim.says}"
        parts = [title]
        if claim.note:
            parts.append(claim.note)
        if claim.setting and any(row.paper for row in claim.row):
            parts.append(f"Paper's numbers (in brackets): {claim.setting}.")
        parts += [self._table(claim, metric) for metric in claim.metrics]
        parts += [self._curve(curve.training, curve.figures) for curve in claim.curve]
        parts += self._compared(claim)
        parts += self._stale(claim)
        if claim.finding:
            parts.append(f"**Found:** {claim.finding}")
        parts.append(self._commands(claim))
        return "\n\n".join(parts)

    def _commands(self, claim: Claim) -> str:
        variants = [self.study.variants[name] for row in claim.row for name in row.answered_by]
        adapters = dict.fromkeys(name for variant in variants for name in variant.adapters.values())
        trained = dict.fromkeys(_pattern(t) for t in adapters if t in self.study.trainings)
        lines = [f"    subquest study claims --run --only {claim.id} --out again"]
        if trained:
            names = " ".join(f"--only {name}" for name in trained)
            lines.insert(0, f"    subquest study claims --train {names} --out again")
        return "\n".join(lines)

    def _table(self, claim: Claim, metric: str) -> str:
        sources = self.study.shown_by(claim)
        costs = claim.costs if metric == claim.metrics[0] else ()
        seeds = all(row.variants for row in claim.row)
        if claim.by_hops:
            heads = [f"{n} hop{'s' * (n > 1)}" for n in range(1, 7)] + ["all"]
        else:
            heads = [title_of(s) for s in sources]
        heads += [title_of(c) for c in costs] + ["each seed alone, " + title_of(sources[0])] * seeds
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

    def _cell(self, claim: Claim, row: Row, source: str, metric: str) -> str:
        printed = row.paper.get(f"{source}.{metric}", row.paper.get(source))
        paper = f" [{printed:.3f}]" if printed is not None else ""
        units = self._units(row, source)
        values = [v for name in sorted(units) for v in units[name].metric(metric, hops=claim.hops)]
        if not values:
            return self._absent(row) + paper
        return self._mean(values) + paper + self._share(row, source)

    def _share(self, row: Row, source: str) -> str:
        """How much of a row is there, where it is not all of it."""
        answered = sum(len(u.hops) for u in self._units(row, source).values())
        alone = replace(self.study, claims=(Claim("", "", "", "", row=(row,)),))
        progress = Progress(alone, self.results, self._progress.stamps)
        size = sum(progress.expected(self.study.variants[name], source) for name in row.answered_by)
        return "" if answered >= size else f" *({answered / size:.0%} answered)*"

    def _absent(self, row: Row) -> str:
        return STALE if any(self._progress.stale(self.study.variants[name]) for name in row.answered_by) else NOT_RUN

    def _units(self, row: Row, source: str) -> dict[str, Unit]:
        """What counts of a row on a source, by variant and part."""
        found: dict[str, Unit] = {}
        asked = self.study.sources[source].description
        for number, name in enumerate(row.answered_by):
            variant = self.study.variants[name]
            result = self._progress.fresh(variant)
            if result is not None and source in self.study.sources_of(variant):
                units = result.of(source, asked).items()
                found |= {f"{number}/{part}": unit for part, unit in units if row.takes(name, part)}
        return found

    def _mean(self, values: Sequence[float]) -> str:
        found = self._interval(values)
        return f"{found.mean:.3f} ({found.low:.3f}–{found.high:.3f}; {len(values):,})"

    def _interval(self, values: Sequence[float]) -> Interval:
        key = tuple(values)
        if key not in self._intervals:
            self._intervals[key] = bootstrap(values)
        return self._intervals[key]

    def _by_hops(self, row: Row, source: str, metric: str) -> list[str]:
        units = self._units(row, source)
        if not units:
            return [self._absent(row)] * 7
        out = []
        for hops in range(1, 7):
            pairs = [(v, h) for u in units.values() for v, h in zip(u.values[metric], u.hops, strict=True)]
            values = [v / 1000 for v, h in pairs if h == hops]
            out.append(f"{sum(values) / len(values):.3f}" if values else "")
        every = [v for name in sorted(units) for v in units[name].metric(metric)]
        return [*out, self._mean(every) + self._share(row, source)]

    def _cost(self, row: Row, source: str, name: str) -> str:
        """A mean over the source's questions."""
        units = [u for u in self._units(row, source).values() if name in u.means]
        total = sum(len(u.hops) for u in units)
        return _number(sum(u.means[name] * len(u.hops) for u in units) / total) if total else ""

    def _each(self, row: Row, source: str, metric: str) -> str:
        """The means of the variants that a row pools."""
        units = self._units(row, source)
        means = []
        for number in range(len(row.answered_by)):
            values = [v for name, u in units.items() if name.startswith(f"{number}/") for v in u.metric(metric)]
            means.append(f"{sum(values) / len(values):.3f}" if values else "–")
        return ", ".join(means) if units else ""

    def _curve(self, training: str, figures: Sequence[str]) -> str:
        """Means over stretches of a training: a single step asks too few questions to show where it goes."""
        recipe = known_as(self.study, self.study.trainings[training])
        found = self.results.training(training, recipe)
        curves: Mapping[str, list[list[float]]] = found.get("figures", {})
        known = [f for f in figures if curves.get(f)]
        if not known:
            return f"Training `{training}`: {NOT_RUN}"
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
        for compared, found in self._all_verdicts(claim):
            if found:
                each = (
                    f"{v.source} {_signed(v.difference)} ({_signed(v.low)} to {_signed(v.high)}; {v.n:,})"
                    for v in found
                )
                words = (f"{text}: **{v.word}**" for text, v in zip(each, found, strict=True))
                lines.append(f"- {compared}: {'; '.join(words)}")
        return ["\n".join(lines)] if lines else []

    def _all_verdicts(self, claim: Claim) -> list[tuple[str, list[Verdict]]]:
        """Everything that a claim says about pairs of rows, in words, with what was found of it."""
        metric = claim.metrics[0]
        out = []
        for better, worse in claim.expect:
            text = f"{better} − {worse}, {title_of(metric)}"
            out.append((text, self._verdicts(claim, better, worse, metric)))
        for level in claim.level:
            keeps = 1 - level.share
            text = f"{level.row} − {keeps:.0%} of {level.base}, {title_of(metric)}"
            out.append((text, self._verdicts(claim, level.row, level.base, metric, keeps)))
        for less, more, cost in claim.cheaper:
            text = f"{more} − {less}, {title_of(cost)}"
            out.append((text, self._verdicts(claim, more, less, cost)[:1]))
        return out

    def _verdicts(self, claim: Claim, first: str, second: str, metric: str, share: float = 1.0) -> list[Verdict]:
        """A row less a share of another, on every source where both answered the same questions."""
        rows = {row.name: row for row in claim.row}
        out = []
        for source in self.study.shown_by(claim):
            left, right = self._units(rows[first], source), self._units(rows[second], source)
            both = sorted(n for n in left if n in right and left[n].questions == right[n].questions)
            x = [v for n in both for v in left[n].metric(metric, hops=claim.hops)]
            y = [v for n in both for v in right[n].metric(metric, hops=claim.hops)]
            if x and len(x) == len(y):
                difference = self._interval([p - share * q for p, q in zip(x, y, strict=True)])
                out.append(Verdict(title_of(source), *difference, len(x)))
        return out


def _pattern(training: str) -> str:
    """A training's name, or a pattern for all of its grid."""
    name, comma, _ = training.partition(",")
    return f"'{name},*'" if comma else name


def _counted(words: Iterable[str]) -> str:
    """As in `holds 3, open 1`."""
    listed = list(words)
    return ", ".join(f"{word} {listed.count(word)}" for word in ("holds", "open", "fails") if word in listed)


def _signed(value: float) -> str:
    return f"{value:+.3f}" if abs(value) < 10 else f"{value:+,.0f}"


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
