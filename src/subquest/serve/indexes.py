"""The indexes of a server: those it was started with, and those in its folder, to which clients may add documents."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import tempfile
import time
import unicodedata
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path

from ..errors import UsageError
from ..record import Document
from ..retrieval import Index
from ..retrieval import store as index_store
from ..retrieval.files import IndexedFile
from ..retrieval.ingest import Report, State
from ..retrieval.search import Search
from ..retrieval.writer import Changes
from .batching import BatchedIndex
from .kept_files import Upload, add_uploads, read_again, remove_file
from .replies import Problem

log = logging.getLogger("subquest.serve")
_NEW_NAME = re.compile(r"[^\W_][\w.-]{0,63}\Z")
"""Names of indexes that clients create: letters of any alphabet. Those that are there may have others."""
_UNFIT = re.compile(r"[\x00-\x1f\x7f/]")
_ARRIVING = ".arriving-"
"""Prefix of folders for files that arrive."""
_STALE = 3600.0
"""Seconds after which such a folder is no longer in use; a request takes at most a few minutes."""
_LONGEST = 200
"""Bytes of a file name; file systems allow 255."""


class Indexes:
    """Searches by name; the first is the default."""

    def __init__(self, given: Mapping[str, Search], folder: Path, *, read_only: bool = False) -> None:
        self._searches: dict[str, Search] = {
            name: BatchedIndex(search) if isinstance(search, Index) else search for name, search in given.items()
        }
        self._folder = folder
        self._read_only = read_only
        self._own: dict[str, Index] = {}
        self._adding = asyncio.Lock()
        """An index has one writer at a time."""
        self._making = ""
        """The index that is being created and cannot be opened yet."""
        self._damaged: dict[str, str] = {}
        """Indexes in the folder that cannot be opened, with the reason."""
        self._written = ""
        """The index into which files are being read."""
        self._state: State | None = None
        if not read_only:
            _clear(folder)
        self.refresh()

    def refresh(self) -> None:
        """Open new indexes in the folder. A damaged one is logged and does not affect the others."""
        for path in sorted(self._folder.glob("*")) if self._folder.is_dir() else ():
            name = path.name.removesuffix(".sq")
            if (
                _is_file_name(name)
                and not name.startswith(".")
                and name not in (*self._searches, self._making)
                and path.is_dir()
                and index_store.exists(path)
            ):
                try:
                    self._own[name] = Index.open(path)
                except UsageError as error:
                    if self._damaged.get(name) != str(error):
                        log.warning("skipped the index %s: %s", name, error)
                    self._damaged[name] = str(error)
                    continue
                self._damaged.pop(name, None)
                self._searches[name] = BatchedIndex(self._own[name])

    @property
    def names(self) -> list[str]:
        return list(self._searches)

    def get(self, name: str) -> Search | None:
        """The search with a name, or the first one for an empty name; None if the server has no index at all."""
        if not name:
            return next(iter(self._searches.values()), None)
        if name not in self._searches:
            self.refresh()
        if name not in self._searches:
            self._check_sound(name)
            raise Problem(404, f"there is no index {name!r}; there are {', '.join(self._searches) or 'none'}")
        return self._searches[name]

    def local(self, name: str) -> BatchedIndex:
        """An index of this machine, whose documents can be read."""
        search = self.get(name)
        if search is None:
            raise Problem(404, "this server has no index; add documents to one, or start it with --index PATH")
        if not isinstance(search, BatchedIndex):
            raise Problem(400, f"the index {name!r} is on a remote search server: it can only be searched")
        return search

    async def add(self, name: str, documents: Sequence[Document]) -> Changes:
        """Add documents to an index, which is created if there is none with that name."""
        async with self._adding:
            if self.has(name):
                return await asyncio.to_thread(self.local(name).index.add, documents)
            return Changes(added=len(await self._create(name, documents)))

    async def add_files(self, name: str, files: Sequence[tuple[str, bytes]]) -> Report:
        """Add files of any readable kind; the report lists the others. The index is created if there is none.

        Passages are named after the index and the file: `trip/report.pdf#3`.
        """
        self.has(name)
        with self.scratch() as scratch:
            uploads = []
            for plain, content in _distinct(files):
                uploads.append(Upload(plain, scratch / plain))
                uploads[-1].path.write_bytes(content)
            return await self.add_uploads(name, uploads)

    async def add_uploads(self, name: str, uploads: Sequence[Upload], *, ocr: bool = False) -> Report:
        """Add files that are on this machine's disk; they are moved into the index's folder."""
        async with self._writing(name):
            known = self.has(name)
            index = self.local(name).index if known else await self._create(name, [])
            try:
                return await asyncio.to_thread(add_uploads, index, name, uploads, ocr=ocr, progress=self._progress)
            finally:
                if not known and not len(index):
                    await self._discard(name)

    async def read_again(self, name: str, file: str, *, ocr: bool = False) -> tuple[str, Report]:
        """Read a file again, whether it has changed or not; returns its name in the index too."""
        async with self._writing(name):
            index = self.local(name).index
            found = await self._file(index, name, file)
            return found.name, await asyncio.to_thread(read_again, index, found, ocr=ocr, progress=self._progress)

    async def remove_file(self, name: str, file: str) -> tuple[str, int]:
        """Remove a file with its passages; returns the file's name in the index and the number of passages."""
        async with self._writing(name):
            index = self.local(name).index
            found = await self._file(index, name, file)
            return found.name, await asyncio.to_thread(remove_file, index, found)

    async def _file(self, index: Index, label: str, name: str) -> IndexedFile:
        """A file by its name in the index, or by the name under which a client added it."""
        for tried in (name, file_name_in(label, name)):
            if (found := await asyncio.to_thread(index.files.get, tried)) is not None:
                return found
        raise Problem(404, f"there is no file {name!r} in this index")

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder for files that arrive, on the disk of the indexes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=_ARRIVING) as folder:
            yield Path(folder)

    @asynccontextmanager
    async def _writing(self, name: str) -> AsyncIterator[None]:
        """One writer at a time; `reading` tells how far it is."""
        self.has(name)
        async with self._adding:
            self._written = name
            try:
                yield
            finally:
                self._written, self._state = "", None

    def _progress(self, state: State) -> None:
        self._state = state

    def reading(self, name: str) -> State | None:
        """How far the reading of files into an index is; None if there is none."""
        return (self._state or State()) if name == self._written else None

    async def remove(self, name: str, identifier: str) -> bool:
        """Remove a document; whether there was one."""
        async with self._adding:
            self.has(name)
            return bool(await asyncio.to_thread(self.local(name).index.remove, [identifier]))

    def has(self, name: str) -> bool:
        """Whether the index exists. Raises Problem if documents cannot be added under the name."""
        if self._read_only:
            raise Problem(403, "this server accepts no documents (--read-only)", code="read_only")
        self.refresh()
        known = name in self._searches
        if not known:
            self._check_sound(name)
        if not (_is_file_name(name) if known else _is_new_name(name)):
            raise Problem(400, f"{name!r} cannot be a name: use at most 64 letters, digits, dots and dashes")
        return known

    def _check_sound(self, name: str) -> None:
        if name in self._damaged:
            raise Problem(409, f"the index {name!r} cannot be opened: {self._damaged[name]}", code="damaged")

    async def _create(self, name: str, documents: Sequence[Document]) -> Index:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._making = name
        try:
            self._own[name] = index = await asyncio.to_thread(Index.build, self._folder / f"{name}.sq", documents)
        finally:
            self._making = ""
        self._searches[name] = BatchedIndex(index)
        return index

    async def _discard(self, name: str) -> None:
        """Remove an index that was just created and holds nothing."""
        search, index = self._searches.pop(name), self._own.pop(name)
        if isinstance(search, BatchedIndex):
            await search.close()
        index.close()
        await asyncio.to_thread(shutil.rmtree, index.path, ignore_errors=True)

    async def close(self) -> None:
        for search in self._searches.values():
            if isinstance(search, BatchedIndex):
                await search.close()
        for index in self._own.values():
            index.close()


def _clear(folder: Path) -> None:
    """Remove files that were arriving when a server was killed."""
    for left in folder.glob(f"{_ARRIVING}*"):
        if left.stat().st_mtime < time.time() - _STALE:
            shutil.rmtree(left, ignore_errors=True)


def _distinct(files: Sequence[tuple[str, bytes]]) -> Iterator[tuple[str, bytes]]:
    """Files with names that stay in their folder; a repeated name gets a number."""
    plain = [plain_name(given) for given, _ in files]
    taken, seen = set(plain), set[str]()
    for name, (_, content) in zip(plain, files, strict=True):
        stem, dot, suffix = name.rpartition(".")
        numbered = (f"{stem} ({times}).{suffix}" if dot else f"{name} ({times})" for times in count(2))
        free = next(other for other in numbered if other not in taken) if name in seen else name
        taken.add(free)
        seen.add(name)
        yield free, content


def _is_file_name(name: str) -> bool:
    """Whether a name is a single part of a path, and can be shown."""
    return name.isprintable() and not _UNFIT.search(name) and "\\" not in name and name not in ("", ".", "..")


def _is_new_name(name: str) -> bool:
    """Whether an index of that name can be created: its letters are normalised, and a file system takes it."""
    composed = unicodedata.is_normalized("NFC", name)
    return bool(_NEW_NAME.match(name)) and composed and len(name.encode()) <= _LONGEST


def file_name_in(label: str, given: str) -> str:
    """The name in an index of a file that a client added under the given name."""
    return f"{label}/{plain_name(given)}"


def plain_name(given: str) -> str:
    """The last part of a path as a valid file name, cut at the front if it is too long."""
    name = _UNFIT.sub("_", given.replace("\\", "/").rpartition("/")[2]).lstrip(".")[-_LONGEST:]
    while len(name.encode()) > _LONGEST:
        name = name[1:]
    return name or "file"
