"""`docs/claims.md`: every claim with the paper's numbers and ours, written from the stored results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .book import Arm, Book, Claim, Row
from .results import ArmResult, Results

NAMES = {
    "world": "worlds", "hotpotqa": "HotpotQA", "2wikimultihopqa": "2Wiki", "musique": "MuSiQue", "em": "EM", "f1": "F1",
    "cem": "CEM", "judge": "judge", "sepr": "plan score", "idle": "idle executors", "peak_context": "peak context",
    "prompt_tokens": "tokens read", "completion_tokens": "tokens written", "support_recall": "support recall",
    "model_calls": "model calls", "written_planner": "tokens a plan", "idle_executors": "idle executors",
    "peak_planner": "peak, planner", "peak_answerer": "peak, answerer", "peak_executor": "peak, executor",
    "format_errors": "format errors", "tasks": "sub-tasks", "reward/sepr_precision": "plan precision",
    "reward/sepr_recall": "plan recall", "reward/plan_steps": "steps a plan",
}  # fmt: skip
RESAMPLES = 2000
NOT_RUN = "*not run*"

HEAD = """# The papers' claims, tried on a small model

Each claim of the four papers that a table or figure stands for, run with SmolLM2-135M on one GPU: the same start (the
adapter of supervised fine-tuning, `sft`), the same questions, steps and rollouts for all rows of a comparison. The
papers used models of 3 to 32 billion parameters, so what is compared is the direction, not the height. This page is
written from stored results by

    subquest study claims --write docs/claims.md

Questions: {questions}.
Intervals are 95 %, by bootstrap over questions; differences are paired, question by question. A claim *holds* on a
source where the whole interval of the difference lies above 0, *fails* where it lies below, and is *open* otherwise.
What was not run says so. In brackets after ours: the interval and the number of questions; in square brackets the
paper's number. Costs are means over the first source's questions. Each training has {steps} steps of {asked} questions
with {group} rollouts each; its last weights count, whatever they score. HiRA's rows have an oracle in place of the
model, as their notes say. `subquest study claims` lists the arms, `recipes/claims/` defines them.
"""


class Mean(NamedTuple):
    mean: float
    low: float
    high: float
    n: int


def bootstrap(values: Sequence[float], seed: int = 0) -> Mean:
    """Mean with a percentile interval."""
    import numpy as np

    array = np.asarray(values, dtype=np.float64)
    draws = np.random.default_rng(seed)
    means = [array[draws.integers(len(array), size=len(array))].mean() for _ in range(RESAMPLES)]
    low, high = np.percentile(means, (2.5, 97.5))
    return Mean(float(array.mean()), float(low), float(high), len(array))


class Page:
    def __init__(self, book: Book, results: Results) -> None:
        self.book = book
        self.results = results
        self._means: dict[tuple[float, ...], Mean] = {}

    def text(self) -> str:
        parts = [HEAD.format(questions=self._questions(), **self._budget()), self._summary()]
        for paper in dict.fromkeys(c.paper for c in self.book.claims if c.paper != "ours"):
            parts.append(f"## {paper}")
            parts += [self._claim(c) for c in self.book.claims if c.paper == paper]
        parts.append("## Where it stands")
        parts += [self._claim(c) for c in self.book.claims if c.paper == "ours"]
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _questions(self) -> str:
        return "; ".join(f"{NAMES.get(s.name, s.name)} `{s.questions}`" for s in self.book.sources.values())

    def _budget(self) -> dict[str, str]:
        """What every training spends, as the recipes say; a range where they differ."""
        tables = [tomllib.loads(t.recipe.read_text(encoding="utf-8")) for t in self.book.trainings.values()]
        found = {
            "steps": {t["optimiser"]["steps"] for t in tables},
            "asked": {t["rollout"]["questions"] for t in tables},
            "group": {t["rollout"]["group"] for t in tables},
        }
        return {name: " or ".join(map(str, sorted(values))) for name, values in found.items()}

    def _summary(self) -> str:
        lines = ["| claim | where | what the paper says | here |", "|---|---|---|---|"]
        for claim in self.book.claims:
            if claim.paper == "ours":
                continue
            found = [v for pair in claim.expect for v in self._verdicts(claim, *pair)]
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
        if claim.finding:
            parts.append(f"**Found:** {claim.finding}")
        parts.append(self._commands(claim))
        return "\n\n".join(parts)

    def _commands(self, claim: Claim) -> str:
        adapters = dict.fromkeys(a for row in claim.row for a in self.book.arms[row.arm].adapters.values())
        trained = dict.fromkeys(_pattern(t) for t in adapters if t in self.book.trainings)
        lines = [f"    subquest study claims --run --only {claim.id}"]
        if trained:
            names = " ".join(f"--only {name}" for name in trained)
            lines.insert(0, f"    subquest study claims --train {names}")
        return "\n".join(lines)

    def _sources(self, claim: Claim) -> tuple[str, ...]:
        return claim.sources or tuple(self.book.sources)

    def _table(self, claim: Claim, metric: str) -> str:
        sources = self._sources(claim)
        costs = claim.costs if metric == claim.metrics[0] else ()
        if claim.by_hops:
            heads = [f"{n} hop{'s' * (n > 1)}" for n in range(1, 7)] + ["all"]
        else:
            heads = [NAMES.get(s, s) for s in sources]
        lines = ["| " + " | ".join([NAMES.get(metric, metric), *heads, *(NAMES.get(c, c) for c in costs)]) + " |"]
        lines.append("|---" * (1 + len(heads) + len(costs)) + "|")
        for row in claim.row:
            found = self.results.arm(self.book.arms[row.arm])
            cells = [self._cell(found, claim, row, s, metric) for s in sources]
            if claim.by_hops:
                cells = self._by_hops(found, sources[0], metric)
            cells += [_cost(found, sources[0], cost) for cost in costs]
            lines.append("| " + " | ".join([row.name, *cells]) + " |")
        return "\n".join(lines)

    def _cell(self, found: ArmResult | None, claim: Claim, row: Row, source: str, metric: str) -> str:
        printed = row.paper.get(f"{source}.{metric}", row.paper.get(source))
        paper = f" [{printed:.3f}]" if printed is not None else ""
        if found is None or source not in self.book.sources_of(self.book.arms[row.arm]):
            return NOT_RUN + paper
        values = _values(found, source, metric, claim.hops)
        if not values:
            return NOT_RUN + paper
        return self._mean(values) + paper

    def _mean(self, values: Sequence[float]) -> str:
        key = tuple(values)
        if key not in self._means:
            self._means[key] = bootstrap(values)
        m = self._means[key]
        return f"{m.mean:.3f} ({m.low:.3f}–{m.high:.3f}; {m.n:,})"

    def _by_hops(self, found: ArmResult | None, source: str, metric: str) -> list[str]:
        if found is None or not found.of(source):
            return [NOT_RUN] * 7
        out = []
        for hops in range(1, 7):
            units = found.of(source).values()
            values = [v / 1000 for u in units for v, h in zip(u.values[metric], u.hops, strict=True) if h == hops]
            out.append(f"{sum(values) / len(values):.3f}" if values else "")
        return [*out, self._mean(_values(found, source, metric, 0))]

    def _curve(self, training: str, figures: Sequence[str]) -> str:
        curves = self.results.curve(training)
        known = [f for f in figures if curves.get(f)]
        if not known:
            return f"Training `{training}`: {NOT_RUN}"
        steps = [int(step) for step, _ in curves[known[0]]]
        shown = sorted({steps[round(i * (len(steps) - 1) / 4)] for i in range(5)})
        lines = [
            f"| training `{training}`, step | " + " | ".join(map(str, shown)) + " |",
            "|---" * (1 + len(shown)) + "|",
        ]
        for figure in known:
            points = {int(step): value for step, value in curves[figure]}
            cells = " | ".join(_number(points[s]) if s in points else "" for s in shown)
            lines.append(f"| {NAMES.get(figure, figure)} | {cells} |")
        return "\n".join(lines)

    # ---- comparisons

    def _compared(self, claim: Claim) -> list[str]:
        lines = []
        for better, worse in claim.expect:
            found = self._verdicts(claim, better, worse)
            if found:
                told = "; ".join(
                    f"{v.source} {v.difference:+.3f} ({v.low:+.3f} to {v.high:+.3f}): {v.word}" for v in found
                )
                lines.append(f"- {better} − {worse}: {told}")
        return ["\n".join(lines)] if lines else []

    def _verdicts(self, claim: Claim, better: str, worse: str) -> list[Verdict]:
        """The comparison of two rows on every source where both answered the same questions."""
        a, b = (self._arm(claim, name) for name in (better, worse))
        if a is None or b is None:
            return []
        out = []
        for source in self._sources(claim):
            left, right = a.of(source), b.of(source)
            both = [n for n in left if n in right and left[n].questions == right[n].questions]
            metric = claim.metrics[0]
            x = [v for n in both for v in left[n].metric(metric, hops=claim.hops)]
            y = [v for n in both for v in right[n].metric(metric, hops=claim.hops)]
            if x and len(x) == len(y):
                out.append(Verdict.of(NAMES.get(source, source), [p - q for p, q in zip(x, y, strict=True)]))
        return out

    def _arm(self, claim: Claim, name: str) -> ArmResult | None:
        arm: Arm = self.book.arms[next(row.arm for row in claim.row if row.name == name)]
        return self.results.arm(arm)


class Verdict(NamedTuple):
    source: str
    difference: float
    low: float
    high: float

    @classmethod
    def of(cls, source: str, differences: Sequence[float]) -> Verdict:
        m = bootstrap(differences)
        return cls(source, m.mean, m.low, m.high)

    @property
    def word(self) -> str:
        return "holds" if self.low > 0 else "fails" if self.high < 0 else "open"


def _pattern(training: str) -> str:
    """A training's name, or a pattern for all of its grid."""
    name, comma, _ = training.partition(",")
    return f"'{name},*'" if comma else name


def _counted(words: Iterable[str]) -> str:
    """As in `holds 3, open 1`."""
    listed = list(words)
    return ", ".join(f"{word} {listed.count(word)}" for word in ("holds", "open", "fails") if word in listed)


def _values(found: ArmResult, source: str, metric: str, hops: int) -> list[float]:
    units: Mapping[str, object] = found.of(source)
    return [v for name in sorted(units) for v in found.units[name].metric(metric, hops=hops)]


def _cost(found: ArmResult | None, source: str, name: str) -> str:
    """A mean over the source's questions."""
    units = [u for u in (found.of(source).values() if found else ()) if name in u.means]
    total = sum(len(u.hops) for u in units)
    return _number(sum(u.means[name] * len(u.hops) for u in units) / total) if total else ""


def _number(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.0f}"
