"""Rolling out: many episodes of the very systems that users run, on the rollout engine."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..metrics import score_answer
from ..record import Episode, Hit, Question
from ..retrieval.search import Search
from ..systems.base import System

REMEMBERED = 50_000
"""Queries whose documents are remembered."""


class Place(NamedTuple):
    """One episode to roll out."""

    question: Question
    seed: int
    name: str
    """The episode's id: the same for the same place of a run, so that a repeated step is recognised."""


class Remembered:
    """A search over passages that never change, which is asked the same again and again: the rollouts of a question
    send the same queries, and so does the next pass over the questions.

    One call of the search is under way at a time, with everything that was asked meanwhile: threads that search side by
    side would only keep the interpreter from the engine. Failures are not remembered.
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self._known: OrderedDict[tuple[str, int], list[Hit]] = OrderedDict()
        self._asked: dict[tuple[str, int], asyncio.Future[list[Hit]]] = {}
        self._asking: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.search.name

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [list(hits) for hits in await asyncio.gather(*(self._hits((query, k)) for query in queries))]

    async def _hits(self, asked: tuple[str, int]) -> list[Hit]:
        if asked in self._known:
            return self._known[asked]
        if asked not in self._asked:
            self._asked[asked] = asyncio.get_running_loop().create_future()
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asked[asked])  # one who gives up leaves it to the others who asked the same

    async def _ask(self) -> None:
        try:
            while self._asked:
                k = next(iter(self._asked))[1]
                queries = [query for query, wanted in self._asked if wanted == k]
                await self._answer(queries, k)
        finally:
            self._asking = None

    async def _answer(self, queries: Sequence[str], k: int) -> None:
        try:
            found = list(zip(queries, await self.search.retrieve(queries, k), strict=True))
        except Exception as error:
            if len(queries) > 1:  # one of them may be to blame
                for query in queries:
                    await self._answer([query], k)
                return
            waiting = self._asked.pop((queries[0], k))
            waiting.set_exception(error)
            waiting.exception()  # whoever still waits is told
            return
        for query, hits in found:
            self._known[query, k] = hits
            self._asked.pop((query, k)).set_result(hits)
        while len(self._known) > REMEMBERED:
            self._known.popitem(last=False)


async def roll_out(
    system: System[Any],
    places: Sequence[Place],
    *,
    concurrency: int,
    progress: Callable[[int], None] | None = None,
) -> list[Episode]:
    """The episodes of all places, in their order, at most `concurrency` at a time."""
    gate = asyncio.Semaphore(concurrency)
    done = 0

    async def one(place: Place) -> Episode:
        nonlocal done
        async with gate:
            episode = await system.solve(place.question, seed=place.seed, id=place.name)
        done += 1
        if progress is not None:
            progress(done)
        return episode

    return await asyncio.gather(*map(one, places))


def place_seed(*place: int) -> int:
    digest = hashlib.blake2b("/".join(map(str, place)).encode(), digest_size=4).digest()
    return int.from_bytes(digest)


def searches_of(episodes: Sequence[Episode]) -> tuple[int, int]:
    """Searches that failed, and all of them."""
    failed = sum(failure.where == "search" for e in episodes for failure in e.errors)
    begun = sum(event.kind == "search" for e in episodes for event in e.events)
    return failed, max(begun, failed)


def episode_figures(episodes: Sequence[Episode]) -> dict[str, float]:
    """What a batch of episodes looked like, in the means that tell a healthy run from a sick one."""
    n = max(len(episodes), 1)
    scores = [score_answer(e.answer, e.question.answers) for e in episodes]
    contexts = [t for e in episodes for t in e.contexts]
    turns = [event.data["finish"] for e in episodes for event in e.events if event.kind == "turn"]
    failed_searches, searches = searches_of(episodes)
    below = [sum(1 for t in e.contexts if t.parent is not None) for e in episodes]
    figures = {
        "em": sum(s.em for s in scores) / n,
        "f1": sum(s.f1 for s in scores) / n,
        "forced": sum(e.forced for e in episodes) / n,
        "failed": sum(e.stop_reason == "failed" for e in episodes) / n,
        "turns": len(turns) / n,
        "cut_turns": turns.count("length") / max(len(turns), 1),
        "failed_searches": failed_searches / max(searches, 1),
        "searches": sum(e.usage.searches for e in episodes) / n,
        "tasks": sum(below) / n,
        "idle_executors": sum(count == 0 for count in below) / n,
        "format_errors": sum(bool(t.format_errors) for t in contexts) / max(len(contexts), 1),
        "completion_tokens": float(sum(e.usage.completion_tokens for e in episodes)),
    }
    for role in sorted({t.role for t in contexts}):
        of_role = [t for t in contexts if t.role == role]
        sessions = [t for e in episodes for t in e.trajectories if t.role == role]
        written = sum(len(s.token_ids) for t in of_role for s in t.segments if s.kind == "agent")
        figures[f"length_{role}"] = sum(len(t.token_ids) for t in sessions) / len(sessions)
        figures[f"written_{role}"] = written / len(of_role)
    return figures
