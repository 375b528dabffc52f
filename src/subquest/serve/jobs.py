"""Questions being answered: a queue with limits, live events that can be followed from any point, cancelling.

A job is an episode in progress. Its events go to the run store as they happen, and the replies of models to the replay
log, so that after a kill at any moment the episode can be shown and resumed.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..codec import from_dict
from ..errors import SubquestError
from ..events import Event
from ..record import Episode, Failure, Question, Usage, checked_question
from ..runs import RunStore
from ..runtime.system import System
from .counters import Counters
from .replay import ReplayLog
from .replies import Problem

Status = Literal["queued", "running", "finished", "cancelled", "interrupted", "failed"]
KEPT = 64
"""Finished jobs kept in memory; older ones are read from the store."""


@dataclass(eq=False, slots=True)
class Job:
    """One question being answered."""

    id: str
    question: Question
    system: System[Any]
    seed: int | None = None
    status: Status = "queued"
    events: list[Event] = field(default_factory=list)
    episode: Episode | None = None
    ending: Literal["cancelled", "interrupted"] = "cancelled"
    """Its status if it is stopped."""
    replay: str = ""
    """The name of its replay log: its own id, or that of the episode it resumes."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once when something has changed; then replaced by a new one."""
    task: asyncio.Task[None] | None = None
    recording: bool = False
    """It has ended and is being recorded: too late to stop it."""

    @property
    def over(self) -> bool:
        return self.status not in ("queued", "running")

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    async def follow(self, after: int = -1) -> AsyncIterator[Event]:
        """Every event after event number `after`, as it happens, until the job is over."""
        position = max(after, -1) + 1
        while True:
            changed = self.changed
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.over:
                return
            await changed.wait()

    async def wait(self) -> None:
        while not self.over:
            await self.changed.wait()


class JobQueue:
    """All jobs of a server."""

    def __init__(
        self, store: RunStore | None, counters: Counters, log: ReplayLog | None = None, *, running: int, queued: int
    ) -> None:
        """Without a store, no questions are accepted."""
        self._run = store
        self._log = log
        self._counters = counters
        self._slots = asyncio.Semaphore(running)
        self._most_queued = queued
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._closing = False

    def submit(
        self,
        question: str,
        make: Callable[[str], System[Any]],
        *,
        seed: int | None = None,
        replay: str = "",
        **meta: Any,
    ) -> Job:
        """Queue a question. Raises Problem 429 if too many are waiting, 503 if the server is stopping.

        `make` builds the system with the replay log of a name: that of the new episode, or of the one it resumes.
        Without a seed, one is drawn: a replay must sample with the same seed.
        """
        if self._closing:
            raise Problem(503, "the server is stopping", code="stopping")
        if sum(job.status == "queued" for job in self._jobs.values()) >= self._most_queued:
            raise Problem(429, "too many questions are waiting", code="queue_full", headers={"Retry-After": "10"})
        identifier = uuid.uuid4().hex
        seed = secrets.randbits(31) if seed is None else seed
        system = make(replay or identifier)
        meta = {name: value for name, value in {**meta, "journal": replay}.items() if value} | {"seed": seed}
        record = checked_question(Question(identifier, question, dataset="asked", meta=meta))
        job = Job(identifier, record, system, seed, replay=replay or identifier)
        self._store.add_questions([record])
        self._jobs[identifier] = job
        job.task = asyncio.create_task(self._work(job), name=f"job {identifier}")
        return job

    @property
    def _store(self) -> RunStore:
        if self._run is None:
            raise Problem(403, "this server shows stored runs; start `subquest serve` to ask", code="no_asking")
        return self._run

    def get(self, identifier: str) -> Job | None:
        return self._jobs.get(identifier)

    def live(self) -> list[Job]:
        """Jobs that are not over, oldest first."""
        return [job for job in self._jobs.values() if not job.over]

    async def cancel(self, job: Job, ending: Literal["cancelled", "interrupted"] = "cancelled") -> None:
        """Stop a job and record what it did so far. Harmless if it is over."""
        if job.over or job.task is None:
            return
        if job.recording:
            await job.wait()
            return
        job.ending = ending
        job.task.cancel()
        if job.status == "queued":  # its task may not have started, and now never will
            await self._end(job, self._unfinished(job, ending), ending)
        else:
            await job.wait()

    async def close(self, grace: float) -> None:
        """Accept nothing more; running jobs may finish within `grace` seconds, then they are stopped."""
        self._closing = True
        for job in self.live():
            if job.status == "queued":
                await self.cancel(job, "interrupted")
        tasks = [job.task for job in self.live() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        await asyncio.gather(*(self.cancel(job, "interrupted") for job in self.live()))

    async def _work(self, job: Job) -> None:
        async with self._slots:
            job.status = "running"
            job.notify()

            def listen(event: Event) -> None:
                job.events.append(event)
                self._store.add_event(job.id, event)
                job.notify()

            status: Status = "finished"
            try:
                episode = await job.system.solve(job.question, listener=listen, seed=job.seed, id=job.id)
                if episode.stop_reason == "failed":
                    status = "failed"
            except asyncio.CancelledError:
                episode, status = self._unfinished(job, job.ending), job.ending
            except Exception as error:
                failure = Failure("system", f"{type(error).__name__}: {error}", fatal=True)
                episode, status = self._unfinished(job, "crashed", failure), "failed"
            await self._end(job, episode, status)

    async def _end(self, job: Job, episode: Episode, status: Status) -> None:
        job.recording = True
        with contextlib.suppress(SubquestError):  # a full disk must not hide the answer from those who are waiting
            await asyncio.shield(_record(self._store, episode))
        job.episode, job.status = episode, status
        self._counters.add_episode(episode)
        job.notify()
        over = [job.id for job in self._jobs.values() if job.over]
        for identifier in over[: max(0, len(over) - KEPT)]:
            del self._jobs[identifier]
        if status != "interrupted" and self._log is not None:
            await asyncio.to_thread(self._log.forget, job.replay)

    @staticmethod
    def _unfinished(job: Job, stop_reason: str, *errors: Failure) -> Episode:
        return Episode(
            job.id,
            job.question,
            job.system.name,
            job.system.model_name,
            stop_reason=stop_reason,
            usage=spent(job.events),
            errors=errors,
            events=tuple(job.events),
            seed=job.seed,
        )


async def _record(store: RunStore, episode: Episode) -> None:
    await store.add_episode(episode)


def spent(events: list[Event]) -> Usage:
    """What an episode had used by its last event."""
    usage = Usage()
    for event in events:
        if event.kind == "turn":
            usage += from_dict(Usage, event.data.get("usage", {}))
        elif event.kind == "search":
            usage += Usage(searches=len(event.data.get("queries", ())))
    return replace(usage, seconds=events[-1].time if events else 0.0)
