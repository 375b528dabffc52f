"""Questions being answered: a queue with limits, live events that can be followed from any point, cancelling.

A job is an episode in progress. Its question is on disk before it is accepted; its events go to the run store as they
happen, and the replies of models to the replay log, so that after a kill at any moment it can be shown and resumed.

On a full disk no questions are accepted. Answers that cannot be stored stay in memory, at most `running` + `queued` of
them, and are written as soon as there is room.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import tempfile
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..codec import from_dict
from ..errors import OutsideError, SubquestError
from ..events import Event
from ..record import Episode, Failure, Question, Usage, checked_question
from ..runs import EpisodeExists, RunStore
from ..runtime.system import System
from .counters import Counters
from .replay import ReplayLog
from .replies import Problem

Status = Literal["queued", "running", "unstored", "finished", "cancelled", "interrupted", "failed"]
"""`unstored`: it has ended and could not be written yet; then it gets the status with which it ended."""
KEPT = 64
"""Finished jobs kept in memory; older ones are read from the store."""
RETRY = 2.0
"""Seconds after which a write that failed is tried again."""
TEXT_INTERVAL = 0.05
"""Seconds for which pieces of text are collected before they are passed on."""
ROOM = 1 << 20
"""Bytes that a disk must take before it counts as usable again."""
log = logging.getLogger("subquest.serve")


class Piece(NamedTuple):
    """A part of the turn that a context is writing."""

    trajectory: str
    text: str
    first: bool
    """The turn begins with it; otherwise it goes on where the piece before it ended."""


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
    writing: dict[str, list[str]] = field(default_factory=dict)
    """What each context has written of the turn that it is writing."""
    started: float = 0.0
    """When it began, by the monotonic clock; 0 while it is queued."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once when something has changed; then replaced by a new one."""
    task: asyncio.Task[None] | None = None
    noting: asyncio.TimerHandle | None = None
    """Set while a notification of new text is due."""
    recording: bool = False
    """It has ended and is being recorded: too late to stop it."""

    @property
    def over(self) -> bool:
        return self.status not in ("queued", "running")

    def notify(self) -> None:
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()

    def add_event(self, event: Event) -> None:
        if event.kind in ("turn", "retry", "close"):
            self.writing.pop(event.trajectory, None)
        self.events.append(event)
        self.notify()

    def add_text(self, trajectory: str, piece: str) -> None:
        """Add to the turn that a context is writing; followers hear of it soon."""

        def note() -> None:
            self.noting = None
            self.notify()

        self.writing.setdefault(trajectory, []).append(piece)
        if self.noting is None:
            self.noting = asyncio.get_running_loop().call_later(TEXT_INTERVAL, note)

    async def follow(self, after: int = -1) -> AsyncIterator[Event]:
        """Every event after event number `after`, as it happens, until the job is over."""
        async for found in self.watch(after):
            if isinstance(found, Event):
                yield found

    async def watch(self, after: int = -1) -> AsyncIterator[Event | Piece]:
        """The events, and between them what is being written."""
        position = max(after, -1) + 1
        seen: dict[str, tuple[list[str], int]] = {}
        while True:
            changed = self.changed
            while position < len(self.events):
                yield self.events[position]
                position += 1
            if self.over:
                return
            for trajectory, pieces in list(self.writing.items()):
                turn, known = seen.get(trajectory, (pieces, 0))
                known = known if turn is pieces else 0
                seen[trajectory] = (pieces, len(pieces))
                if text := "".join(pieces[known:]):
                    yield Piece(trajectory, text, known == 0)
            if changed is self.changed:
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
        self._unstored: dict[str, tuple[Job, Status]] = {}
        """Jobs that could not be written yet, with the status they will have."""
        self.storage_problem = ""
        """Why the last write failed; empty while everything can be stored."""
        self._retrying: asyncio.Task[None] | None = None

    async def submit(
        self,
        question: str,
        make: Callable[[str], System[Any]],
        *,
        seed: int | None = None,
        replay: str = "",
        **meta: Any,
    ) -> Job:
        """Queue a question; when this returns, it is on disk.

        Raises Problem 429 if too many are waiting, 503 if the server is stopping, 507 if it cannot be stored.

        `make` builds the system with the replay log of a name: that of the new episode, or of the one it resumes.
        Without a seed, one is drawn: a replay must sample with the same seed.
        """
        if self._closing:
            raise Problem(503, "the server is stopping", code="stopping")
        if sum(job.status == "queued" for job in self._jobs.values()) >= self._most_queued:
            raise Problem(429, "too many questions are waiting", code="queue_full", headers={"Retry-After": "10"})
        if self._unstored:
            raise self._refusal()
        identifier = uuid.uuid4().hex
        seed = secrets.randbits(31) if seed is None else seed
        system = make(replay or identifier)
        meta = {name: value for name, value in {**meta, "journal": replay}.items() if value} | {"seed": seed}
        record = checked_question(Question(identifier, question, dataset="asked", meta=meta))
        job = Job(identifier, record, system, seed, replay=replay or identifier)
        self._jobs[identifier] = job
        try:
            await self._store.add_questions([record])
        except BaseException as error:
            del self._jobs[identifier]
            if isinstance(error, OutsideError):
                self._note_failure(error)
                raise self._refusal() from error
            raise
        if not job.over and not job.recording:  # otherwise it was cancelled while it was being stored
            job.task = asyncio.create_task(self._work(job), name=f"job {identifier}")
        return job

    def _refusal(self) -> Problem:
        message = f"questions cannot be stored: {self.storage_problem}"
        return Problem(507, message, code="storage", headers={"Retry-After": "10"})

    @property
    def unstored(self) -> int:
        """Answers that could not be written yet."""
        return len(self._unstored)

    @property
    def _store(self) -> RunStore:
        if self._run is None:
            raise Problem(403, "this server shows stored runs; start `subquest serve` to ask", code="no_asking")
        return self._run

    def get(self, identifier: str) -> Job | None:
        return self._jobs.get(identifier)

    def live(self) -> list[Job]:
        """Jobs that are not over or not stored yet, oldest first."""
        return [job for job in self._jobs.values() if not job.over or job.status == "unstored"]

    async def cancel(self, job: Job, ending: Literal["cancelled", "interrupted"] = "cancelled") -> None:
        """Stop a job and record what it did so far. Harmless if it is over."""
        if job.over:
            return
        if job.recording:
            await job.wait()
            return
        job.ending = ending
        if job.task is not None:
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
        await self.interrupt()
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.gather(self._retrying, return_exceptions=True)
            self._retrying = None
            await self._write_unstored()
        for identifier in self._unstored:
            log.error("the answer %s could not be stored (%s); resume it", identifier, self.storage_problem)

    async def interrupt(self) -> None:
        """Stop what is running now; it can be resumed."""
        await asyncio.gather(*(self.cancel(job, "interrupted") for job in self.live()))

    async def _work(self, job: Job) -> None:
        async with self._slots:
            job.status, job.started = "running", time.monotonic()
            job.notify()

            def listen(event: Event) -> None:
                self._store.add_event(job.id, event)
                job.add_event(event)

            status: Status = "finished"
            try:
                episode = await job.system.solve(
                    job.question,
                    listener=listen,
                    seed=job.seed,
                    id=job.id,
                    style=job.question.meta.get("style"),
                    on_text=job.add_text,
                )
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
        status = await self._stored(job, episode, status)
        job.episode, job.status = episode, status
        self._counters.add_episode(episode)
        job.notify()
        over = [job.id for job in self._jobs.values() if job.over and job.status != "unstored"]
        for identifier in over[: max(0, len(over) - KEPT)]:
            del self._jobs[identifier]
        await self._forget_replies(job)

    async def _stored(self, job: Job, episode: Episode, status: Status) -> Status:
        """Record an episode; returns the status that its job has now."""
        try:
            await asyncio.shield(_record(self._store, episode))
        except OutsideError as error:  # those who are waiting still get the answer
            self._unstored[job.id] = (job, status)
            self._note_failure(error)
            return "unstored"
        except SubquestError as error:
            log.error("the episode %s cannot be stored: %s", job.id, error)
            return "failed"
        return status

    async def _forget_replies(self, job: Job) -> None:
        if self._log is not None and job.status not in ("interrupted", "unstored"):
            await asyncio.to_thread(self._log.forget, job.replay)

    def _note_failure(self, error: OutsideError) -> None:
        if not self.storage_problem:
            log.error("%s", error)
        self.storage_problem = str(error)
        if self._retrying is None and not self._closing:
            self._retrying = asyncio.create_task(self._retry())

    async def _retry(self) -> None:
        """Write what could not be written, as soon as there is room."""
        while self.storage_problem:
            await asyncio.sleep(RETRY)
            await self._write_unstored()
            if not self._unstored and await asyncio.to_thread(_has_room, self._store.path.parent):
                self.storage_problem = ""
        log.warning("everything can be stored again")
        self._retrying = None

    async def _write_unstored(self) -> None:
        for identifier, (job, status) in list(self._unstored.items()):
            assert job.episode is not None
            try:
                await asyncio.shield(_record(self._store, job.episode))
            except EpisodeExists:
                pass
            except OutsideError as error:
                self.storage_problem = str(error)
                return
            del self._unstored[identifier]
            job.status = status
            await self._forget_replies(job)

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


def _has_room(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(ROOM))
            file.flush()
    except OSError:
        return False
    return True


def spent(events: list[Event]) -> Usage:
    """What an episode had used by its last event."""
    usage = Usage()
    for event in events:
        if event.kind == "turn":
            usage += from_dict(Usage, event.data.get("usage", {}))
        elif event.kind == "search":
            usage += Usage(searches=len(event.data.get("queries", ())))
    return replace(usage, seconds=events[-1].time if events else 0.0)
