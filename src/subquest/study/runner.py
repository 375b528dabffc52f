"""Answering: variants with adapters over every part of their sources, through engines that stay loaded.

A *unit* is one measurement on one part. Variants that are the same measurement (the same settings, weights and
questions) share it, whatever claims they are in, and a part of a set (`Source.set`) takes its answers from the whole
set where that is asked too. Units with the same weights overlap; before other weights are loaded, the questions in
flight are answered. When the time is up the answers so far are kept, question by question.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..assemble import Resources, build_agent
from ..data.gold_plans import gold_plan
from ..english import counted
from ..errors import EngineError, SubquestError
from ..evaluate.runner import Job
from ..evaluate.runner import evaluate as run_jobs
from ..judge import AnswerCase
from ..judge.rules import judge_answer
from ..metrics.plans import score_plans
from ..record import Episode, Question, Trajectory
from ..retrieval.minilm import weights
from ..systems.apex.plan import written_plan
from ..systems.registry import get
from ..tools.sandbox import bubblewrap
from ..tools.tool_options import ToolOptions
from ..tools.websearch import SearXNG
from .design import BARE, Variant
from .engines import Engines, Setup
from .pictures import picture_reader
from .questions import Part, Prepared, parts_of, prepare_all
from .results import Progress, Scores, partial_key, unit_of
from .stamps import spec_of

SAVE_SECONDS = 15.0
"""Between writes of what is not complete."""
BATCH = 64
"""Answers whose plans are scored, and which are kept, together."""
COSTS = (
    "forced", "failed", "no_answer", "prompt_tokens", "completion_tokens", "peak_context", "model_calls", "searches",
    "tool_calls", "trajectories", "support_recall",
)  # fmt: skip
HELPERS = ("coordinator", "explorer", "intent", "reader")
"""Roles that help with a sub-task which another context carries out."""


@dataclass(slots=True)
class Unit:
    """A measurement that is not complete."""

    variants: list[Variant]
    """All that it counts for; the first one stands for them."""
    part: Part
    ready: Prepared
    key: str
    scores: dict[int, Mapping[str, float]] = field(default_factory=dict)
    whole: Unit | None = None
    """The same measurement on the set that these questions are the first of: it asks them, and this one is told."""

    @property
    def left(self) -> tuple[int, ...]:
        """Questions without an answer, by their place."""
        return tuple(n for n in range(len(self.ready.questions)) if n not in self.scores)

    @property
    def weights(self) -> str:
        return repr(sorted(self.variants[0].adapters.items()))


def answer_study(
    progress: Progress,
    variants: Sequence[Variant],
    setup: Setup,
    *,
    data: Path,
    report: Callable[[str], None] = lambda text: None,
) -> int:
    """Answer what is not answered yet, as far as there is time; returns how many units are left."""
    parts = {s: parts_of(progress.study.sources[s], data) for v in variants for s in progress.study.asked_of(v)}
    ready = prepare_all([p for found in parts.values() for p in found], setup.cache, report)
    units = open_units(progress, variants, parts, ready)
    asked = sum(len(unit.left) for unit in units if unit.whole is None)
    report(f"{counted(len(units), 'unit')} to answer, {counted(asked, 'question')}")
    recorder = Recorder(progress, units, report)
    for unit in (u for u in units if not u.left):  # a whole set that was cut off had answered it
        recorder.keep(unit, {})
    order = {weights: n for n, weights in enumerate(dict.fromkeys(unit.weights for unit in units))}
    try:
        if units:
            asyncio.run(answer(sorted(units, key=lambda unit: order[unit.weights]), setup, recorder))
    finally:
        recorder.save()
    return sum(1 for unit in units if unit.left)


def missing_adapter(variant: Variant, adapters: Mapping[str, str]) -> str:
    """The first adapter of a variant that is not available; empty where all are."""
    if variant.oracle:
        return ""
    return next((name for name in variant.adapters.values() if name != BARE and name not in adapters), "")


def missing_for(variant: Variant, adapters: Mapping[str, str]) -> str:
    """What a variant needs and this machine does not have; empty where nothing is missing."""
    if name := missing_adapter(variant, adapters):
        return f"the adapter {name} is not available (--train, or --use {name}=PLACE)"
    try:
        if variant.needs_minilm:
            weights()
        uses_code = variant.oracle or get(variant.system).uses_tools
        if uses_code and not ToolOptions().remote_sandbox:
            bubblewrap.way()
    except SubquestError as error:
        return str(error)
    return ""


def open_units(
    progress: Progress,
    variants: Sequence[Variant],
    parts: Mapping[str, Sequence[Part]],
    ready: Mapping[str, Prepared],
) -> list[Unit]:
    """What is left. What one variant has is given to those that are the same measurement."""
    study, results = progress.study, progress.results
    asked = []
    for variant in variants:
        stamp = progress.stamps.of(variant)
        for part in (p for name in study.asked_of(variant) for p in parts[name]):
            if part.name in ready and study.asks(variant, part.name):
                found = results.unit(variant.name, stamp, part.name, ready[part.name].digest)
                asked.append((variant, stamp, part, partial_key(stamp, part.name, ready[part.name].digest), found))
    known = {key: found for *_, key, found in asked if found is not None}
    units: dict[str, Unit] = {}
    for variant, stamp, part, key, found in asked:
        if found is None and key in known:
            results.add(variant.name, stamp, part.name, known[key])
        elif found is None and key in units:
            units[key].variants.append(variant)
        elif found is None:
            answered = results.partial(variant.name).get(key, {})
            units[key] = Unit([variant], part, ready[part.name], key, dict(answered))
    for unit in units.values():
        unit.whole = next((other for other in units.values() if _holds(other, unit)), None)
        unit.scores |= _of_part(unit, unit.whole.scores) if unit.whole else {}
    return list(units.values())


def _holds(other: Unit, unit: Unit) -> bool:
    """Whether another unit is the same measurement on the set that a unit's questions are the first of."""
    same = other.key.partition("/")[0] == unit.key.partition("/")[0] and other.ready.place == unit.ready.place
    first = other.ready.questions[: len(unit.ready.questions)]
    return other.part.name == unit.part.source.set and same and first == unit.ready.questions


def _of_part(unit: Unit, scores: Mapping[int, Scores]) -> dict[int, Scores]:
    """Of a whole set's scores those of a unit on a part of it."""
    return {n: found for n, found in scores.items() if n < len(unit.ready.questions)}


class Recorder:
    """Puts answers into the results: units when they are complete, the rest as partial ones."""

    def __init__(self, progress: Progress, units: list[Unit], report: Callable[[str], None]) -> None:
        self.progress, self.units, self._report = progress, units, report
        self._saved = time.monotonic()

    def keep(self, unit: Unit, scores: Mapping[int, Scores]) -> None:
        for part in (u for u in self.units if u.whole is unit and u.left):
            self.keep(part, _of_part(part, scores))
        unit.scores.update(scores)
        if not unit.left:
            self._finish(unit)
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def read(self, unit: Unit, episode: Episode, scores: Scores) -> None:
        """An episode that is kept for readers."""
        for variant in unit.variants:
            self.progress.results.keep_episode(variant.name, _as_text(episode), scores)

    def _finish(self, unit: Unit) -> None:
        questions, source = unit.ready.questions, unit.part.source
        scores = [unit.scores[n] for n in range(len(questions))]
        made = unit_of(source.name, source.description, unit.ready.digest, [q.hops or 0 for q in questions], scores)
        for variant in unit.variants:
            self.progress.results.add(variant.name, self.progress.stamps.of(variant), unit.part.name, made)
        name, values = ("plan score", made.metric("sepr")) if unit.variants[0].plans else ("EM", made.metric("em"))
        names = ", ".join(v.name for v in unit.variants)
        left = sum(1 for other in self.units if other.left)
        mean = sum(values) / len(values) if values else 0.0
        self._report(f"{names} on {unit.part.name}: {name} {mean:.3f} of {len(values)}; {left} left")

    def save(self) -> None:
        self._saved = time.monotonic()
        by_variant: dict[str, dict[str, Mapping[int, Scores]]] = {}
        for unit in self.units:
            by_variant.setdefault(unit.variants[0].name, {})[unit.key] = unit.scores if unit.left else {}
        for name, answers in by_variant.items():
            self.progress.results.keep_partial(name, answers)


async def answer(units: Iterable[Unit], setup: Setup, recorder: Recorder) -> None:
    """Answer units in their order; the recorder gets answers as they come."""
    async with contextlib.AsyncExitStack() as stack:
        engines = Engines(setup)
        stack.push_async_callback(engines.close)
        agents = _Agents(engines, stack)
        for _, group in itertools.groupby(units, key=lambda unit: unit.weights):
            batch = _Batch(engines, recorder)
            left = None if math.isinf(setup.until) else setup.until - time.time()
            try:
                async with asyncio.timeout(left):
                    jobs = _jobs(group, agents, batch)
                    await run_jobs(jobs, agents.systems, None, concurrency=setup.concurrency, finished=batch.add)
            except TimeoutError:
                return
            finally:
                batch.flush()


def _jobs(units: Iterable[Unit], agents: _Agents, batch: _Batch) -> Iterator[Job]:
    for unit in (u for u in units if u.whole is None):
        name = agents.open(unit)
        for n in unit.left:
            job = Job(f"{unit.key}/{n}", unit.ready.questions[n], name)
            batch.asked[job.id] = unit, n
            yield job


class _Agents:
    """The agents of units, on indexes that stay open."""

    def __init__(self, engines: Engines, stack: contextlib.AsyncExitStack) -> None:
        self.systems: dict[str, Any] = {}
        self._engines, self._stack = engines, stack
        self._indexes: dict[Path, tuple[Any, Any]] = {}
        self._sites: dict[str, str] = {}
        self._reading_pictures = False

    def open(self, unit: Unit) -> str:
        """Build a unit's agent; returns its name."""
        from ..retrieval.index import Index
        from ..train.rollouts import MemoisedSearch

        variant, place = unit.variants[0], unit.ready.place
        if unit.part.source.pictures and not self._reading_pictures:
            self._stack.enter_context(picture_reader())
            self._reading_pictures = True
        if place not in self._indexes:
            index = Index.open(place)
            self._stack.callback(index.close)
            self._indexes[place] = index, MemoisedSearch(index)
        index, remembered = self._indexes[place]
        # variants ask much the same of a part; the oracle's systems read more of an index than its search
        search: Any = index if variant.oracle else remembered
        if variant.search == "rerank":
            search = self._engines.rerank(search)
        engines, spec = self._engines.of(variant, unit.ready.questions), spec_of(variant)
        if unit.part.source.site:
            address = self._site(unit.part.data.questions)
            search = SearXNG(address, per_second=1000)
            spec = spec.replace(tool_options=ToolOptions(allow_hosts=(address.removeprefix("http://"),)))
        name = f"{variant.name}/{unit.part.name}"
        self.systems[name] = build_agent(spec, Resources(engines, search))
        return name

    def _site(self, world: str) -> str:
        """The address of a world's web site, which is served until the end."""
        from ..train.world_sources import world_of
        from ..worlds.site import Site, serve

        if world not in self._sites:
            self._sites[world] = self._stack.enter_context(serve(Site.of(world_of(world))))
        return self._sites[world]


class _Batch:
    """Answers that are not kept yet."""

    def __init__(self, engines: Engines, recorder: Recorder) -> None:
        self.asked: dict[str, tuple[Unit, int]] = {}
        """By job, its unit and the place of its question."""
        self._engines, self._recorder = engines, recorder
        self._found: list[tuple[Unit, int, dict[str, float], list[str]]] = []

    def add(self, job: Job, episode: Episode, scores: Mapping[str, float]) -> None:
        if self._engines.broken:
            raise EngineError(f"{self._engines.broken}; what was not answered before is left for the next run")
        unit, place = self.asked.pop(job.id)
        if unit.part.source.episodes:
            self._recorder.read(unit, episode, scores)
        self._found.append((unit, place, *scores_of(episode, scores)))
        if len(self._found) >= BATCH:
            self.flush()

    def flush(self) -> None:
        found, self._found = self._found, []
        for unit in {id(entry[0]): entry[0] for entry in found}.values():
            own = [entry[1:] for entry in found if entry[0] is unit]
            if unit.variants[0].plans:
                questions = [unit.ready.questions[n] for n, _, _ in own]
                plans = plan_scores(questions, [plan for _, _, plan in own], self._engines.embedder)
                for (_, scores, _), value in zip(own, plans, strict=True):
                    scores |= {} if value is None else {"sepr": value}
            self._recorder.keep(unit, {n: scores for n, scores, _ in own})


def _as_text(episode: Episode) -> Episode:
    """An episode without token ids and log-probs: nobody reads them, and they would be most of a store."""

    def as_text(context: Trajectory) -> Trajectory:
        segments = (replace(s, token_ids=(), logprobs=None) for s in context.segments)
        return replace(context, segments=tuple(segments))

    return replace(episode, trajectories=tuple(map(as_text, episode.trajectories)))


def scores_of(episode: Episode, scores: Mapping[str, float]) -> tuple[dict[str, float], list[str]]:
    """What is kept of an episode's scores, with more of our own, and its plan. `judge` is DECOR's judgement of answers,
    by rule."""
    question = episode.question
    kept = {m: v for m, v in scores.items() if m in (*COSTS, "em", "f1", "cem") or m.startswith(("peak_", "tokens_"))}
    verdict = judge_answer(AnswerCase(question.question, question.answers, episode.answer))
    tasks = sum(1 for t in episode.contexts if t.parent is not None and t.role not in HELPERS)
    kept |= {
        "judge": float(bool(verdict.yes)),
        "tasks": float(tasks),
        "idle": float(tasks == 0),
        "overflow": float(any(e.kind == "limit" and e.data.get("what") == "context window" for e in episode.events)),
        "interactions": scores["searches"] + scores["tool_calls"],
    }
    if planners := episode.by_role("planner"):
        tokens = sum(len(s.token_ids) for t in planners for s in t.segments if s.kind == "agent")
        kept["written_planner"] = tokens / len(planners)
    return kept, written_plan(episode)


def plan_scores(questions: Sequence[Question], plans: Sequence[Sequence[str]], embedder: Any) -> list[float | None]:
    """SEPR of each plan; None for questions without a gold plan."""
    known = [n for n, q in enumerate(questions) if q.decomposition]
    found = score_plans([plans[n] for n in known], [gold_plan(questions[n]) for n in known], embedder)
    scores = dict(zip(known, (s.f1 for s in found), strict=True))
    return [scores.get(n) for n in range(len(questions))]
