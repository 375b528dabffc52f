"""One ingestion: reads every file that is new or has changed, in order, into the index."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal

from ...codec import from_dict, to_dict
from ...errors import DataError, UsageError
from ...readers.reader_pool import Job, Pool
from ...readers.text import can_guess
from ...record import Document
from .. import store
from ..embedding import embed, pending
from ..index import Index
from ..splitter import Size
from ..writer import Placed, Writer
from .documents import Contents, FileReader, Stopped
from .ledger import Account, Known, Ledger
from .report import Problem, Report, State, note_on, wrong_with
from .sources import Found, Source, Walk, digest, open_regular
from .stated_versions import Stated, replaced_files, stated_in
from .table_writer import TableWriter

READERS = 7
"""Raised when readers give other text for the same files, so that these are read again."""

_RECOGNISED = " ocr"
_UNGUESSED = " unguessed"
_NEWER = " superseded by "
_STATED = "stated versions"
_FIRST = 4
"""Passages at the beginning of a file in which it may speak of its version."""
_KEPT = 1000
OnError = Literal["skip", "stop"]


def ingest(
    index: Index,
    sources: Sequence[Source],
    *,
    size: Size | None = None,
    ocr: bool = False,
    prune: bool = False,
    again: bool = False,
    on_error: OnError = "skip",
    jobs: int | None = None,
    progress: Callable[[State], None] | None = None,
    on_problem: Callable[[Problem], None] | None = None,
) -> Report:
    """Bring an index up to date with files, folders and patterns.

    size: of passages; by default that of the last ingestion, at first 100 words. ocr: read scans and images too.
    prune: remove what came from files of these sources that no longer exist. again: read files that have not changed
    as well. on_error: what to do about what cannot be read; stop raises DataError and keeps what was read before.
    jobs: processes that read. progress, on_problem: called on the way.
    """
    with Writer.open(index.path) as writer:
        chosen = size or Size(**store.get(writer.db, "passages", {}))
        store.put(writer.db, "passages", {"aim": chosen.aim, "unit": chosen.unit})
        processes = jobs or min(4, len(os.sched_getaffinity(0)))
        with Pool(processes, ocr=ocr) as pool:
            run = _Run(
                writer, pool, chosen, ocr=ocr, again=again, stop=on_error == "stop", progress=progress,
                on_problem=on_problem,
            )  # fmt: skip
            with contextlib.closing(run.tables):
                report = run.ingest(sources, prune=prune)
        if pending(writer):
            embed(writer, index.encoder, None)
    return report


def forget_files(index: Index, names: Iterable[str]) -> int:
    """Remove files, by their names in the index, with the passages that only they have; returns how many those were."""
    with Writer.open(index.path) as writer, contextlib.closing(TableWriter(writer.folder)) as tables:
        ledger = Ledger(writer.db)

        def documents() -> Iterator[Document]:
            for name in names:
                ledger.remove(name)
            yield from ()

        writer.add(documents())
        tables.tidy(ledger.contents())
        return ledger.retired


@dataclass(slots=True)
class _Ready:
    """A file that was opened, and that a process may already be reading."""

    found: Found
    account: Account
    stamp: tuple[int, int]
    """Size and time of change when it was opened."""
    hash: str
    file: BinaryIO | None
    """None for an unchanged file."""
    job: Job | None
    known: Known | None


class _Run:
    def __init__(
        self,
        writer: Writer,
        pool: Pool,
        size: Size,
        *,
        ocr: bool,
        again: bool,
        stop: bool,
        progress: Callable[[State], None] | None,
        on_problem: Callable[[Problem], None] | None,
    ) -> None:
        self._writer = writer
        self._pool = pool
        self._stop = stop
        self._progress = progress
        self._on_problem = on_problem
        self._ocr = ocr
        self._again = again
        self._how = f"{READERS} {size}"
        self.tables = TableWriter(writer.folder, self._rows_written)
        self._files = FileReader(size, pool, ocr, self._wrong, self.tables)
        self._ledger = Ledger(writer.db)
        self._accounts: deque[Account] = deque()
        """Files whose passages were given to the writer, in order."""
        self._taken: set[str] = set()
        self._done_with: dict[str, str] = {}
        """Names, by path, of the files that were read to their end."""
        self._newer: dict[str, str] = {}
        """The newer version of a file, by name."""
        self._stated = {name: from_dict(Stated, found) for name, found in store.get(writer.db, _STATED, {}).items()}
        """What files say about their own version, by name."""
        self._state = State()
        self._reading: tuple[int, int, BinaryIO] | None = None
        """Of the file that is being read: the bytes before it, its own, and itself."""
        self.report = Report()

    def ingest(self, sources: Sequence[Source], *, prune: bool) -> Report:
        began = time.monotonic()
        walk = Walk(sources, self._broken, pictures=self._ocr)
        files = list(walk)
        if prune and not files:
            raise UsageError("no file was found; nothing was removed, in case a disk is missing")
        self._state.files_total = len(files)
        self._state.bytes_total = sum(found.size for found in files)
        self._ledger.begin(self._writer.next_number())
        names = {_text(found.name) for found in files}
        self._find_newer(names | self._ledger.names(existing=prune))

        def documents() -> Iterator[Document]:
            yield from self._documents(files)
            gone = self._ledger.gone(walk.sources, self._taken, walk.unseen)
            if prune:
                for name in gone:
                    self._ledger.remove(name)
                self.report.files_removed = gone
            else:
                self.report.files_gone = gone
            self._find_newer(self._ledger.names(existing=prune))
            store.put(self._writer.db, _STATED, {name: to_dict(one) for name, one in self._stated.items()})

        report = self.report
        self._take_in(documents())
        while again := [found for found in files if self._must_reread(found)]:
            self._state.files_total += len(again)
            self._take_in(self._documents(again))
        self.tables.tidy(self._ledger.contents())
        report.removed, report.doubles = self._ledger.retired, self._ledger.doubles
        report.passed_over, report.bytes = walk.passed_over + self._files.passed_over, self._state.bytes
        report.seconds = time.monotonic() - began
        return report

    def _rows_written(self, count: int) -> None:
        self._state.rows += count
        self._tell()

    def _tell(self) -> None:
        """Say how far the file is read that is being read."""
        if self._progress is None or self._reading is None:
            return
        before, size, file = self._reading
        self._state.bytes = before + min(size, max(file.tell(), self._pool.at))
        self._progress(self._state)

    def _find_newer(self, names: set[str]) -> None:
        self._stated = {name: one for name, one in self._stated.items() if name in names}
        self._newer = replaced_files(self._stated, names)

    def _take_in(self, documents: Iterator[Document]) -> None:
        changes = self._writer.add(documents, stored=self._stored)
        self.report.added += changes.added
        self.report.updated += changes.updated
        self.report.unchanged += changes.unchanged

    def _must_reread(self, found: Found) -> bool:
        """Whether a file was read to its end, in this run or before, and must be read again (see `ledger`)."""
        name = self._done_with.get(found.path, "")
        known = self._ledger.known(name) if name else None
        if not name or (known is not None and known.how.partition(_NEWER)[2] == self._newer.get(name, "")):
            return False
        if known is not None:  # its newer version was found after it was read
            self.report.files -= known.was_read
        del self._done_with[found.path]
        self._taken.discard(name)
        return True

    def _documents(self, files: Sequence[Found]) -> Iterator[Document]:
        """All documents, file by file; processes read ahead in the files that come next."""
        coming = iter(files)
        ready: deque[_Ready] = deque()
        more = True
        try:
            while more or ready:
                while more and len(ready) < self._pool.size + 1 and (self._pool.free or not ready):
                    found = next(coming, None)
                    if found is None:
                        more = False
                    elif (made := self._prepare(found)) is not None:
                        ready.append(made)
                if ready:
                    yield from self._file(ready.popleft())
        finally:  # where it was stopped
            for left in ready:
                if left.file is not None:
                    left.file.close()

    def _prepare(self, found: Found) -> _Ready | None:
        """Open a file and decide whether it must be read; None where it cannot be opened."""
        path, wanted = _text(found.path), _text(found.name)
        name = self._ledger.name(path, wanted, self._taken)
        self._taken.add(name)
        account = Account(name, path, _text(found.source))
        try:
            file = open_regular(found.path)
        except (OSError, DataError) as error:
            self._lost(found, name, error)
            return None
        try:
            stamp = _stamp(file)
            hash_ = digest(file)
            known = self._ledger.known(name)
            if known is not None and known.hash == hash_ and self._same(name, known):
                file.close()
                return _Ready(found, account, stamp, hash_, None, None, known)
            return _Ready(found, account, stamp, hash_, file, self._files.start(file, name), None)
        except OSError as error:
            file.close()
            self._lost(found, name, error)
            return None

    def _same(self, name: str, known: Known) -> bool:
        """Whether reading a file again would give the same.

        A file with empty pages is read again with OCR, one in an unknown encoding once encodings can be guessed, and
        one with another newest version, because its passages name that.
        """
        how, _, newer = known.how.partition(_NEWER)
        if self._again or name not in self._stated or newer != self._newer.get(name, ""):
            return False
        known = known._replace(how=how)
        if known.how.endswith(_UNGUESSED) and can_guess():
            return False
        known = known._replace(how=known.how.removesuffix(_UNGUESSED))
        how = known.how.removesuffix(_RECOGNISED)
        return how == self._how and not (self._ocr and known.empty_pages and how == known.how)

    def _lost(self, found: Found, name: str, error: Exception) -> None:
        self._broken(name, (error.strerror if isinstance(error, OSError) else "") or str(error))
        self._state.files += 1
        self._state.bytes += found.size

    def _file(self, ready: _Ready) -> Iterator[Document]:
        account, state = ready.account, self._state
        state.name = account.name
        before = state.bytes
        if ready.known is not None:
            self._ledger.keep(account.name, account.path, account.source)
            self._done_with[ready.found.path] = account.name
            self.report.files_unchanged += ready.known.was_read
            self.report.unchanged += ready.known.passages
            self._remember(account.name, ready.known)
        elif ready.file is not None:
            self._ledger.open(account)
            self._accounts.append(account)
            contents, whole, first = Contents(), False, list[Document]()
            newer = self._newer.get(account.name, "")
            self.tables.open(account.name, ready.hash)
            with ready.file as file:
                self._pool.at = 0
                self._reading = before, ready.found.size, file
                try:
                    for document in self._files.documents(file, account.name, contents, ready.job, newer):
                        account.waiting += 1
                        if len(first) < _FIRST and document.meta.get("file") == account.name:
                            first.append(document)
                        yield document
                        state.passages += 1
                        self._tell()
                    self._stated[account.name] = stated_in(first)
                    self._done(ready, contents)
                    whole = True
                except Stopped:
                    raise
                except UsageError as error:
                    account.failure = str(error)
                    self._broken(account.name, str(error))
                finally:
                    self._reading = None
                    self.tables.close_file(whole=whole)
                    account.closed = True
        state.files += 1
        state.bytes = before + ready.found.size
        if self._progress:
            self._progress(state)

    def _done(self, ready: _Ready, contents: Contents) -> None:
        self._done_with[ready.found.path] = ready.account.name
        note, wrong = note_on(contents), wrong_with(contents, self._ocr)
        how = self._how + (_RECOGNISED if self._ocr else "") + (_UNGUESSED if contents.unguessed else "")
        if newer := self._newer.get(ready.account.name):
            how += _NEWER + newer
            note = note or f"an older version; {newer} supersedes it"
        if ready.file is not None and _stamp(ready.file) != ready.stamp:
            note = "it changed while it was read; add it again once it is complete"
        ready.account.result = Known(ready.hash, how, contents.passages, contents.empty_pages, note, wrong)
        self.report.files += ready.account.result.was_read
        if contents.wrong:
            self.report.broken += 1
        else:
            self._remember(ready.account.name, ready.account.result)

    def _stored(self, placed: Sequence[Placed]) -> None:
        """Record passages in the accounts of their files, and close those that are complete."""
        at = 0
        while self._accounts:
            account = self._accounts[0]
            more = min(account.waiting, len(placed) - at)
            self._ledger.add(account, placed[at : at + more])
            account.waiting -= more
            at += more
            if account.waiting or not account.closed:
                return
            self._ledger.close(account)
            self._accounts.popleft()

    def _wrong(self, name: str, reason: str) -> None:
        """A line or an archive member is skipped."""
        found = Problem(name, reason)
        if self._stop:
            raise Stopped(f"{name}, {reason}" if reason.startswith("line ") else str(found))
        self.report.skipped += 1
        if len(self.report.problems) < _KEPT:
            self.report.problems.append(found)
        if self._on_problem:
            self._on_problem(found)

    def _broken(self, name: str, reason: str) -> None:
        """A file is skipped."""
        self._wrong(_text(name), reason)
        self.report.broken += 1

    def _remember(self, name: str, known: Known) -> None:
        if known.wrong:
            self._broken(name, known.wrong)
        elif known.note:
            self.report.notes.append(Problem(name, known.note))


def _stamp(file: BinaryIO) -> tuple[int, int]:
    """What changes with the content of a file."""
    status = os.fstat(file.fileno())
    return status.st_size, status.st_mtime_ns


def _text(path: str) -> str:
    """A path as text that can be stored; bytes that are not UTF-8 are escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
