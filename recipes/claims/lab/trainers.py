"""Trainings side by side on one GPU.

A training whose missing steps do not fit into the time that is left is not started: its optimiser state is too large to
copy, so half a training is lost unless it continues on the same machine.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from timing import keep_speed, speeds_of, training_kind, training_seconds

from subquest.errors import DataError
from subquest.study import Study, Training
from subquest.study.results import Results
from subquest.study.training import adapter_of, finish_training, folder_of, last_step, start_training

GRACE = 30.0
"""Seconds after its time at which a training that has not ended by itself is terminated."""


@dataclass(slots=True)
class _Running:
    training: Training
    process: subprocess.Popen[bytes]
    began: float
    done: int
    """Steps that were made before."""


class Trainings:
    """Trainings side by side, `at_once` at most, from the adapters that are available. One that failed is tried once
    more, after the others: what it shares a GPU with may have taken all its memory."""

    def __init__(
        self,
        study: Study,
        trainings: Sequence[Training],
        runs: Path,
        results: Results,
        *,
        adapters: Mapping[str, str],
        minutes: float | None,
        at_once: int,
        device: str = "",
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.study, self.runs, self.results = study, runs, results
        self.short: list[str] = []
        """Those that did not reach their last step."""
        self._adapters, self._at_once, self._device, self._report = adapters, at_once, device, report
        self._until = None if minutes is None else time.monotonic() + 60 * minutes
        self._waiting = list(trainings)
        self._running: dict[str, _Running] = {}
        self._failed: set[str] = set()

    @property
    def places(self) -> dict[str, str]:
        """Where the adapters of those that wait or run will be."""
        found = [*self._waiting, *(run.training for run in self._running.values())]
        return {t.name: str(adapter_of(self.study, t, self.runs)) for t in found}

    @property
    def taken(self) -> int:
        """Processes that run, or will."""
        return min(self._at_once, len(self._running) + len(self._waiting))

    def step(self) -> dict[str, str]:
        """Start and end trainings; returns the adapters that they made, with their places."""
        while self._waiting and len(self._running) < self._at_once:
            self._start(self._waiting.pop(0))
        ended = [run for run in self._running.values() if self._ended(run)]
        return {run.training.name: place for run in ended if (place := self._finish(run))}

    def run(self) -> list[str]:
        """Carry them out with nothing beside them; returns those that did not reach their last step."""
        while self.taken:
            self.step()
            time.sleep(0.5)
        return self.short

    def _start(self, training: Training) -> None:
        left = None if self._until is None else self._until - time.monotonic()
        done = last_step(folder_of(self.study, training, self.runs))
        if left is not None and left < training_seconds(training, speeds_of(self.results), done=done).seconds:
            self.short.append(training.name)
            return
        minutes = None if left is None else left / 60
        process = start_training(self.study, training, self.runs, self._adapters, minutes=minutes, device=self._device)
        self._running[training.name] = _Running(training, process, time.monotonic(), done)
        self._report(f"{training.name}: training")

    def _ended(self, run: _Running) -> bool:
        if run.process.poll() is not None:
            return True
        if self._until is not None and time.monotonic() > self._until + GRACE:
            run.process.terminate()
        return False

    def _finish(self, run: _Running) -> str:
        """The place of the adapter that was made; empty where the last step was not reached."""
        name = run.training.name
        del self._running[name]
        again = run.process.returncode != 0 and name not in self._failed
        if again:
            self._failed.add(name)
            self._waiting.append(run.training)
        try:
            step, last = finish_training(self.study, run.training, self.runs, self.results)
        except DataError as error:
            self._report(str(error))
            self.short += [] if again else [name]
            return ""
        took = time.monotonic() - run.began
        self._report(f"{name}: step {step} of {last}, {took:.0f} s, exit status {run.process.returncode}")
        if step > run.done:
            keep_speed(self.results, training_kind(run.training), step - run.done, took)
        if step < last and not again:
            self.short.append(name)
        return str(adapter_of(self.study, run.training, self.runs)) if step >= last else ""
