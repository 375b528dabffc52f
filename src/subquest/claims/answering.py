"""A worker: questions of one arm after another, through engines that stay loaded.

A worker asks for a *job* (one arm on a part of the questions), starts its questions as places become free, and asks
for the next job when all are started. Where the next job has the same weights nothing waits: the end of one overlaps
with the beginning of the other. Where it has others, the questions under way are answered first.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from ..errors import EngineError, SubquestError
from ..record import Question
from .book import Arm
from .engines import Engines, Setup
from .measure import sampling_of
from .parts import Part, prepare
from .pictures import omni

BATCH = 64
"""Answers that are told together."""


class Job(NamedTuple):
    number: int
    """Of the unit."""
    arm: Arm
    part: Part
    asked: tuple[int, ...]
    """Which questions of the part."""

    @property
    def weights(self) -> str:
        return repr(sorted(self.arm.adapters.items()))


class Wish(NamedTuple):
    """A worker has started all its questions."""

    weights: str
    """What it has loaded."""
    arm: Arm | None = None
    """What it has been at, with how many questions and seconds; None at its start."""
    questions: int = 0
    seconds: float = 0.0


class Answered(NamedTuple):
    number: int
    scores: dict[int, dict[str, float]]


Ask = Callable[[Wish], Awaitable[Job | None]]
Tell = Callable[[Answered], None]


async def work(ask: Ask, tell: Tell, setup: Setup) -> None:
    """Jobs until there are no more or the time is up; answers are told as they come."""
    engines = Engines(setup)
    worker = _Worker(engines, setup, tell)
    try:
        await worker.serve(ask)
    finally:
        await worker.clear()
        await engines.close()


class _Worker:
    """What a worker has under way."""

    def __init__(self, engines: Engines, setup: Setup, tell: Tell) -> None:
        self._engines, self._setup, self._tell = engines, setup, tell
        self._free = asyncio.Semaphore(setup.concurrency)
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: dict[int, _Answers] = {}
        self._indexes: dict[str, tuple[Any, Any]] = {}
        self._omni = contextlib.ExitStack()
        self._pictures = False

    async def serve(self, ask: Ask) -> None:
        loaded, wish = "", Wish("")
        while time.time() < self._setup.until and (job := await ask(wish)) is not None:
            began = time.monotonic()
            if job.weights != loaded and self._running:
                await self._until(asyncio.wait(self._running))
                if time.time() >= self._setup.until:  # other weights would answer what is still under way
                    break
            await self._start(job)
            loaded = job.weights
            wish = Wish(loaded, job.arm, len(job.asked), time.monotonic() - began)
        if self._running:
            await self._until(asyncio.wait(self._running))
        self._check()

    def _check(self) -> None:
        if self._engines.broken:
            raise EngineError(f"{self._engines.broken}; what was not answered before is left for the next run")

    async def _until(self, something: Awaitable[Any]) -> None:
        """Something, but no longer than there is time."""
        left = max(self._setup.until - time.time(), 0)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(something, None if left == float("inf") else left)

    async def _start(self, job: Job) -> None:
        """Start all questions of a job, each when a place is free."""
        questions, place, _ = prepare(job.part, self._setup.cache)
        if job.part.source.pictures and not self._pictures:
            self._omni.enter_context(omni())
            self._pictures = True
        system = self._system(job.arm, questions, str(place))
        answers = _Answers(job, questions, self._engines)
        for n in job.asked:
            await self._until(self._free.acquire())
            if time.time() >= self._setup.until:
                return
            self._check()
            task = asyncio.create_task(self._answer(system, job.arm, questions[n], n, answers))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _system(self, arm: Arm, questions: list[Question], place: str) -> Any:
        from ..retrieval.index import Index
        from ..systems.registry import get
        from ..train.rollouts import MemoisedSearch

        if place not in self._indexes:
            index = Index.open(place)
            self._indexes[place] = index, MemoisedSearch(index)
        index, remembered = self._indexes[place]
        # arms ask much the same of a part; the oracle's systems read more of an index than its search
        search: Any = index if arm.oracle else remembered
        if arm.search == "rerank":
            search = self._engines.reranked(search)
        given = self._engines.of(arm, questions)
        kind: Any = get(arm.system)
        return kind(given, search, preset=arm.preset, sampling=sampling_of(arm), prompts="compact", **arm.settings)

    async def _answer(self, system: Any, arm: Arm, question: Question, n: int, answers: _Answers) -> None:
        from .score import scores_of

        try:
            episode = await system.solve(question, id=f"{arm.id}/{question.id}")
            scores, plan = scores_of(episode)
        except SubquestError as error:
            print(f"{arm.id}: {question.id}: {error}", file=sys.stderr)
            scores, plan = {"em": 0.0, "f1": 0.0, "cem": 0.0, "judge": 0.0, "failed": 1.0}, []
        finally:
            self._free.release()
        if self._engines.broken:
            return
        if answers.add(n, scores, plan):
            self._tell(answers.flush())
        else:
            self._waiting[answers.job.number] = answers

    async def clear(self) -> None:
        """Tell what is answered, give up the rest."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for answers in self._waiting.values():
            if answers.scores:
                self._tell(answers.flush())
        for index, _ in self._indexes.values():
            index.close()
        self._omni.close()


class _Answers:
    """Answers of a job that are not told yet."""

    def __init__(self, job: Job, questions: list[Question], engines: Engines) -> None:
        self.job = job
        self.scores: dict[int, dict[str, float]] = {}
        self._plans: dict[int, list[str]] = {}
        self._questions, self._engines = questions, engines
        self._left = len(job.asked)

    def add(self, n: int, scores: dict[str, float], plan: list[str]) -> bool:
        """True where it is time to tell."""
        self.scores[n], self._plans[n] = scores, plan
        self._left -= 1
        return not self._left or len(self.scores) >= BATCH

    def flush(self) -> Answered:
        """What there is, with plans scored where the arm wants it."""
        if self.job.arm.plans:
            from .score import plan_scores

            asked = list(self._plans)
            found = plan_scores(
                [self._questions[n] for n in asked], [self._plans[n] for n in asked], self._engines.embedder
            )
            for n, sepr in zip(asked, found, strict=True):
                if sepr is not None:
                    self.scores[n]["sepr"] = sepr
        told = Answered(self.job.number, self.scores)
        self.scores, self._plans = {}, {}
        return told
