"""`docs/claims.md`: every claim with the paper's numbers and ours, written from the stored results."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from .book import OURS, Book, Claim, Row
from .measure import BARE_TOKENS, MAX_TOKENS, Stamps, known_as
from .plan import rows_of
from .results import Results, Unit
from .timing import expected

NAMES = {
    "world": "worlds", "pictures": "worlds with pictures", "hotpotqa": "HotpotQA", "2wikimultihopqa": "2Wiki",
    "musique": "MuSiQue", "em": "EM", "f1": "F1",
    "cem": "CEM", "judge": "judge", "sepr": "plan score", "idle": "idle executors", "peak_context": "peak context",
    "prompt_tokens": "tokens read", "completion_tokens": "tokens written", "support_recall": "support recall",
    "model_calls": "model calls", "written_planner": "tokens a plan", "idle_executors": "idle executors",
    "peak_planner": "peak, planner", "peak_answerer": "peak, answerer", "peak_executor": "peak, executor",
    "format_errors": "format errors", "tasks": "sub-tasks", "reward/sepr_precision": "plan precision",
    "reward/role_answerer": "judge of the answerer",
    "reward/sepr_recall": "plan recall", "reward/plan_steps": "steps a plan",
}  # fmt: skip
RESAMPLES = 2000
STRETCHES = 4
"""Of a training, each with its mean."""
NOT_RUN, STALE = "*not run*", "*stale*"

HEAD = """# The papers' claims, tried on a small model

Each claim of the four papers that a table or figure stands for, run with SmolLM2-135M on one GPU: the same start, the
same questions, steps and rollouts for all rows of a comparison. The papers used models of 3 to 32 billion parameters,
so what is compared is the direction, not the height. This page is written from stored results by

    subquest study claims --write docs/claims.md

**How to read it.** A cell is *ours (95 % interval; questions) [the paper's number]*. Intervals are by bootstrap over
questions. Below a table stands what the claim comes to: the difference of two rows, paired question by question, with
its interval. The claim *holds* on a source where the whole interval lies on the side that the paper says, *fails* where
it lies on the other, and is *open* where it holds 0. What was not run says *not run*; a row that was measured with
settings, prompts, ranking, weights or questions that are not today's says *stale* and does not count; a row that is not
complete is marked with the share of its questions that is answered. Costs are means over the first source's questions.

**Two adapters.** What needs no training (documents a search, searches a sub-question, filter, reranker) is run with the
adapter that [ships](models/smollm2-subquest.md). It answers most questions of a world, so a short training on from it
could show nothing, and most of its traces are CoDA's, so it could not compare systems. Whatever is compared after
training starts from another one, `cold`: the bare model after {cold} steps of fine-tuning on gold traces, the same
questions in every system's protocol (`recipes/claims/cold.toml`; naive RAG has traces of those that one search can
answer). DECOR's and APEX-Searcher's trainings, three more of PECO and second ones of AutoRefine and naive RAG start
from `cold-2` and are compared with it: the same fine-tuning with another seed, kept in `recipes/claims/adapters/`.

**What is the same for all.** Greedy decoding, turns of at most {tokens} tokens ({bare} where a role has no adapter and
writes on and on), BM25 with [named articles](search.md#named-articles) first. A training by reinforcement has
{budgets}, which is short; its last weights count, whatever they
score. HiRA's rows have an oracle in place of the model, as their notes say. `recipes/claims/` defines arms and
trainings, and `subquest study claims` lists them. The commands below each table run it again from nothing, into a
folder `again` (`--use cold-2=recipes/claims/adapters/cold-2` spares that fine-tuning, `cold.toml` says how its traces
are made); `subquest study claims --out again --write again.md` writes this page from it. Questions:

{questions}

**State.** {state}
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
    def __init__(self, book: Book, results: Results, stamps: Stamps) -> None:
        self.book, self.results, self.stamps = book, results, stamps
        self._means: dict[tuple[float, ...], Mean] = {}

    def text(self) -> str:
        limits = {"tokens": MAX_TOKENS, "bare": BARE_TOKENS}
        head = HEAD.format(questions=self._questions(), state=self._state(), **limits, **self._budget())
        parts = [head, self._summary()]
        for paper in dict.fromkeys(c.paper for c in self.book.claims if c.paper != OURS):
            parts.append(f"## {paper}")
            parts += [self._claim(c) for c in self.book.claims if c.paper == paper]
        parts.append("## Where it stands")
        parts += [self._claim(c) for c in self.book.claims if c.paper == OURS]
        return "\n\n".join(part.strip("\n") for part in parts) + "\n"

    def _questions(self) -> str:
        return "\n".join(f"- {NAMES.get(s.name, s.name)}: `{s.told}`" for s in self.book.sources.values())

    def _state(self) -> str:
        rows = rows_of(self.book, self.book.chosen(()), self.results, self.stamps)
        stale = f", {rows.stale} of them stale" if rows.stale else ""
        return f"Of {rows.done + rows.left} rows (an arm on a source) {rows.done} are complete, {rows.left} not{stale}."

    def _budget(self) -> dict[str, str]:
        """What every training spends, as the recipes say."""
        recipes = {
            t.recipe.name: tomllib.loads(t.recipe.read_text(encoding="utf-8")) for t in self.book.trainings.values()
        }
        start = self.book.trainings[self.book.start].recipe.name if self.book.start else ""
        cold = recipes.pop(start)["optimiser"]["steps"] if start else ""
        budgets: dict[str, list[str]] = {}
        for name, recipe in recipes.items():
            if "rollout" not in recipe:  # a fine-tuning
                continue
            steps, rollout = recipe["optimiser"]["steps"], recipe["rollout"]
            told = f"{steps} steps of {rollout['questions']} questions with {rollout['group']} rollouts each"
            budgets.setdefault(told, []).append(f"`{name}`")
        return {"cold": str(cold), "budgets": " or ".join(f"{told} ({', '.join(n)})" for told, n in budgets.items())}

    def _summary(self) -> str:
        lines = ["| claim | where | what the paper says | here |", "|---|---|---|---|"]
        for claim in self.book.claims:
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
        arms = [self.book.arms[name] for row in claim.row for name in row.answered_by]
        adapters = dict.fromkeys(name for arm in arms for name in arm.adapters.values())
        trained = dict.fromkeys(_pattern(t) for t in adapters if t in self.book.trainings)
        lines = [f"    subquest study claims --run --only {claim.id} --out again"]
        if trained:
            names = " ".join(f"--only {name}" for name in trained)
            lines.insert(0, f"    subquest study claims --train {names} --out again")
        return "\n".join(lines)

    def _table(self, claim: Claim, metric: str) -> str:
        sources = self.book.shown_by(claim)
        costs = claim.costs if metric == claim.metrics[0] else ()
        seeds = all(row.arms for row in claim.row)
        if claim.by_hops:
            heads = [f"{n} hop{'s' * (n > 1)}" for n in range(1, 7)] + ["all"]
        else:
            heads = [NAMES.get(s, s) for s in sources]
        heads += [NAMES.get(c, c) for c in costs] + ["each seed alone, " + NAMES.get(sources[0], sources[0])] * seeds
        lines = ["| " + " | ".join([NAMES.get(metric, metric), *heads]) + " |", "|---" * (1 + len(heads)) + "|"]
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
        alone = replace(self.book, claims=(Claim("", "", "", "", row=(row,)),))
        size = sum(expected(alone, self.book.arms[name], source) for name in row.answered_by)
        return "" if answered >= size else f" *({answered / size:.0%} answered)*"

    def _absent(self, row: Row) -> str:
        stamps = [(name, self.stamps.of(self.book.arms[name])) for name in row.answered_by]
        return STALE if any(self.results.stale(name, stamp) for name, stamp in stamps) else NOT_RUN

    def _units(self, row: Row, source: str) -> dict[str, Unit]:
        """What counts of a row on a source, by arm and part."""
        found: dict[str, Unit] = {}
        asked = self.book.sources[source].told
        for number, name in enumerate(row.answered_by):
            arm = self.book.arms[name]
            result = self.results.arm(name, self.stamps.of(arm))
            if result is not None and source in self.book.sources_of(arm):
                units = result.of(source, asked).items()
                found |= {f"{number}/{part}": unit for part, unit in units if row.takes(name, part)}
        return found

    def _mean(self, values: Sequence[float]) -> str:
        m = self._bootstrapped(values)
        return f"{m.mean:.3f} ({m.low:.3f}–{m.high:.3f}; {m.n:,})"

    def _bootstrapped(self, values: Sequence[float]) -> Mean:
        key = tuple(values)
        if key not in self._means:
            self._means[key] = bootstrap(values)
        return self._means[key]

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
        """The means of the arms that a row pools."""
        units = self._units(row, source)
        told = []
        for number in range(len(row.answered_by)):
            values = [v for name, u in units.items() if name.startswith(f"{number}/") for v in u.metric(metric)]
            told.append(f"{sum(values) / len(values):.3f}" if values else "–")
        return ", ".join(told) if units else ""

    def _curve(self, training: str, figures: Sequence[str]) -> str:
        """Means over stretches of a training: a single step asks too few questions to show where it goes."""
        recipe = known_as(self.book, self.book.trainings[training])
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
            lines.append(f"| {NAMES.get(figure, figure)} | {cells} |")
        return "\n".join(lines)

    def _stale(self, claim: Claim) -> list[str]:
        """Why rows do not count, each arm once."""
        names = dict.fromkeys(name for row in claim.row for name in row.answered_by)
        why = {name: self.results.stale(name, self.stamps.of(self.book.arms[name])) for name in names}
        told = [f"`{name}` ({reason})" for name, reason in why.items() if reason]
        return [f"Stale: {'; '.join(told)}."] if told else []

    # ---- comparisons

    def _compared(self, claim: Claim) -> list[str]:
        lines = []
        for told, found in self._all_verdicts(claim):
            if found:
                each = (
                    f"{v.source} {_signed(v.difference)} ({_signed(v.low)} to {_signed(v.high)}; {v.n:,})"
                    for v in found
                )
                words = (f"{text}: **{v.word}**" for text, v in zip(each, found, strict=True))
                lines.append(f"- {told}: {'; '.join(words)}")
        return ["\n".join(lines)] if lines else []

    def _all_verdicts(self, claim: Claim) -> list[tuple[str, list[Verdict]]]:
        """Everything that a claim says about pairs of rows, in words, with what was found of it."""
        metric = claim.metrics[0]
        told = []
        for better, worse in claim.expect:
            text = f"{better} − {worse}, {NAMES.get(metric, metric)}"
            told.append((text, self._verdicts(claim, better, worse, metric)))
        for level in claim.level:
            keeps = 1 - level.share
            text = f"{level.row} − {keeps:.0%} of {level.base}, {NAMES.get(metric, metric)}"
            told.append((text, self._verdicts(claim, level.row, level.base, metric, keeps)))
        for less, more, cost in claim.cheaper:
            text = f"{more} − {less}, {NAMES.get(cost, cost)}"
            told.append((text, self._verdicts(claim, more, less, cost)[:1]))
        return told

    def _verdicts(self, claim: Claim, first: str, second: str, metric: str, share: float = 1.0) -> list[Verdict]:
        """A row less a share of another, on every source where both answered the same questions."""
        rows = {row.name: row for row in claim.row}
        out = []
        for source in self.book.shown_by(claim):
            left, right = self._units(rows[first], source), self._units(rows[second], source)
            both = sorted(n for n in left if n in right and left[n].questions == right[n].questions)
            x = [v for n in both for v in left[n].metric(metric, hops=claim.hops)]
            y = [v for n in both for v in right[n].metric(metric, hops=claim.hops)]
            if x and len(x) == len(y):
                m = self._bootstrapped([p - share * q for p, q in zip(x, y, strict=True)])
                out.append(Verdict(NAMES.get(source, source), *m))
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
