"""Questions being answered: a queue with limits, live events that can be followed from any point, cancelling.

A job is an episode on its way. Its events go to the run store as they happen, and what models said to the journal, so
that a kill at any moment leaves what was known by then, and the episode can be resumed.
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
from ..record import Episode, Failure, Question, Usage
from ..runs import RunStore
from ..runtime.solver import checked_question
from ..runtime.system import System
from .bodies import Problem
from .journal import Journal
from .metrics import Metrics

Status = Literal["queued", "running", "finished", "cancelled", "interrupted", "failed"]
KEPT = 64
"""Finished jobs kept in memory; older ones are read from the store."""


@dataclass(eq=False, slots=True)
class Job:
    """One question on its way to an answer."""

    id: str
    question: Question
    system: System[Any]
    seed: int | None = None
    status: Status = "queued"
    events: list[Event] = field(default_factory=list)
    episode: Episode | None = None
    ending: Literal["cancelled", "interrupted"] = "cancelled"
    """What it becomes if it is stopped."""
    journal: str = ""
    """The name of its journal: its own id, or that of the episode it goes on with."""
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    """Rings, once, when something has changed; then there is another."""
    task: asyncio.Task[None] | None = None
    settling: bool = False
    """It has ended and is being recorded: too late to stop it."""

    @property
    def over(self) -> bool:
        return self.status not in ("queued", "running")

    def ring(self) -> None:
        bell, self.bell = self.bell, asyncio.Event()
        bell.set()

    async def follow(self, after: int = -1) -> AsyncIterator[Event]:
        """Every event behind `after`, as it happens, until the job is over."""
        place = max(after, -1) + 1
        while True:
            bell = self.bell
            while place < len(self.events):
                yield self.events[place]
                place += 1
            if self.over:
                return
            await bell.wait()

    async def wait(self) -> None:
        while not self.over:
            await self.bell.wait()


class Board:
    """All jobs of a server."""

    def __init__(
        self, store: RunStore | None, metrics: Metrics, journal: Journal | None = None, *, running: int, queued: int
    ) -> None:
        """Without a store no questions are taken."""
        self._taken = store
        self._journal = journal
        self._metrics = metrics
        self._places = asyncio.Semaphore(running)
        self._most_queued = queued
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._closing = False

    def submit(
        self,
        question: str,
        make: Callable[[str], System[Any]],
        *,
        seed: int | None = None,
        journal: str = "",
        **meta: Any,
    ) -> Job:
        """Take a question in. Raises Problem 429 where too many wait, 503 where the server stops.

        `make` builds the system with the journal of a name: the new episode's own, or that of the one it goes on
        with. Without a seed one is drawn: what the journal repeats must have been drawn in the same place.
        """
        if self._closing:
            raise Problem(503, "the server is stopping", code="stopping")
        if sum(job.status == "queued" for job in self._jobs.values()) >= self._most_queued:
            raise Problem(429, "too many questions are waiting", code="queue_full", headers={"Retry-After": "10"})
        identifier = uuid.uuid4().hex
        seed = secrets.randbits(31) if seed is None else seed
        system = make(journal or identifier)
        meta = {name: value for name, value in {**meta, "journal": journal}.items() if value} | {"seed": seed}
        record = checked_question(Question(identifier, question, dataset="asked", meta=meta))
        job = Job(identifier, record, system, seed, journal=journal or identifier)
        self._store.add_questions([record])
        self._jobs[identifier] = job
        job.task = asyncio.create_task(self._work(job), name=f"job {identifier}")
        return job

    @property
    def _store(self) -> RunStore:
        if self._taken is None:
            raise Problem(403, "this server shows stored runs; start `subquest serve` to ask", code="no_asking")
        return self._taken

    def get(self, identifier: str) -> Job | None:
        return self._jobs.get(identifier)

    def live(self) -> list[Job]:
        """Jobs that are not over, the oldest first."""
        return [job for job in self._jobs.values() if not job.over]

    async def cancel(self, job: Job, ending: Literal["cancelled", "interrupted"] = "cancelled") -> None:
        """Stop a job and record what it had come to. Harmless where it is over."""
        if job.over or job.task is None:
            return
        if job.settling:
            await job.wait()
            return
        job.ending = ending
        job.task.cancel()
        if job.status == "queued":  # its task may not have begun, and then it never will
            await self._end(job, self._stopped(job), ending)
        else:
            await job.wait()

    async def close(self, grace: float) -> None:
        """Take nothing in any more; running jobs may finish within `grace` seconds, then they are stopped."""
        self._closing = True
        for job in self.live():
            if job.status == "queued":
                await self.cancel(job, "interrupted")
        tasks = [job.task for job in self.live() if job.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        await asyncio.gather(*(self.cancel(job, "interrupted") for job in self.live()))

    async def _work(self, job: Job) -> None:
        async with self._places:
            job.status = "running"
            job.ring()

            def listen(event: Event) -> None:
                job.events.append(event)
                self._store.add_event(job.id, event)
                job.ring()

            status: Status = "finished"
            try:
                episode = await job.system.solve(job.question, listener=listen, seed=job.seed, id=job.id)
                if episode.stop_reason == "failed":
                    status = "failed"
            except asyncio.CancelledError:
                episode, status = self._stopped(job), job.ending
            except Exception as error:
                episode, status = self._crashed(job, error), "failed"
            await self._end(job, episode, status)

    async def _end(self, job: Job, episode: Episode, status: Status) -> None:
        job.settling = True
        with contextlib.suppress(SubquestError):  # a full disk must not hide the answer from those who wait for it
            await asyncio.shield(_settled(self._store, episode))
        job.episode, job.status = episode, status
        self._metrics.episode(episode)
        job.ring()
        over = [job.id for job in self._jobs.values() if job.over]
        for identifier in over[: max(0, len(over) - KEPT)]:
            del self._jobs[identifier]
        if status != "interrupted" and self._journal is not None:
            await asyncio.to_thread(self._journal.forget, job.journal)

    def _stopped(self, job: Job) -> Episode:
        return Episode(
            job.id,
            job.question,
            job.system.name,
            job.system.model_name,
            stop_reason=job.ending,
            usage=spent(job.events),
            events=tuple(job.events),
            seed=job.seed,
        )

    def _crashed(self, job: Job, error: Exception) -> Episode:
        failure = Failure("system", f"{type(error).__name__}: {error}", fatal=True)
        return Episode(
            job.id,
            job.question,
            job.system.name,
            job.system.model_name,
            stop_reason="crashed",
            usage=spent(job.events),
            errors=(failure,),
            events=tuple(job.events),
            seed=job.seed,
        )


async def _settled(store: RunStore, episode: Episode) -> None:
    await store.add_episode(episode)


def spent(events: list[Event]) -> Usage:
    """What an episode had cost by its last event."""
    usage = Usage()
    for event in events:
        if event.kind == "turn":
            usage += from_dict(Usage, event.data.get("usage", {}))
        elif event.kind == "search":
            usage += Usage(searches=len(event.data.get("queries", ())))
    return replace(usage, seconds=events[-1].time if events else 0.0)
