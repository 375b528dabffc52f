"""Processes that answer, beside trainings where there are any: together no more than were asked for.

Trainings come first. Every process that they do not take answers questions, and each that they leave is filled; what a
training has made is answered with as soon as it is there. A process that fails is replaced, and the unit that it was at
goes back to the others.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import queue
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import EngineError
from ..process import end_with_parent
from .answering import Answered, Job, Wish, work
from .engines import Setup

if TYPE_CHECKING:
    from .evaluate import Desk

GRACE = 20.0
"""Seconds that workers have after their time is up, before they are ended: what travels must still be packed."""


class Beside(Protocol):
    """What runs at the same time and makes adapters (`training.Trainings`)."""

    @property
    def taken(self) -> int:
        """Processes that it has or will have."""

    def step(self) -> Mapping[str, str]:
        """Go on; the adapters that were made since the last time, with their places."""


class Crew:
    def __init__(self, desk: Desk, setup: Setup, size: int, beside: Beside | None = None) -> None:
        self.desk, self.setup, self.size, self.beside = desk, setup, size, beside
        self._context = multiprocessing.get_context("spawn")
        self._told: Any = self._context.Queue()
        self._inboxes: dict[str, Any] = {}
        self._processes: dict[str, Any] = {}
        self._idle: dict[str, Wish] = {}
        self._failures = 0

    def run(self, arrived: Callable[[Mapping[str, str]], None]) -> None:
        """Until nothing is left, or the time is up. `arrived` is told of adapters before they are answered with."""
        while True:
            if self.beside is not None and (made := self.beside.step()):
                arrived(made)
            self._hire()
            if not self._processes and not self._taken and (self._late or not self.desk.free or self._worn):
                return
            if time.time() > self.setup.until + GRACE:
                for process in self._processes.values():
                    process.terminate()
                self._processes.clear()
            self._listen()
            self._wake()

    @property
    def _taken(self) -> int:
        return self.beside.taken if self.beside is not None else 0

    @property
    def _late(self) -> bool:
        return time.time() >= self.setup.until

    @property
    def _worn(self) -> bool:
        """Processes fail one after the other: another one would too."""
        return self._failures > self.size

    def _hire(self) -> None:
        """One process more where there is room for it and something to do."""
        if self._late or self._worn or self._idle or not self.desk.free:
            return
        if len(self._processes) < self.size - self._taken:
            name = str(len(self._inboxes))
            self._inboxes[name] = self._context.Queue()
            process = self._context.Process(
                target=_worker, args=(name, self._inboxes[name], self._told, self.setup), daemon=True
            )
            process.start()
            self._processes[name] = process

    def _listen(self) -> None:
        """What the processes say, for a second or until one has said something."""
        try:
            name, found = self._told.get(timeout=1)
        except queue.Empty:
            for name, process in list(self._processes.items()):
                if not process.is_alive() and self._told.empty():
                    self._ended(name, f"a worker has ended without a word, exit status {process.exitcode}")
            return
        if isinstance(found, Wish):
            self._idle[name] = found
            self._wake(name)
        elif isinstance(found, Answered):
            self.desk.told(found)
        else:
            self._ended(name, found)

    def _wake(self, asking: str = "") -> None:
        """Give idle processes a job, or let them go where none will come. One that has just asked is timed."""
        for name, wish in list(self._idle.items()):
            if asking and name != asking:
                continue
            job = None if self._late else self.desk.next(wish, name)
            if job is None and self._taken and not self._late:
                self._idle[name] = wish._replace(arm=None)  # its speed is kept
                continue
            del self._idle[name]
            self._inboxes[name].put(job)

    def _ended(self, name: str, problem: str) -> None:
        process = self._processes.pop(name, None)
        if process is not None:
            process.join(timeout=5)
        self._idle.pop(name, None)
        self.desk.leave(name, failed=bool(problem))
        if not problem:
            return
        print(problem, file=sys.stderr)
        self._failures += 1
        if self._worn and not self._processes and not self._taken:
            raise EngineError("the workers have failed one after the other; their messages stand above")


def _worker(name: str, inbox: Any, told: Any, setup: Setup) -> None:
    """A process: jobs from one queue, answers into another, an empty text (or what went wrong) at the end."""
    # where processes share a GPU by MPS, trainings go first: nothing can be answered with an adapter before it is made
    os.environ.setdefault("CUDA_MPS_CLIENT_PRIORITY", "1")
    import torch

    end_with_parent()
    torch.set_num_threads(2)

    async def ask(wish: Wish) -> Job | None:
        told.put((name, wish))
        job: Job | None = await asyncio.to_thread(inbox.get)
        return job

    problem = ""
    try:
        asyncio.run(work(ask, lambda found: told.put((name, found)), setup))
    except (Exception, KeyboardInterrupt):
        problem = traceback.format_exc()
    told.put((name, problem))
