"""An index: a folder of documents that can be searched.

    index = Index.build("docs.sq", documents)
    index = Index.open("docs.sq")
    index.search("who painted the ceiling", k=5)        # [Hit(document, score), ...]
    await index.retrieve(["...", "..."], 5)             # the Search protocol: batched, off the event loop's thread

Readers see one generation at a time and move to the newest with each call; writers never disturb them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, NamedTuple

from ..errors import SearchError, UsageError
from ..record import Document, Hit
from . import store
from .analysis import Analysis, Language
from .bm25 import BM25, Lexical, Part, Removed, Scored
from .kernel import open_segment
from .verify import Info, info, verify
from .writer import Changes, Progress, Writer

Mode = Literal["auto", "bm25", "dense", "hybrid"]

_RETRIES = 5


class Snapshot(NamedTuple):
    """One generation, opened."""

    generation: int
    published: int
    lexical: Lexical


class Index:
    """A searchable folder. Threads may share it; `close` it, or use it in a `with` block."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._local = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._lock = threading.Lock()
        self._closed = False
        db = self._db()
        self.analysis = Analysis(**store.get(db, "analysis", {}))
        self.bm25 = BM25(**store.get(db, "bm25", {}))
        self._snapshot = self._load()

    @classmethod
    def build(
        cls,
        path: str | Path,
        documents: Iterable[Document],
        *,
        language: Language = "english",
        bm25: BM25 | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Make an index of the documents, or bring the one that is there up to date (so a killed build resumes)."""
        folder = Path(path)
        bm25 = bm25 or BM25()
        settings = {
            "analysis": dataclasses.asdict(Analysis(language)),
            "bm25": dataclasses.asdict(bm25),
        }
        if not store.exists(folder):
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise UsageError(f"{folder} is there already and is not an index; choose another path")
            store.create(folder, settings)
        else:
            with contextlib.closing(store.connect(folder)) as db:
                for key, value in settings.items():
                    if (found := store.get(db, key, None)) != value:
                        raise UsageError(f"{folder} was built with {key} {found}, not {value}; choose another path")
        index = cls(folder)
        try:
            index.add(documents, progress=progress)
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def open(cls, path: str | Path) -> Index:
        """Open an index for searching (and, by its methods, for changing)."""
        return cls(path)

    @property
    def name(self) -> str:
        return f"index:{self.path.name}"

    @property
    def generation(self) -> int:
        return self._current().generation

    def __len__(self) -> int:
        return self._current().lexical.documents

    def search(self, query: str, k: int = 10, *, mode: Mode = "auto", bm25: BM25 | None = None) -> list[Hit]:
        """The best k documents, best first."""
        return self.search_many([query], k, mode=mode, bm25=bm25)[0]

    def search_many(
        self, queries: Sequence[str], k: int = 10, *, mode: Mode = "auto", bm25: BM25 | None = None
    ) -> list[list[Hit]]:
        """The best k documents of each query; one generation for all of them."""
        if k < 1:
            raise UsageError(f"k is {k}; ask for at least 1 document")
        if mode not in {"auto", "bm25"}:
            raise UsageError(f"mode {mode!r} needs vectors, and {self.path} has none")
        for _ in range(_RETRIES):
            snapshot = self._current()
            terms = [self.analysis.query_terms(query) for query in queries]
            ranked = snapshot.lexical.top(terms, k, bm25 or self.bm25)
            if (hits := self._fetch(ranked)) is not None:
                return hits
        raise SearchError(f"{self.path} changes faster than it can be read")

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The Search protocol: `search_many` on a thread of its own."""
        return await asyncio.to_thread(self.search_many, list(queries), k)

    def get(self, identifier: str) -> Document | None:
        """The document with this id, None where there is none."""
        row = self._db().execute(
            "SELECT id, title, text, meta FROM documents WHERE id = ? AND number <= ?",
            (identifier, self._current().published),
        )
        found = row.fetchone()
        return None if found is None else store.to_document(found)

    def documents(self) -> Iterator[Document]:
        """All documents in the order they were added, read in bounded memory."""
        last, published = 0, self._current().published
        while True:
            rows = self._db().execute(
                "SELECT number, id, title, text, meta FROM documents WHERE number > ? AND number <= ? "
                "ORDER BY number LIMIT 1000",
                (last, published),
            )
            batch = rows.fetchall()
            if not batch:
                return
            last = batch[-1][0]
            yield from (store.to_document(row[1:]) for row in batch)

    def add(self, documents: Iterable[Document], *, progress: Progress | None = None) -> Changes:
        """Add or update documents; when it returns they are on the disk and can be found."""
        with Writer.open(self.path) as writer:
            return writer.add(documents, progress)

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents by id; the number of documents that were there."""
        with Writer.open(self.path) as writer:
            return writer.remove(ids).removed

    def compact(self, *, progress: Progress | None = None) -> None:
        """Merge all segments and give back the space of what was removed."""
        with Writer.open(self.path) as writer:
            writer.compact(progress)

    def verify(self) -> list[str]:
        """What is wrong with the index, in words; an empty list when it is sound."""
        return verify(self.path)

    def info(self) -> Info:
        """Counts, sizes and settings."""
        return info(self.path)

    def close(self) -> None:
        """Let go of files and connections. Closing twice is harmless."""
        with self._lock:
            self._closed = True
            for connection in self._connections:
                connection.close()
            self._connections.clear()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fetch(self, ranked: Sequence[Sequence[Scored]]) -> list[list[Hit]] | None:
        """The documents behind the numbers; None when one has gone in the meantime."""
        wanted = sorted({scored.number for hits in ranked for scored in hits})
        found: dict[int, Document] = {}
        for start in range(0, len(wanted), 500):
            chunk = wanted[start : start + 500]
            marks = ",".join("?" * len(chunk))
            rows = self._db().execute(
                f"SELECT number, id, title, text, meta FROM documents WHERE number IN ({marks})", chunk
            )
            found.update((row[0], store.to_document(row[1:])) for row in rows)
        if len(found) < len(wanted):
            return None
        return [[Hit(found[scored.number], scored.score) for scored in hits] for hits in ranked]

    def _current(self) -> Snapshot:
        """The newest generation."""
        if store.get(self._db(), "generation", 0) != self._snapshot.generation:
            with self._lock:
                self._snapshot = self._load()
        return self._snapshot

    def _load(self) -> Snapshot:
        db = self._db()
        for _ in range(_RETRIES):
            db.execute("BEGIN")
            try:
                generation, published = store.get(db, "generation", 0), store.get(db, "published", 0)
                names = db.execute(
                    "SELECT name, first, last FROM segments WHERE kind = 'lexical' ORDER BY first"
                ).fetchall()
                removed = [number for (number,) in db.execute("SELECT number FROM removed ORDER BY number")]
            finally:
                db.execute("COMMIT")
            try:
                parts = []
                for name, first, last in names:
                    segment = open_segment(self.path / name)
                    gone = [number for number in removed if first <= number <= last]
                    parts.append(Part(segment, Removed(segment, gone) if gone else None))
                return Snapshot(generation, published, Lexical(parts))
            except FileNotFoundError:
                continue
        raise SearchError(f"{self.path}: segment files are missing; run `subquest index verify`")

    def _db(self) -> sqlite3.Connection:
        """This thread's connection."""
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if self._closed:
            raise UsageError(f"{self.path} is closed")
        if db is None:
            db = self._local.db = store.connect(self.path)
            with self._lock:
                self._connections.append(db)
        return db
