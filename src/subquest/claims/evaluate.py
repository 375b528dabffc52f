"""Answering: every arm over every part of its sources, by a few processes that share one GPU.

A *unit* is one measurement on one part: arms that are the same measurement (the same settings, weights and questions)
share it, whatever claims they stand in. The parent hands out units as jobs, most valuable first, and alone writes
results. When the time is up workers stop where they are; what they have answered is kept, question by question.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .answering import Answered, Job, Wish, work
from .book import OURS, Arm, Book
from .crew import Beside, Crew
from .engines import Setup
from .measure import Stamps
from .parts import Part, Prepared, parts_of, prepared
from .results import Results, partial_key, unit_of
from .timing import BARE, TRAINED, speed_kind, value_of

SAVE = 15.0
"""Seconds between savings of what is under way."""


@dataclass(slots=True)
class Work:
    """A unit that is not complete."""

    arms: list[Arm]
    """All that it counts for; the first stands for them."""
    part: Part
    ready: Prepared
    key: str
    value: tuple[int, ...] = ()
    """Smaller comes first."""
    scores: dict[int, dict[str, float]] = field(default_factory=dict)
    failures: int = 0
    """Workers that were lost at it: it waits until all that lost fewer are done."""

    @property
    def place(self) -> tuple[int, ...]:
        return self.failures, *self.value

    @property
    def left(self) -> tuple[int, ...]:
        return tuple(n for n in range(len(self.ready.questions)) if n not in self.scores)


class Left(NamedTuple):
    """What is still to do."""

    units: int
    questions: Mapping[str, int]
    """By kind of work (`timing.speed_kind`)."""


def missing_in(arm: Arm, adapters: Mapping[str, str]) -> str:
    """The first adapter of an arm that is not at hand; empty where all are."""
    if arm.oracle:
        return ""
    return next((name for name in arm.adapters.values() if name != "none" and name not in adapters), "")


def evaluate(
    book: Book,
    arms: Sequence[Arm],
    results: Results,
    stamps: Stamps,
    setup: Setup,
    *,
    data: Path,
    workers: int = 1,
    beside: Beside | None = None,
    later: Sequence[Arm] = (),
    say: Callable[[str], None] = lambda text: None,
) -> Left:
    """Answer what is not answered yet, as far as there is time, by `workers` processes together with what runs beside
    them, which makes the adapters of the arms that come `later`."""
    made = beside.step() if beside is not None else {}  # nothing there waits for the sources
    every = [*arms, *later]
    parts = {name: parts_of(book.sources[name], data) for arm in every for name in book.sources_of(arm)}
    ready = prepared([p for found in parts.values() for p in found], setup.cache, workers, say)
    desk = Desk(_units(book, arms, results, stamps, parts, ready), results, stamps, say)
    say(f"{len(desk.units)} units to answer, {sum(len(w.left) for w in desk.units)} questions")
    waiting = list(later)

    def arrived(made: Mapping[str, str]) -> None:
        stamps.arrived(made)
        here = [arm for arm in waiting if not missing_in(arm, stamps.adapters)]
        waiting[:] = [arm for arm in waiting if arm not in here]
        desk.units += _units(book, here, results, stamps, parts, ready)

    arrived(made)
    if beside is not None or (desk.units and time.time() < setup.until):
        try:
            if workers == 1 and beside is None:
                asyncio.run(work(desk.ask, desk.told, setup))
            else:
                Crew(desk, setup, workers, beside).run(arrived)
        finally:
            desk.save()
    left: dict[str, int] = {}
    for unit in desk.open:
        kind = speed_kind(unit.arms[0])
        left[kind] = left.get(kind, 0) + len(unit.left)
    return Left(len(desk.open), left)


def _units(
    book: Book,
    arms: Sequence[Arm],
    results: Results,
    stamps: Stamps,
    parts: Mapping[str, Sequence[Part]],
    ready: Mapping[str, Prepared],
) -> list[Work]:
    """What is left, most valuable first; what one arm has is given to those that are the same measurement."""
    partial = results.partial()
    units: dict[str, Work] = {}
    have: dict[str, Any] = {}
    for again in (False, True):  # first what each arm has, then what it can be given
        for arm in arms:
            stamp = stamps.of(arm)
            shown = (p for name in book.sources_of(arm) for p in parts[name] if p.name in ready)
            for part in (p for p in shown if book.asks(arm, p.name)):
                key = partial_key(stamp, part.name, ready[part.name].digest)
                found = results.unit(arm.id, stamp, part.name, ready[part.name].digest)
                if not again and found is not None:
                    have[key] = found
                elif again and found is None and key in have:
                    results.add(arm.id, stamp, part.name, have[key])
                elif again and found is None and key in units:
                    units[key].arms.append(arm)
                elif again and found is None:
                    units[key] = Work([arm], part, ready[part.name], key, scores=partial.get(key, {}))
    for unit in units.values():
        unit.value = _value(book, unit)
    return sorted(units.values(), key=lambda w: w.value)


def _value(book: Book, unit: Work) -> tuple[int, ...]:
    """The place of a unit among all. Adapters of trainings come first, for they are lost with the machine. Then every
    row gets its real sets, which are small, and what says where each system stands its worlds; the bare model, which is
    slow and tells least, after the adapter. The worlds of the other rows come last, in the same order.
    """
    kind = value_of(book, unit.arms[0])
    wanted = {name for claim in book.claims if claim.paper == OURS for row in claim.row for name in row.answered_by}
    aside = not any(arm.id in wanted for arm in unit.arms)
    long = unit.part.data.questions.startswith("world:")
    return int(kind != TRAINED and long and (aside or kind == BARE)), kind, int(aside)


class Desk:
    """Units that are open, and who is at which."""

    def __init__(self, units: list[Work], results: Results, stamps: Stamps, say: Callable[[str], None]) -> None:
        self.units, self.results, self.stamps = units, results, stamps
        self._say = say
        self._handed: dict[int, str] = {}
        self._saved = time.monotonic()
        self._warm: dict[str, int] = {}
        self._loaded: dict[str, str] = {}

    @property
    def open(self) -> list[Work]:
        return [w for w in self.units if w.left]

    @property
    def free(self) -> list[tuple[int, Work]]:
        """Units that nobody is at, with their numbers, most valuable first."""
        found = [(n, w) for n, w in enumerate(self.units) if n not in self._handed]
        return sorted(found, key=lambda entry: entry[1].place)

    def leave(self, worker: str, *, failed: bool) -> None:
        """A worker is gone: what it has not answered is free."""
        self._loaded.pop(worker, None)
        for number in [n for n, w in self._handed.items() if w == worker and self.units[n].left]:
            del self._handed[number]
            self.units[number].failures += failed

    async def ask(self, wish: Wish) -> Job | None:
        return self.next(wish)

    def next(self, wish: Wish, worker: str = "") -> Job | None:
        """The most valuable unit; of about the same value one that needs no other weights, else one whose weights no
        other worker is at."""
        self._warm[worker] = self._warm.get(worker, -1) + 1
        if wish.arm is not None and self._warm[worker] > 1:  # the first job warms up
            self.results.keep_speed(speed_kind(wish.arm), wish.questions, wish.seconds)
        free = self.free
        jobs = [Job(n, w.arms[0], w.part, ()) for n, w in free if w.place[:3] == free[0][1].place[:3]]
        if not jobs:
            return None
        others = {weights for name, weights in self._loaded.items() if name != worker}
        job = next((j for j in jobs if j.weights == wish.weights), None)
        job = job or next((j for j in jobs if j.weights not in others), jobs[0])
        self._handed[job.number] = worker
        self._loaded[worker] = job.weights
        return job._replace(asked=self.units[job.number].left)

    def told(self, found: Answered) -> None:
        unit = self.units[found.number]
        unit.scores |= found.scores
        if not unit.left:
            self._finish(unit)
        if time.monotonic() - self._saved > SAVE:
            self.save()

    def _finish(self, unit: Work) -> None:
        questions = unit.ready.questions
        scores = [unit.scores[n] for n in range(len(questions))]
        hops = [q.hops or 0 for q in questions]
        source = unit.part.source
        made = unit_of(source.name, source.told, unit.ready.digest, hops, scores)
        for arm in unit.arms:
            self.results.add(arm.id, self.stamps.of(arm), unit.part.name, made)
        name, values = ("plan score", made.metric("sepr")) if unit.arms[0].plans else ("EM", made.metric("em"))
        names = ", ".join(a.id for a in unit.arms)
        mean = sum(values) / len(values)
        self._say(f"{names} on {unit.part.name}: {name} {mean:.3f} of {len(values)}; {len(self.open)} left")

    def save(self) -> None:
        self._saved = time.monotonic()
        begun = {w.key: w.scores for w in self.units if w.left}
        self.results.keep_partial({**self.results.partial(), **begun, **{w.key: {} for w in self.units if not w.left}})
