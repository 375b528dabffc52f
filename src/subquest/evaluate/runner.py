"""The runner: many questions through many systems, a few at a time, into a run store that survives anything.

A *job* is one question for one system. Its episode's id is made from the job, so running the same command again finds
what is finished, tries failures once more and goes on with the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..errors import OutsideError, UsageError
from ..process import collect_rarely
from ..record import Episode, Failure, Question
from ..runs import EpisodeExists, Receipt, RunStore
from .score import score

Finished = Callable[["Job", Episode, Mapping[str, float]], None]


class Solver(Protocol):
    """What the runner needs of a system, wherever it runs."""

    @property
    def model_name(self) -> str: ...

    async def solve(self, question: Question, *, seed: int | None = None, id: str = "") -> Episode: ...


@dataclass(frozen=True, slots=True)
class Job:
    dataset: str
    question: Question
    system: str
    """The name under which the system runs in this evaluation."""
    attempt: int = 0

    @property
    def id(self) -> str:
        key = "\x1f".join((self.dataset, self.question.id, self.system, str(self.attempt)))
        return hashlib.sha256(key.encode()).hexdigest()[:32]


def jobs_for(store: RunStore, datasets: Mapping[str, Sequence[Question]], systems: Iterable[str]) -> Iterator[Job]:
    """What is left to do: jobs without an episode, and failed ones once more. Systems take turns at each question.

    Raises a UsageError where the run knows a question by the same id with another text or other gold answers: its
    scores would count for a question that nobody asked.
    """
    known = {(question.dataset, question.id): question for question in store.questions()}
    for dataset, questions in datasets.items():
        for question in questions:
            before = known.get((dataset, question.id))
            if before is None or (before.question, before.answers) == (question.question, question.answers):
                continue
            words = "with other gold answers" if before.question == question.question else "as another question"
            raise UsageError(
                f"the run {store.path} knows the question {question.id!r} of {dataset} {words}; "
                "start another run for the changed questions"
            )
    done: dict[tuple[str, str, str], tuple[int, bool]] = {}
    for summary in store.summaries():
        key = (summary.dataset, summary.question, summary.system)
        done[key] = max(done.get(key, (-1, False)), (summary.attempt, summary.stop_reason == "failed"))
    names = list(systems)
    for dataset, questions in datasets.items():
        for question in questions:
            for system in names:
                attempt, failed = done.get((dataset, question.id, system), (-1, True))
                if failed:
                    yield Job(dataset, question, system, attempt + 1)


async def evaluate(
    jobs: Iterable[Job],
    systems: Mapping[str, Solver],
    store: RunStore | None,
    *,
    concurrency: int = 8,
    seconds: float | None = None,
    seed: int | None = None,
    finished: Finished | None = None,
) -> None:
    """Run jobs, at most `concurrency` at a time; a worker goes on while its last episode is being written, no further.

    A job that takes longer than `seconds` is recorded as failed. `finished` is called with each episode as it is handed
    to the store; without a store it is the only one that gets them.
    """
    waiting = iter(jobs)
    answered: asyncio.Queue[tuple[Job, Episode, asyncio.Future[Receipt | None]]] = asyncio.Queue()

    def keep(job: Job, episode: Episode) -> Receipt | None:
        scores = score(episode)
        receipt = store.add_episode(episode, attempt=job.attempt, scores=scores) if store is not None else None
        if finished is not None:
            finished(job, episode, scores)
        return receipt

    async def work() -> None:
        handed_over: asyncio.Future[Receipt | None] | None = None
        try:
            for job in waiting:
                episode = await _solve(job, systems[job.system], seconds, seed)
                before, handed_over = handed_over, asyncio.get_running_loop().create_future()
                answered.put_nowait((job, episode, handed_over))
                await _written(before)
        finally:
            await _written(handed_over)

    async def write() -> None:
        """Score and store one episode, then let every turn go first that a model has finished in the meantime."""
        while True:
            job, episode, handed_over = await answered.get()
            try:
                receipt = keep(job, episode)
            except Exception as error:
                if not handed_over.cancelled():  # else its worker was cancelled
                    handed_over.set_exception(error)
            else:
                if not handed_over.cancelled():
                    handed_over.set_result(receipt)
            await asyncio.sleep(0)

    with collect_rarely():
        storing = asyncio.create_task(write())
        workers = [asyncio.create_task(work()) for _ in range(max(concurrency, 1))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            storing.cancel()
            while not answered.empty():
                keep(*answered.get_nowait()[:2])


async def _written(handed_over: asyncio.Future[Receipt | None] | None) -> None:
    if handed_over is not None and (receipt := await handed_over) is not None:
        with contextlib.suppress(EpisodeExists):  # another process finished the same job first: its episode stays
            await receipt


async def _solve(job: Job, system: Solver, seconds: float | None, seed: int | None) -> Episode:
    try:
        async with contextlib.nullcontext() if seconds is None else asyncio.timeout(seconds):
            episode = await system.solve(job.question, seed=seed, id=job.id)
    except TimeoutError as error:  # ours, or one that a user's system lets through
        within = f"no answer within {seconds:g} seconds" if seconds is not None else f"timed out {error}".rstrip()
        return _failed(job, system, within)
    except OutsideError as error:
        return _failed(job, system, str(error))
    return episode if episode.system == job.system else replace(episode, system=job.system)


def _failed(job: Job, system: Solver, message: str) -> Episode:
    return Episode(
        id=job.id,
        question=job.question,
        system=job.system,
        model=system.model_name,
        stop_reason="failed",
        errors=(Failure("system", message, fatal=True),),
    )
