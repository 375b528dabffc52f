"""The indexes a server offers: those it was started with, and those in its folder, to which people may add."""

from __future__ import annotations

import asyncio
import logging
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from ..record import Document, Hit
from ..retrieval import Index
from ..retrieval import store as index_store
from ..retrieval.ingest import Report, ingest
from ..retrieval.search import Mode, Search
from ..retrieval.writer import Changes
from .bodies import Problem
from .workers import Searcher

log = logging.getLogger("subquest.serve")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_UNFIT = re.compile(r"[\x00-\x1f\x7f/]")
_LONGEST = 200
"""Bytes of a file's name; file systems take 255."""
MAX_BATCH = 512
"""Queries that one search takes at once."""


class _Waiting(NamedTuple):
    queries: list[str]
    k: int
    mode: Mode | None
    found: asyncio.Future[list[list[Hit]]]


class Batched:
    """An index that many ask at once: what arrives during one search goes into the next, as one batch."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.searcher = Searcher(index)
        """For those who want JSON, and as much of it as the machine gives."""
        self._waiting: list[_Waiting] = []
        self._worker: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.index.name

    @property
    def identity(self) -> Mapping[str, Any]:
        """What an episode's journal goes by: an episode that goes on is given the hits it had."""
        return {"index": self.name}

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return await self.search(queries, k)

    async def search(self, queries: Sequence[str], k: int, mode: Mode | None = None) -> list[list[Hit]]:
        found: asyncio.Future[list[list[Hit]]] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(list(queries), k, mode, found))
        if self._worker is None:
            self._worker = asyncio.create_task(self._work())
        return await found

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._one_batch(self._take())
        finally:
            self._worker = None

    def _take(self) -> list[_Waiting]:
        """The first that waits, and others behind it that can go with it."""
        first, *others = self._waiting
        batch, left, size = [first], [], len(first.queries)
        for one in others:
            if (one.k, one.mode) == (first.k, first.mode) and size + len(one.queries) <= MAX_BATCH:
                batch.append(one)
                size += len(one.queries)
            else:
                left.append(one)
        self._waiting = left
        return batch

    async def _one_batch(self, batch: list[_Waiting]) -> None:
        queries = [query for one in batch for query in one.queries]
        try:
            hits = await asyncio.to_thread(self.index.search_many, queries, batch[0].k, mode=batch[0].mode)
        except Exception as error:
            for one in batch:
                if not one.found.done():
                    one.found.set_exception(error)
            return
        place = 0
        for one in batch:
            if not one.found.done():  # its client may have gone
                one.found.set_result(hits[place : place + len(one.queries)])
            place += len(one.queries)


class Indexes:
    """Searches by name; the first is the default."""

    def __init__(self, given: Mapping[str, Search], folder: Path, *, read_only: bool = False) -> None:
        self._searches: dict[str, Search] = {
            name: Batched(search) if isinstance(search, Index) else search for name, search in given.items()
        }
        self._folder = folder
        self._read_only = read_only
        self._own: dict[str, Index] = {}
        self._adding = asyncio.Lock()
        """An index has one writer at a time; those who add wait for each other."""
        self._making = ""
        """The index that is being made, which nobody may open yet."""
        self._damaged: dict[str, str] = {}
        """Indexes of the folder that cannot be opened, with the reason."""
        self.refresh()

    def refresh(self) -> None:
        """Open indexes that have come into the folder. A damaged one is told of, and keeps nobody from the others."""
        for path in sorted(self._folder.glob("*")) if self._folder.is_dir() else ():
            name = path.name.removesuffix(".sq")
            if (
                NAME.match(name)
                and name not in (*self._searches, self._making)
                and path.is_dir()
                and index_store.exists(path)
            ):
                try:
                    self._own[name] = Index.open(path)
                except UsageError as error:
                    if self._damaged.get(name) != str(error):
                        log.warning("the index %s is left out: %s", name, error)
                    self._damaged[name] = str(error)
                    continue
                self._damaged.pop(name, None)
                self._searches[name] = Batched(self._own[name])

    @property
    def names(self) -> list[str]:
        return list(self._searches)

    def get(self, name: str) -> Search | None:
        """The search of a name, the default one for an empty name; None where the server has no index at all."""
        if not name:
            return next(iter(self._searches.values()), None)
        if name not in self._searches:
            self.refresh()
        if name not in self._searches:
            self._check_sound(name)
            raise Problem(404, f"there is no index {name!r}; there are {', '.join(self._searches) or 'none'}")
        return self._searches[name]

    def local(self, name: str) -> Batched:
        """An index that can be looked into."""
        search = self.get(name)
        if search is None:
            raise Problem(404, "this server has no index; add documents to one, or start it with --index PATH")
        if not isinstance(search, Batched):
            raise Problem(400, f"the index {name!r} is a search server elsewhere: it can be searched, no more")
        return search

    async def add(self, name: str, documents: Sequence[Document]) -> Changes:
        """Add documents to an index, which is made where there is none of the name."""
        async with self._adding:
            if self._has(name):
                return await asyncio.to_thread(self.local(name).index.add, documents)
            return Changes(added=len(await self._made(name, documents)))

    async def add_files(self, name: str, files: Sequence[tuple[str, bytes]]) -> Report:
        """Add files of any kind that can be read; what cannot is in the report. An index is made where there is none.

        Passages are called after the index and the file: `trip/report.pdf#3`.
        """
        self._has(name)
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / name
            folder.mkdir()
            for plain, content in _distinct(files):
                (folder / plain).write_bytes(content)
            async with self._adding:
                index = self.local(name).index if self._has(name) else await self._made(name, [])
                return await asyncio.to_thread(ingest, index, [folder], jobs=1)

    def _has(self, name: str) -> bool:
        """Whether there is an index to add to. Raises Problem where nothing may be added under the name."""
        if self._read_only:
            raise Problem(403, "this server takes no documents (--read-only)", code="read_only")
        if not NAME.match(name):
            raise Problem(400, f"{name!r} cannot be a name: use letters, digits, dots, dashes; at most 64 of them")
        self.refresh()
        if name not in self._searches:
            self._check_sound(name)
        return name in self._searches

    def _check_sound(self, name: str) -> None:
        if name in self._damaged:
            raise Problem(409, f"the index {name!r} cannot be opened: {self._damaged[name]}", code="damaged")

    async def _made(self, name: str, documents: Sequence[Document]) -> Index:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._making = name
        try:
            self._own[name] = index = await asyncio.to_thread(Index.build, self._folder / f"{name}.sq", documents)
        finally:
            self._making = ""
        self._searches[name] = Batched(index)
        return index

    async def close(self) -> None:
        for search in self._searches.values():
            if isinstance(search, Batched):
                await search.searcher.close()
        for index in self._own.values():
            index.close()


def _distinct(files: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Files under names that stay in their folder; a second one of a name gets a number that no other has."""
    plain = [_plain(given) for given, _ in files]
    taken, seen = set(plain), set[str]()
    for name, (_, content) in zip(plain, files, strict=True):
        stem, dot, suffix = name.rpartition(".")
        numbered = (f"{stem} ({times}).{suffix}" if dot else f"{name} ({times})" for times in count(2))
        free = next(other for other in numbered if other not in taken) if name in seen else name
        taken.add(free)
        seen.add(name)
        yield free, content


def _plain(given: str) -> str:
    """The last part of a name, as a file system takes it: no more bytes than it allows, its ending kept."""
    name = _UNFIT.sub("_", given.replace("\\", "/").rpartition("/")[2]).lstrip(".")[-_LONGEST:]
    while len(name.encode()) > _LONGEST:
        name = name[1:]
    return name or "file"


def checked_mode(text: str) -> Mode | None:
    if text in ("", "auto"):
        return None
    if text in ("bm25", "dense", "hybrid", "linked"):
        return text  # type: ignore[return-value]
    raise UsageError(f"unknown mode {text!r}; choose auto, bm25, dense, hybrid or linked")
