"""Many searches at once: requests that wait share a search, and under load searches run in processes of their own.

Python runs one thread at a time, so a server that both speaks HTTP and searches would use one core. As soon as many
queries for JSON wait, search workers are started. Until they are ready, and if all of them die, a thread searches.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from ..record import Hit
from ..retrieval import Index
from ..retrieval.search import Mode
from ..retrieval.tables import Tables
from .search_worker import Worker, WorkerEnded, hits_json

MAX_BATCH = 64
"""Queries in one search."""
LOADED = 16
"""Waiting queries that make workers worth their memory."""
MAX_WORKERS = 8
log = logging.getLogger("subquest.serve")

T = TypeVar("T")
Searcher = Callable[[list[str], int, Mode | None], Awaitable[list[T]]]
"""Gives one result for each query."""


class _Request(NamedTuple, Generic[T]):
    queries: list[str]
    k: int
    mode: Mode | None
    found: asyncio.Future[list[T]]


class Batcher(Generic[T]):
    """Requests that wait for a search. A searcher that is free takes as many of them as one search can answer."""

    def __init__(self, searcher: Searcher[T]) -> None:
        """The searcher is used until there are others, and when none of them is left."""
        self._first = searcher
        self._searchers, self._free = [searcher], [searcher]
        self._waiting: list[_Request[T]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._scheduled = False

    def search(self, queries: Sequence[str], k: int, mode: Mode | None = None) -> asyncio.Future[list[T]]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[T]] = loop.create_future()
        self._waiting.append(_Request(list(queries), k, mode, found))
        if not self._scheduled:  # after the requests that have already arrived have been read
            self._scheduled = True
            loop.call_soon(self._start_searches)
        return found

    @property
    def waiting(self) -> int:
        """Queries that wait."""
        return sum(len(request.queries) for request in self._waiting)

    def use(self, searchers: Sequence[Searcher[T]]) -> None:
        """Replace the searchers; those that are busy finish their batch."""
        self._searchers, self._free = list(searchers), list(searchers)
        self._start_searches()

    async def close(self) -> None:
        tasks, waiting, self._waiting = list(self._tasks), self._waiting, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for request in waiting:
            request.found.cancel()

    def _start_searches(self) -> None:
        self._scheduled = False
        while self._waiting and self._free:
            task = asyncio.create_task(self._search(self._free.pop(), self._take_batch()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take_batch(self) -> list[_Request[T]]:
        """The first request, and others that can share its search."""
        first, *others = self._waiting
        batch, self._waiting, size = [first], [], len(first.queries)
        for request in others:
            if (request.k, request.mode) == (first.k, first.mode) and size + len(request.queries) <= MAX_BATCH:
                batch.append(request)
                size += len(request.queries)
            else:
                self._waiting.append(request)
        return batch

    async def _search(self, searcher: Searcher[T], batch: list[_Request[T]]) -> None:
        queries = [query for request in batch for query in request.queries]
        try:
            found = iter(await searcher(queries, batch[0].k, batch[0].mode))
        except WorkerEnded:
            self._waiting[:0] = batch
            self._searchers.remove(searcher)
            if not self._searchers:
                self.use([self._first])
        except asyncio.CancelledError:
            for request in batch:
                request.found.cancel()
            raise
        except Exception as error:
            for request in batch:
                if not request.found.done():
                    request.found.set_exception(error)
        else:
            for request in batch:
                results = [next(found) for _ in request.queries]
                if not request.found.done():  # otherwise its client has gone
                    request.found.set_result(results)
        finally:
            if searcher in self._searchers:
                self._free.append(searcher)
            self._start_searches()


class BatchedIndex:
    """An index that many ask at once: what arrives during one search goes into the next, as one batch."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.workers: list[Worker] = []
        self._starting: asyncio.Task[None] | None = None
        self._hits: Batcher[list[Hit]] = Batcher(self._search_hits)
        self._json: Batcher[bytes] = Batcher(self._search_json)

    @property
    def name(self) -> str:
        return self.index.name

    @property
    def encoder_url(self) -> str:
        return self.index.encoder_url

    @property
    def identity(self) -> Mapping[str, Any]:
        """Identifies a search when an episode is replayed: an episode that is resumed gets the hits it had."""
        return {"index": self.name}

    @property
    def tables(self) -> Tables:
        return self.index.tables

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return await self.search(queries, k)

    async def search(self, queries: Sequence[str], k: int, mode: Mode | None = None) -> list[list[Hit]]:
        return await self._hits.search(queries, k, mode)

    async def search_json(self, queries: Sequence[str], k: int) -> list[bytes]:
        """The hits of each query as JSON in Search-R1's format; many requests for it start the workers."""
        found = self._json.search(queries, k)
        if self._starting is None and not self.workers and self._json.waiting >= LOADED:
            self._starting = asyncio.create_task(self._start_workers())
        return await found

    async def close(self) -> None:
        """Stop searching; the index itself stays open."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        await self._hits.close()
        await self._json.close()
        for worker in self.workers:
            await asyncio.to_thread(worker.close)

    async def _search_hits(self, queries: list[str], k: int, mode: Mode | None) -> list[list[Hit]]:
        return await asyncio.to_thread(self.index.search_many, queries, k, mode=mode)

    async def _search_json(self, queries: list[str], k: int, mode: Mode | None) -> list[bytes]:
        return list(map(hits_json, await self._search_hits(queries, k, mode)))

    async def _start_workers(self) -> None:
        count = min(MAX_WORKERS, max(1, len(os.sched_getaffinity(0)) - 1))
        try:
            self.workers += await asyncio.gather(*(asyncio.to_thread(_start_worker, self.index) for _ in range(count)))
        except (OSError, WorkerEnded) as error:
            log.warning("no search workers: %s", error)
            return  # and do not try again
        self._json.use([partial(self._search_by, worker) for worker in self.workers])
        self._starting = None

    async def _search_by(self, worker: Worker, queries: list[str], k: int, mode: Mode | None) -> list[bytes]:
        try:
            return await asyncio.to_thread(worker.search, queries, k)
        except WorkerEnded:
            self.workers.remove(worker)
            await asyncio.to_thread(worker.close)
            raise


def _start_worker(index: Index) -> Worker:
    worker = Worker(index)
    try:
        worker.search([], 1)  # returns when the index is open
    except BaseException:
        worker.close()
        raise
    return worker
