"""Ways to ask: one question, a batch, a stream of events, from synchronous or asynchronous code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

from ..errors import EpisodeFailed, UsageError
from ..events import Event, Listener, TextListener
from ..notebook import progress
from ..process import run_sync
from ..record import Episode, Question, Style, checked_question


def answered(episode: Episode) -> Episode:
    """The episode, unless something failed that ended it without an answer: then EpisodeFailed with the reason."""
    fatal = dict.fromkeys(f"{f.where}: {f.message}" for f in episode.errors if f.fatal and f.where != "limit")
    if episode.answer or not fatal:
        return episode
    raise EpisodeFailed("; ".join(fatal), episode)


class Solver:
    """Answers questions; a subclass says how one is solved."""

    async def solve(
        self,
        question: str | Question,
        *,
        listener: Listener | None = None,
        seed: int | None = None,
        id: str | None = None,
        style: Style | None = None,
        on_text: TextListener | None = None,
    ) -> Episode:
        """One episode."""
        raise NotImplementedError(f"{type(self).__name__} does not define solve()")

    def ask(self, question: str | Question, *, seed: int | None = None, style: Style | None = None) -> Episode:
        """`solve`, for synchronous callers; notebooks show its progress. Raises EpisodeFailed where a failure left it
        without an answer."""
        shown = progress()
        listener, watch = (shown.add, shown.watch) if shown else (None, None)
        return answered(run_sync(self.solve(question, seed=seed, style=style, listener=listener), watch))

    async def solve_many(
        self, questions: Iterable[str | Question], *, concurrency: int = 8, seed: int | None = None
    ) -> AsyncIterator[Episode]:
        """Episodes as they finish, at most `concurrency` at a time."""
        if concurrency < 1:
            raise UsageError(f"concurrency is {concurrency}: at least one question must be asked at a time")
        waiting = iter(questions)
        running: set[asyncio.Task[Episode]] = set()
        try:
            while True:
                while len(running) < concurrency and (question := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(self.solve(question, seed=seed)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def ask_many(
        self, questions: Sequence[str | Question], *, concurrency: int = 8, seed: int | None = None
    ) -> list[Episode]:
        """A batch, in the order of the questions."""
        checked = [checked_question(q, number) for number, q in enumerate(questions)]

        async def collect() -> list[Episode]:
            places: dict[int, list[int]] = {}
            for place, question in reversed(list(enumerate(checked))):  # one object may be asked several times
                places.setdefault(id(question), []).append(place)
            found: dict[int, Episode] = {}
            async for episode in self.solve_many(checked, concurrency=concurrency, seed=seed):
                found[places[id(episode.question)].pop()] = episode
            return [found[place] for place in range(len(checked))]

        return run_sync(collect())

    async def stream(
        self, question: str | Question, *, seed: int | None = None, style: Style | None = None
    ) -> AsyncIterator[Event]:
        """The events of one episode as they happen."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        task = asyncio.create_task(self.solve(question, listener=queue.put_nowait, seed=seed, style=style))
        task.add_done_callback(lambda _: queue.put_nowait(None))
        try:
            while (event := await queue.get()) is not None:
                yield event
            await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
