"""Processes that share one GPU and answer, beside trainings where there are any: together no more than were asked for.

Trainings come first. Every process that they do not take answers questions, and when one of them ends another answering
process takes its place; what a training has made is answered with as soon as it is there. The parent hands out units,
the most valuable first, and it alone writes results. A process that fails is replaced, and the unit that it had goes
back to the others.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from timing import BARE, TRAINED, keep_speed, speed_kind, value_of

from subquest.errors import EngineError
from subquest.process import end_with_parent
from subquest.study import Study, Variant
from subquest.study.design import OURS
from subquest.study.questions import parts_of, prepare_all
from subquest.study.results import Progress
from subquest.study.runner import Engines, Recorder, Setup, Unit, answer, missing_adapter, open_units

GRACE = 20.0
"""Seconds that processes have after their time is up, before they are terminated: results must still be packed."""


class Trainers(Protocol):
    """What runs beside the answering processes and makes adapters (`trainers.Trainings`)."""

    @property
    def taken(self) -> int:
        """Processes that it has or will have."""

    def step(self) -> Mapping[str, str]:
        """Go on; the adapters that were made since the last call, with their places."""


class Ask(NamedTuple):
    """A process wants another unit."""

    weights: str
    """What it has loaded."""
    patient: bool
    """Whether it waits for one; else it is busy and must be answered at once."""


class Answered(NamedTuple):
    unit: int
    scores: Mapping[int, Mapping[str, float]]


def answer_with_workers(
    progress: Progress,
    variants: Sequence[Variant],
    setup: Setup,
    *,
    data: Path,
    workers: int,
    trainers: Trainers | None = None,
    later: Sequence[Variant] = (),
    report: Callable[[str], None] = lambda text: None,
) -> int:
    """Answer what is not answered yet, as far as there is time, by `workers` processes together with the trainers, who
    make the adapters of the variants that come `later`; returns how many units are left."""
    made = trainers.step() if trainers is not None else {}  # nothing there waits for the sources
    study = progress.study
    parts = {s: parts_of(study.sources[s], data) for v in (*variants, *later) for s in study.sources_of(v)}
    every = [p for found in parts.values() for p in found]
    ready = prepare_all(every, setup.cache, report, os.cpu_count() or 1)
    units = open_units(progress, variants, parts, ready)
    schedule = Schedule(study, Recorder(progress, units, report))
    report(f"{len(units)} units to answer, {sum(len(unit.left) for unit in units)} questions")
    waiting = list(later)

    def arrived(adapters: Mapping[str, str]) -> None:
        progress.stamps.add_adapters(adapters)
        here = [v for v in waiting if not missing_adapter(v, progress.stamps.adapters)]
        waiting[:] = [v for v in waiting if v not in here]
        units.extend(open_units(progress, here, parts, ready))

    arrived(made)
    try:
        Pool(schedule, setup, workers, trainers).run(arrived)
    finally:
        schedule.recorder.save()
    return sum(1 for unit in units if unit.left)


def value_of_unit(study: Study, unit: Unit) -> tuple[int, ...]:
    """The place of a unit among all, smaller first. Adapters of trainings come first, because they are lost with the
    machine. Then every row gets its real sets, which are small, and the claims of our own their worlds; the bare model,
    which is slow and says least, after the adapters. The worlds of the other rows come last, in the same order.
    """
    kind = value_of(study, unit.variants[0])
    wanted = {name for claim in study.claims if claim.paper == OURS for row in claim.row for name in row.answered_by}
    aside = not any(variant.name in wanted for variant in unit.variants)
    long = unit.part.data.questions.startswith("world:")
    return int(kind != TRAINED and long and (aside or kind == BARE)), kind, int(aside)


class Schedule:
    """Units that are open, and which process has which."""

    def __init__(self, study: Study, recorder: Recorder) -> None:
        self.study, self.recorder = study, recorder
        self._failures: dict[str, int] = {}
        """By unit, processes that were lost with it: it waits until all that lost fewer are done."""
        self._taken: dict[int, str] = {}
        self._loaded: dict[str, str] = {}
        self._began: dict[str, tuple[float, Unit]] = {}

    @property
    def free(self) -> list[tuple[int, Unit]]:
        """Units that nobody has, with their numbers, the most valuable first."""
        found = [(n, u) for n, u in enumerate(self.recorder.units) if u.left and n not in self._taken]
        return sorted(found, key=lambda entry: self._place(entry[1]))

    def _place(self, unit: Unit) -> tuple[int, ...]:
        return self._failures.get(unit.key, 0), *value_of_unit(self.study, unit)

    def leave(self, worker: str, *, failed: bool) -> None:
        """A process has ended: what it has not answered is free."""
        self._loaded.pop(worker, None)
        for number in [n for n, w in self._taken.items() if w == worker and self.recorder.units[n].left]:
            del self._taken[number]
            key = self.recorder.units[number].key
            self._failures[key] = self._failures.get(key, 0) + failed

    def next(self, ask: Ask, worker: str = "") -> tuple[int, Unit] | None:
        """The most valuable unit; among units of the same value one that needs no other weights, else one whose
        weights no other process has."""
        self._measure(ask, worker)
        free = self.free
        best = [(n, u) for n, u in free if self._place(u) == self._place(free[0][1])]
        if not best:
            return None
        others = {weights for name, weights in self._loaded.items() if name != worker}
        same = [(n, u) for n, u in best if u.weights == ask.weights]
        new = [(n, u) for n, u in best if u.weights not in others]
        number, unit = (same or new or best)[0]
        self._taken[number] = worker
        self._loaded[worker] = unit.weights
        return number, unit

    def _measure(self, ask: Ask, worker: str) -> None:
        """A busy process asks when it starts a unit: between two of these, it has started all questions of one."""
        now, before = time.monotonic(), self._began.pop(worker, None)
        if ask.patient:  # what it does first warms it up
            return
        current = next((u for n, u in enumerate(self.recorder.units) if self._taken.get(n) == worker and u.left), None)
        if before is not None and before[1].weights == ask.weights:
            variant = before[1].variants[0]
            kind, count = speed_kind(variant), len(before[1].ready.questions)
            keep_speed(self.recorder.progress.results, kind, count, now - before[0])
        if current is not None:
            self._began[worker] = now, current

    def keep(self, found: Answered) -> None:
        self.recorder.keep(self.recorder.units[found.unit], found.scores)


class Pool:
    """The answering processes."""

    def __init__(self, schedule: Schedule, setup: Setup, size: int, trainers: Trainers | None = None) -> None:
        self.schedule, self.setup, self.size, self.trainers = schedule, setup, size, trainers
        self._context = multiprocessing.get_context("spawn")
        self._outbox: Any = self._context.Queue()
        self._inboxes: dict[str, Any] = {}
        self._processes: dict[str, Any] = {}
        self._idle: dict[str, Ask] = {}
        self._failures = 0

    def run(self, arrived: Callable[[Mapping[str, str]], None]) -> None:
        """Until nothing is left, or the time is up. `arrived` gets adapters before they are answered with."""
        while True:
            if self.trainers is not None and (made := self.trainers.step()):
                arrived(made)
            self._start_one()
            if not self._processes and not self._training and (self._late or not self.schedule.free or self._failing):
                return
            if time.time() > self.setup.until + GRACE:
                for process in self._processes.values():
                    process.terminate()
                self._processes.clear()
            self._listen()
            for name, ask in list(self._idle.items()):
                self._reply(name, ask)

    @property
    def _training(self) -> int:
        return self.trainers.taken if self.trainers is not None else 0

    @property
    def _late(self) -> bool:
        return time.time() >= self.setup.until

    @property
    def _failing(self) -> bool:
        """Processes fail one after another: the next one would too."""
        return self._failures > self.size

    def _start_one(self) -> None:
        """One process more where there is room for it and something to do."""
        if self._late or self._failing or self._idle or not self.schedule.free:
            return
        if len(self._processes) < self.size - self._training:
            name = str(len(self._inboxes))
            self._inboxes[name] = self._context.Queue()
            arguments = (name, self._inboxes[name], self._outbox, self.setup)
            process = self._context.Process(target=work, args=arguments, daemon=True)
            process.start()
            self._processes[name] = process

    def _listen(self) -> None:
        """What the processes send, for a second or until one has sent something."""
        try:
            name, found = self._outbox.get(timeout=1)
        except queue.Empty:
            for name, process in list(self._processes.items()):
                if not process.is_alive() and self._outbox.empty():
                    self._ended(name, f"a process has ended without a message, exit status {process.exitcode}")
            return
        if isinstance(found, Ask):
            self._reply(name, found)
        elif isinstance(found, Answered):
            self.schedule.keep(found)
        else:
            self._ended(name, found)

    def _reply(self, name: str, ask: Ask) -> None:
        """Send a unit, or None where there is none; a patient process waits where a training may bring one."""
        unit = None if self._late else self.schedule.next(ask, name)
        if unit is None and ask.patient and self._training and not self._late:
            self._idle[name] = ask
            return
        self._idle.pop(name, None)
        self._inboxes[name].put(unit)

    def _ended(self, name: str, problem: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.join(timeout=5)
        self._idle.pop(name, None)
        self.schedule.leave(name, failed=bool(problem))
        if not problem:
            return
        print(problem, file=sys.stderr)
        self._failures += 1
        if self._failing and not self._processes and not self._training:
            raise EngineError("the answering processes have failed one after another; see their messages above")


def work(name: str, inbox: Any, outbox: Any, setup: Setup) -> None:
    """A process: units from one queue, answers into another, an empty text (or what went wrong) at the end."""
    # where processes share a GPU by MPS, trainings go first: nothing can be answered with an adapter before it is made
    os.environ.setdefault("CUDA_MPS_CLIENT_PRIORITY", "1")
    import torch

    end_with_parent()
    torch.set_num_threads(2)
    numbers: dict[str, int] = {}

    def ask(weights: str, *, patient: bool) -> None:
        outbox.put((name, Ask(weights, patient)))

    def units(sent: tuple[int, Unit] | None) -> Iterator[Unit]:
        """The next unit is asked for while the last one starts, so that it is there when it is needed."""
        while sent is not None:
            number, unit = sent
            numbers[unit.key] = number
            ask(unit.weights, patient=False)
            yield unit
            sent = inbox.get()

    def keep(unit: Unit, scores: Mapping[int, Mapping[str, float]]) -> None:
        outbox.put((name, Answered(numbers[unit.key], dict(scores))))

    async def answer_all() -> None:
        engines, weights = Engines(setup), ""
        try:
            while time.time() < setup.until:
                ask(weights, patient=True)
                sent = await asyncio.to_thread(inbox.get)
                if sent is None:
                    return
                weights = sent[1].weights
                await answer(units(sent), setup, keep, engines)
        finally:
            await engines.close()

    problem = ""
    try:
        asyncio.run(answer_all())
    except (Exception, KeyboardInterrupt):
        problem = traceback.format_exc()
    outbox.put((name, problem))
