"""Many searches a second: requests of one moment share a search, and under load the search has a process of its own.

Python runs one thread at a time, so a server that both speaks HTTP and searches would use one core. The first time that
many queries wait, search workers are started; until they are up, and if one dies, a thread of the server searches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from ..errors import SearchError
from ..retrieval import Index
from .worker import rendered, unpacked

MAX_BATCH = 64
"""Queries that one search takes at once."""
LOADED = 16
"""Queries waiting at once that make workers worth their memory."""
MAX_WORKERS = 8
log = logging.getLogger("subquest.serve")


class _Waiting(NamedTuple):
    queries: list[str]
    k: int
    found: asyncio.Future[list[bytes]]


class _Batch(NamedTuple):
    members: list[_Waiting]
    queries: list[str]
    k: int


class Searcher:
    """An index asked by many at once; gives the hits of each query as JSON text."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._waiting: list[_Waiting] = []
        self._here = 0
        """Batches being searched by a thread of the server."""
        self._workers: list[_Worker] = []
        self._starting: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._called = False
        """`_give_out` will be called when the requests that have arrived by now are read."""

    def search(self, queries: list[str], k: int) -> asyncio.Future[list[bytes]]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[bytes]] = loop.create_future()
        self._waiting.append(_Waiting(queries, k, found))
        if not self._called:
            self._called = True
            loop.call_soon(self._give_out)
        return found

    async def close(self) -> None:
        for task in [self._starting, *self._tasks]:
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        for one in self._waiting:
            one.found.cancel()
        self._waiting = []
        for worker in self._workers:
            await worker.close()

    def _give_out(self) -> None:
        """Give what waits to whoever is free.

        A worker that is busy is given a second batch, to lie ready when it ends the first, once as many queries wait
        as it has: a batch costs less a query the larger it is.
        """
        self._called = False
        self._workers = [worker for worker in self._workers if worker.alive]
        while self._waiting:
            waiting = sum(len(one.queries) for one in self._waiting)
            if self._starting is None and not self._workers and waiting >= LOADED:
                self._starting = asyncio.create_task(self._start())
            worker = min(self._workers, key=lambda w: w.queries, default=None)
            if worker is None:
                if self._here:
                    return
                self._here += 1
            elif worker.batches == 2 or worker.queries > waiting:
                return
            batch = self._take()
            if worker is not None:
                worker.batches += 1
                worker.queries += len(batch.queries)
            task = asyncio.create_task(self._run(batch, worker))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self) -> _Batch:
        """The first that waits, and those behind it that want as many documents."""
        k = self._waiting[0].k
        members: list[_Waiting] = []
        queries: list[str] = []
        for place, one in enumerate(self._waiting):
            if one.k != k or (queries and len(queries) + len(one.queries) > MAX_BATCH):
                self._waiting = self._waiting[place:]
                break
            members.append(one)
            queries += one.queries
        else:
            self._waiting = []
        return _Batch(members, queries, k)

    async def _run(self, batch: _Batch, worker: _Worker | None) -> None:
        try:
            if worker is None:
                found = await asyncio.to_thread(self._search, batch.queries, batch.k)
            else:
                found = await worker.search(batch.queries, batch.k)
        except asyncio.CancelledError:
            for one in batch.members:
                one.found.cancel()
            raise
        except _Gone:
            self._waiting = [*batch.members, *self._waiting]
        except Exception as error:
            for one in batch.members:
                if not one.found.done():
                    one.found.set_exception(error)
        else:
            place = 0
            for one in batch.members:
                if not one.found.done():  # its client may have gone
                    one.found.set_result(found[place : place + len(one.queries)])
                place += len(one.queries)
        finally:
            if worker is None:
                self._here -= 1
            else:
                worker.batches -= 1
                worker.queries -= len(batch.queries)
            self._give_out()

    def _search(self, queries: Sequence[str], k: int) -> list[bytes]:
        return [rendered(hits) for hits in self._index.search_many(queries, k)]

    async def _start(self) -> None:
        count = min(MAX_WORKERS, max(1, len(os.sched_getaffinity(0)) - 1))
        try:
            started = await asyncio.gather(*(_Worker.start(self._index) for _ in range(count)))
            self._workers += started
        except (OSError, _Gone) as error:
            log.warning("no search workers: %s", error)
            return  # not tried again
        self._starting = None


class _Gone(Exception):
    """The worker has ended."""


class _Worker:
    """One process, asked in turn."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._order = asyncio.Lock()
        self.batches = self.queries = 0
        """That it was given and has not answered."""
        self.alive = True

    @classmethod
    async def start(cls, index: Index) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "subquest.serve.worker", str(index.path), index.mode),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        worker = cls(process)
        await worker.search([], 1)  # answers when the index is open
        return worker

    async def search(self, queries: Sequence[str], k: int) -> list[bytes]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            request = orjson.dumps({"queries": queries, "k": k})
            stdin.write(len(request).to_bytes(4, "little") + request)
            async with self._order:  # replies come in the order of requests, and so do those who wait for them
                size = int.from_bytes(await stdout.readexactly(4), "little")
                parts = unpacked(await stdout.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            self.alive = False
            raise _Gone("a search worker has ended") from None
        if parts and not parts[0]:
            raise SearchError(parts[1].decode())
        return parts

    async def close(self) -> None:
        self.alive = False
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), 5)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
