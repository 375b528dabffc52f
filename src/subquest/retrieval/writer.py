"""Writing to an index: add, update, remove, merge, compact; every acknowledged change survives a kill -9.

New documents are stored in small transactions above the `published` number, where no reader sees them, while their
terms are collected in memory. Publishing writes the collected terms as a segment file, makes it durable, and then, in
one transaction, lists the segment, removes the older versions of updated documents and raises `published`. A kill
before that transaction leaves rows that the next writer indexes and publishes first, and files that it deletes.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from .. import checksums
from ..codec import utf8
from ..errors import SearchError
from ..record import Document
from . import ann, checks, store
from .analysis import Analysis
from .segment_builder import SegmentBuilder, mergeable
from .segment_files import SegmentFiles, SegmentRow, new_file
from .stored_document import cleaned, meta_text
from .vectors import VectorFile, write_vectors

BATCH = 512
BATCH_TEXT = 16 << 20
"""Characters of a batch; a single document may have more."""
COMMIT_EVERY = 20_000
COMMIT_SECONDS = 5.0
"""A transaction ends after this many documents, or after this time where documents arrive slowly."""
Progress = Callable[[int], None]
"""Called with the number of documents that were done since the last call."""


class Placed(NamedTuple):
    """Where a document was stored."""

    id: str
    number: int
    before: int
    """Number of the earlier version, 0 for none; equal to `number` where the document was unchanged."""


Stored = Callable[[Sequence[Placed]], None]
"""Called with where a batch's documents were stored, in order and in the transaction that stores them."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What a write did."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0


@dataclass(slots=True)
class _Intake:
    """The state of a running `add`."""

    number: int
    """The next document's number."""
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    replaced: list[int] = field(default_factory=list)
    """Numbers of older versions, removed when the newer ones are published."""


class Writer:
    """Changes an index; `Writer.open` makes it and holds the lock, so there is one at a time."""

    def __init__(self, folder: Path, db: sqlite3.Connection) -> None:
        self.folder = folder
        self.db = db
        self.analysis = Analysis.recorded(store.get(db, "analysis", {}))
        self.files = SegmentFiles(folder, db)

    @classmethod
    @contextlib.contextmanager
    def open(cls, folder: Path) -> Iterator[Writer]:
        """Take the lock, clean up after a killed writer, and yield a writer."""
        with contextlib.closing(store.connect(folder)) as db, store.writer_lock(folder), store.reading(folder):
            try:
                writer = cls(folder, db)
                store.use_wal(db)
                if store.get(db, "format", 0) == store.UNCHECKED_FORMAT:
                    store.add_checks(db, folder)
                checksums.watch(db, store.SUMMED)
                if store.has_ledger(db):
                    checksums.watch(db, store.SUMMED_LEDGER)
                writer.files.delete_unlisted()
                writer._publish_left_over()
                yield writer
            except sqlite3.OperationalError as error:
                raise SearchError(f"{folder} could not be written: {error}; what was there before is intact") from error

    def add(
        self, documents: Iterable[Document], progress: Progress | None = None, stored: Stored | None = None
    ) -> Changes:
        """Add documents; one whose id exists replaces the older version, an equal one is left alone.

        When `documents` raises, what it yielded before is published, then the exception is raised.
        """
        intake = _Intake(self.next_number())
        builder = SegmentBuilder(self.analysis)
        source, failure, more = iter(documents), None, True
        while more:
            with store.transaction(self.db):
                began = time.monotonic()
                for _ in range(max(1, COMMIT_EVERY // BATCH)):
                    batch, failure, more = _take(source)
                    builder.add(self._store(batch, intake, stored))
                    if progress and batch:
                        progress(len(batch))
                    if not more or time.monotonic() - began > COMMIT_SECONDS:
                        break
            if builder.full or not more:
                self._publish(builder, intake.replaced)
                builder, intake.replaced = SegmentBuilder(self.analysis), []
        builder.close()
        self._merge_small()
        if failure is not None:
            raise failure
        return Changes(intake.added, intake.updated, intake.unchanged)

    def _store(self, batch: Sequence[Document], intake: _Intake, stored: Stored | None) -> list[tuple[int, str, str]]:
        """Write new documents and new versions to the store; returns the number, title and text of those."""
        known = self._known(batch)
        rows: list[tuple[int, str, str, str, str | None]] = []
        placed: list[Placed] = []
        for document in batch:
            content = (document.title, document.text, meta_text(document))
            before, version = known.get(document.id, (0, ()))
            if not before:
                intake.added += 1
            elif version == content:
                intake.unchanged += 1
                placed.append(Placed(document.id, before, before))
                continue
            else:
                intake.replaced.append(before)
                intake.updated += 1
            known[document.id] = (intake.number, content)
            rows.append((intake.number, document.id, *content))
            placed.append(Placed(document.id, intake.number, before))
            intake.number += 1
        self.db.executemany("INSERT INTO documents VALUES (?, ?, ?, ?, ?)", rows)
        self._record_documents(rows)
        if stored:
            stored(placed)
        return [(row[0], row[2], row[3]) for row in rows]

    def _record_documents(self, rows: Iterable[tuple[Any, ...]]) -> None:
        found = [(row[0], *checks.document_checks(*row)) for row in rows]
        self.db.executemany("INSERT INTO document_checks VALUES (?, ?, ?)", found)

    def store_vectors(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Store vectors, in half precision, of documents that have none."""
        self.db.executemany(
            "INSERT INTO vector_checks SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE number = ?1)",
            [(number, checks.vector_check(number, vector)) for number, vector in rows],
        )
        self.db.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", rows)

    def remove(self, ids: Iterable[str]) -> Changes:
        """Remove documents by id; unknown ids are ignored."""
        removed = 0
        with self._new_generation():
            source = iter(ids)
            while batch := [utf8(identifier) for identifier in islice(source, BATCH)]:
                marks = ",".join("?" * len(batch))
                numbers = [n for (n,) in self.db.execute(f"SELECT number FROM documents WHERE id IN ({marks})", batch)]
                self._remove_numbers(numbers)
                removed += len(numbers)
        return Changes(removed=removed)

    def compact(self, progress: Progress | None = None) -> None:
        """Write all documents into as few segments as possible and free the space of what was removed."""
        segments = self.files.listed("lexical")
        vectors = self.files.listed("dense")
        removed = self.db.execute("SELECT 1 FROM removed LIMIT 1").fetchone()
        if len(segments) > 1 or len(vectors) > 1 or removed:
            self._rewrite(segments, progress)
            self.rewrite_vectors(vectors)
            with self._new_generation():
                self.db.execute("DELETE FROM removed")
        self._check_older()
        self.db.execute("VACUUM")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def rebuild(self, progress: Progress | None = None) -> None:
        """Write the segments again from the documents, whatever state the files are in."""
        self._rewrite(self.files.listed("lexical"), progress)
        self.rewrite_vectors(self.files.listed("dense"))

    def _known(self, batch: Sequence[Document]) -> dict[str, tuple[int, tuple[Any, ...]]]:
        """The newest stored version of the batch's ids."""
        marks = ",".join("?" * len(batch))
        rows = self.db.execute(
            f"SELECT id, number, title, text, meta FROM documents WHERE id IN ({marks}) ORDER BY number",
            [document.id for document in batch],
        )
        return {row[0]: (row[1], row[2:]) for row in rows}

    def next_number(self) -> int:
        """The number that the next new document gets."""
        (highest,) = self.db.execute("SELECT coalesce(max(number), 0) FROM documents").fetchone()
        return max(int(highest), int(store.get(self.db, "published", 0))) + 1

    def _publish(self, builder: SegmentBuilder, replaced: Sequence[int]) -> None:
        retired = store.retired(self.db)
        if builder.documents or retired:
            name = self._write_segment(builder) if builder.documents else ""
            with self._new_generation():
                if name:
                    self.files.add("lexical", builder.row(name))
                    store.put(self.db, "published", builder.last)
                self._remove_numbers([*replaced, *retired])
                if retired:
                    self.db.execute("DELETE FROM retired")
        builder.close()

    def _write_segment(self, builder: SegmentBuilder) -> str:
        name = f"{uuid.uuid4().hex}.lex"
        with new_file(self.folder / name):
            builder.write(self.folder / name)
        return name

    def _remove_numbers(self, numbers: Sequence[int]) -> None:
        rows = [(number,) for number in numbers]
        self.db.executemany("INSERT OR IGNORE INTO removed VALUES (?)", rows)
        for table in ("documents", "document_checks", "vectors", "vector_checks"):
            self.db.executemany(f"DELETE FROM {table} WHERE number = ?", rows)

    @contextlib.contextmanager
    def _new_generation(self) -> Iterator[None]:
        """A transaction that shows something new to readers."""
        generation = store.get(self.db, "generation", 0) + 1
        with store.transaction(self.db):
            yield
            store.put(self.db, "generation", generation)
        checks.write_manifest(self.folder, store.get(self.db, "name", ""), generation)

    def _check_older(self) -> None:
        """Give checksums to what an older version stored without them."""
        if not store.get(self.db, "unchecked", 0):
            return
        with store.transaction(self.db):
            missing = "WHERE number NOT IN (SELECT number FROM {}_checks)"
            documents = self.db.execute(
                f"SELECT number, id, title, text, meta FROM documents {missing.format('document')}"
            )
            while rows := documents.fetchmany(BATCH):
                self._record_documents(rows)
            vectors = self.db.execute(f"SELECT number, vector FROM vectors {missing.format('vector')}")
            while rows := vectors.fetchmany(BATCH):
                found = [(number, checks.vector_check(number, vector)) for number, vector in rows]
                self.db.executemany("INSERT INTO vector_checks VALUES (?, ?)", found)
            self.files.record_sums()
            store.put(self.db, "unchecked", 0)

    def _publish_left_over(self) -> None:
        """Index the rows that a killed writer stored but did not publish."""
        published = store.get(self.db, "published", 0)
        builder = SegmentBuilder(self.analysis)
        rows = self.db.execute(
            "SELECT number, title, text FROM documents WHERE number > ? ORDER BY number", (published,)
        )
        while batch := rows.fetchmany(BATCH):
            builder.add(batch)
        older = self.db.execute(
            "SELECT o.number FROM documents n JOIN documents o ON o.id = n.id AND o.number < n.number "
            "WHERE n.number > ?",
            (published,),
        )
        self._publish(builder, [number for (number,) in older.fetchall()])

    def _merge_small(self) -> None:
        segments = self.files.listed("lexical")
        while run := mergeable(segments):
            self._rewrite(run, None)
            before, segments = len(segments), self.files.listed("lexical")
            if len(segments) >= before:
                return

    def _rewrite(self, segments: Sequence[SegmentRow], progress: Progress | None) -> None:
        """Replace adjacent segments by new ones without the removed documents."""
        if not segments:
            return
        span = (segments[0].first, segments[-1].last)
        builders: list[tuple[str, SegmentBuilder]] = []
        builder = SegmentBuilder(self.analysis)
        rows = self.db.execute(
            "SELECT number, title, text FROM documents WHERE number BETWEEN ? AND ? ORDER BY number", span
        )
        while batch := rows.fetchmany(BATCH):
            builder.add(batch)
            if progress:
                progress(len(batch))
            if builder.full:
                builders.append((self._write_segment(builder), builder))
                builder.close()
                builder = SegmentBuilder(self.analysis)
        if builder.documents:
            builders.append((self._write_segment(builder), builder))
        builder.close()
        with self._new_generation():
            self.files.unlist(segments)
            for name, written in builders:
                self.files.add("lexical", written.row(name))
            self.db.execute(
                "DELETE FROM removed WHERE number BETWEEN ? AND ? AND number > "
                "(SELECT coalesce(max(last), 0) FROM segments WHERE kind = 'dense')",
                span,
            )
        self.files.delete_unlisted()

    def rewrite_vectors(self, segments: Sequence[SegmentRow], last: int | None = None) -> None:
        """Replace adjacent vector files by one with the vectors that the store has for their documents.

        `last` extends the new file to documents up to that number; without segments it starts after the others.
        """
        highest = max((s.last for s in self.files.listed("dense")), default=0)
        span = (segments[0].first if segments else highest + 1, last or max((s.last for s in segments), default=0))
        where = "FROM vectors WHERE number BETWEEN ? AND ?"
        numbers = [number for (number,) in self.db.execute(f"SELECT number {where} ORDER BY number", span)]
        name = f"{uuid.uuid4().hex}.vec"
        if numbers:
            (size,) = self.db.execute("SELECT length(vector) FROM vectors WHERE number = ?", numbers[:1]).fetchone()
            rows = self.db.execute(f"SELECT vector {where} ORDER BY number", span)
            with new_file(self.folder / name):
                write_vectors(self.folder / name, numbers, (row[0] for row in rows), size // 2)
                if ann.wanted(len(numbers)):
                    ann.build(VectorFile(self.folder / name), (self.folder / name).with_suffix(".ann"))
        elif not segments:
            return
        with self._new_generation():
            self.files.unlist(segments)
            if numbers:
                row = SegmentRow(name, span[0], max(span[1], numbers[-1]), len(numbers))
                self.files.add("dense", row)
        self.files.delete_unlisted()


def _take(source: Iterator[Document]) -> tuple[list[Document], Exception | None, bool]:
    """The next documents, the exception that ended them, if any, and whether there may be more."""
    batch: list[Document] = []
    length, deadline = 0, time.monotonic() + COMMIT_SECONDS
    try:
        for document in source:
            batch.append(cleaned(document))
            length += len(batch[-1].text)
            if len(batch) == BATCH or length >= BATCH_TEXT or time.monotonic() > deadline:
                return batch, None, True
    except Exception as error:
        return batch, error, False
    return batch, None, False
