"""An index: a folder of documents that can be searched.

    index = Index.build("docs.sq", documents)
    index = Index.open("docs.sq")
    index.search("who painted the ceiling", k=5)        # [Hit(document, score), ...]
    await index.retrieve(["...", "..."], 5)             # the Search protocol: batched, off the event loop's thread

Readers see one generation at a time and move to the newest with each call; writers never disturb them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shlex
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from ..codec import utf8
from ..errors import MissingDependency, SearchError, UsageError
from ..record import Document, Hit
from . import store, titles
from .analysis import Analysis, Language
from .bm25 import BM25, Scored
from .collection import Collection
from .dense import Dense
from .embedding import Encode, complete, embed, embed_with, pending, publish_vectors, record_encoder, recorded_encoder
from .encoder import Encoder, EncoderSpec, open_named, parse
from .files import Files
from .filters import Filter, allowed_numbers, conditions_of, hidden_bits
from .fusion import Fusion
from .generation import RETRIES, Generation, open_newest
from .inspection import Info, info
from .search import Mode, check_ids
from .settings import Entry, Settings
from .store_reader import StoreReader
from .tables import Tables
from .vectors import to_half
from .verification import verify
from .writer import Changes, Placed, Progress, Writer

T = TypeVar("T")


_FILES_ABOUT = 20
"""Passages whose files tell which tables a question is about."""


class Index(Collection):
    """A searchable folder. Threads may share it; `close` it, or use it in a `with` block."""

    def __init__(self, path: str | Path, mode: Mode = "auto") -> None:
        super().__init__(mode)
        self.path = _folder(path)
        self._reader = StoreReader(self.path)
        self._lock = threading.Lock()
        self._filters: dict[tuple[int, str], tuple[list[bytearray], list[bytearray]]] = {}
        self._meta_checked = -1
        """The generation whose metadata were checked as a whole, as a filter needs it."""
        self._titles = titles.DocumentCache(titles.TITLES, b"")
        self._articles = titles.DocumentCache(titles.TEXTS, ("", ""))
        try:
            with store.reading(self.path):
                self._generation = open_newest(self.path, self._reader.db)
        except BaseException:
            self._reader.close()
            raise
        settings = self._generation.settings
        self.analysis = Analysis.recorded(settings.get("analysis", {}))
        self.bm25 = BM25(**settings.get("bm25", {}))
        self.fusion = Fusion(**settings.get("fusion", {}))

    @classmethod
    def build(
        cls,
        path: str | Path,
        documents: Iterable[Document],
        *,
        language: Language = "english",
        bm25: BM25 | None = None,
        encoder: str | Encoder | None = None,
        progress: Progress | None = None,
    ) -> Index:
        """Make an index of the documents, or bring an existing one up to date (so a killed build resumes).

        With an encoder (`minilm`, `st:MODEL`, `MODEL@URL`) documents get vectors too, and searches are hybrid.
        """
        index = cls.create(path, Settings(Analysis(language), bm25 or BM25()))
        try:
            index.add(documents, progress=progress)
            if encoder is not None:
                index.embed(encoder, progress=progress)
        except BaseException:
            index.close()
            raise
        return index

    @classmethod
    def create(cls, path: str | Path, settings: Settings) -> Index:
        """An empty index, or the existing one if it was made with the same analysis and BM25 settings.

        With an encoder in the settings, `load` accepts vectors of that encoder.
        """
        folder = _folder(path)
        fixed = {"analysis": dataclasses.asdict(settings.analysis), "bm25": dataclasses.asdict(settings.bm25)}
        if not store.exists(folder):
            if folder.exists() and (not folder.is_dir() or any(map(store.is_foreign, folder.iterdir()))):
                raise UsageError(f"{folder} exists and is not an index; choose another path")
            store.create(folder, {**fixed, "fusion": dataclasses.asdict(settings.fusion)})
        else:
            with contextlib.closing(store.connect(folder)) as db:
                written = store.get(db, "analysis", {})
                recorded = dataclasses.asdict(Analysis.recorded(written))
                fixed["analysis"] |= {key: recorded[key] for key in recorded.keys() - written.keys()}  # older ones stay
                for key, value in fixed.items():
                    found = recorded if key == "analysis" else store.get(db, key, None)
                    if found != value:
                        raise UsageError(f"{folder} was built with {key} {found}, not {value}; choose another path")
        if settings.encoder is not None:
            with Writer.open(folder) as writer:
                record_encoder(writer, settings.encoder)
        return cls(folder)

    @classmethod
    def open(cls, path: str | Path, *, mode: Mode = "auto") -> Index:
        """Open an index for searching (and, by its methods, for changing); `mode` is what searches use by default."""
        return cls(path, mode)

    @property
    def name(self) -> str:
        return f"index:{self.path.name}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything but the query that decides results, for caches: other content or settings, other identity."""
        return {
            "index": self._current().content,
            "mode": self.mode,
            "analysis": dataclasses.asdict(self.analysis),
            "bm25": dataclasses.asdict(self.bm25),
            "fusion": dataclasses.asdict(self.fusion),
            "encoder": store.get(self._reader.db, "encoder", None),
        }

    @property
    def generation(self) -> int:
        return self._current().number

    def __len__(self) -> int:
        return self._current().lexical.documents

    def _hits(
        self, queries: Sequence[str], k: int, depth: int, mode: Mode, where: Filter | None, bm25: BM25 | None
    ) -> list[list[Hit]]:
        """One generation for all queries."""
        seen: set[int] = set()
        for _ in range(RETRIES):
            with store.reading(self.path), self._reader.searching():
                generation = self._current()
                ranked = self._rank(generation, queries, depth, mode, where, bm25 or self.bm25)
                if mode == "auto":
                    ranked = [self._named_first(generation, *pair, k) for pair in zip(queries, ranked, strict=True)]
                if (hits := self._reader.hits(ranked)) is not None:
                    return hits
                seen.add(generation.number)
        if len(seen) == 1:
            raise store.damaged(self.path, "documents that were found are not stored")
        raise SearchError(f"{self.path} changes faster than it can be read")

    def _named_first(self, generation: Generation, query: str, ranked: Sequence[Scored], k: int) -> list[Scored]:
        """The best k with what the query names by its title first."""

        def read_titles(unknown: list[int]) -> Iterator[tuple[int, bytes]]:
            found = self._reader.titles(unknown)
            return ((number, titles.title_words(title, self.analysis)) for number, title in found)

        numbers = [scored.number for scored in ranked]
        known = self._titles.get(generation.number, numbers, read_titles)
        read = partial(self._articles.get, generation.number, numbers, self._reader.articles)
        order = titles.named_first(query, known, [scored.score for scored in ranked], self.analysis, read)
        return [Scored(numbers[i], score) for i, score in order[:k]]

    def _rank(
        self, generation: Generation, queries: Sequence[str], k: int, mode: Mode, where: Filter | None, bm25: BM25
    ) -> list[list[Scored]]:
        lexical_hidden, dense_hidden = (None, None) if where is None else self._hidden(generation, where)
        if isinstance(generation.dense, MissingDependency) and mode != "bm25":
            raise generation.dense
        if mode in ("auto", "linked"):
            mode = "hybrid" if generation.dense else "bm25"
        depth = k if mode != "hybrid" else max(k, self.fusion.depth)
        lexical: list[list[Scored]] = []
        if mode != "dense":
            for file in generation.files:
                file.require()
            terms = [self.analysis.query_terms(query) for query in queries]
            lexical = generation.lexical.top(terms, depth, bm25, lexical_hidden)
            if mode == "bm25":
                return lexical
        if not isinstance(generation.dense, Dense):
            raise UsageError(self._no_vectors())
        dense = generation.dense.top(self.encoder.encode(queries, query=True), depth, dense_hidden)
        if mode == "dense":
            return dense
        return [self.fusion.fuse(a, b, k) for a, b in zip(lexical, dense, strict=True)]

    def _hidden(self, generation: Generation, where: Filter) -> tuple[list[bytearray], list[bytearray]]:
        """What a filter hides in each segment and vector file; cached for the generation."""
        key = (generation.number, repr(sorted(conditions_of(where), key=itemgetter(0))))
        found = self._filters.get(key)
        if found is None:
            if self._meta_checked != generation.number:
                self._reader.check_meta(generation.published)
                self._meta_checked = generation.number
            allowed = allowed_numbers(self._reader.db, where)
            lexical = [
                hidden_bits(part.segment.numbers, allowed, part.removed.bits if part.removed else None)
                for part in generation.lexical.parts
            ]
            parts = generation.dense.parts if isinstance(generation.dense, Dense) else ()
            dense = [hidden_bits(part.file.numbers.tolist(), allowed, part.hidden) for part in parts]
            kept = {k: v for k, v in list(self._filters.items())[-7:] if k[0] == generation.number}
            found = (lexical, dense)
            self._filters = {**kept, key: found}
        return found

    def _encoder_spec(self) -> EncoderSpec | None:
        recorded = store.get(self._reader.db, "encoder", None)
        return None if recorded is None else EncoderSpec(**recorded)

    def _no_vectors(self) -> str:
        return f"{self.path} has no vectors; make them with: subquest index embed {shlex.quote(str(self.path))}"

    def get(self, identifier: str) -> Document | None:
        """The document with this id, None where there is none."""
        check_ids([identifier])
        with store.reading(self.path):
            return self._reader.get(utf8(identifier), self._current().published)

    @property
    def tables(self) -> Tables:
        """The whole tables of the files in the index, for SQL queries."""
        return Tables(self.path, lambda: self._reader.db, self._files_about)

    def _files_about(self, query: str) -> list[str]:
        """The files of the passages that a lexical search finds, best first."""
        hits = self.search(query, _FILES_ABOUT, mode="bm25")
        return list(dict.fromkeys(str(hit.document.meta.get("file", "")) for hit in hits))

    @property
    def files(self) -> Files:
        """The files that the index was made from."""
        return Files(self.path, lambda: self._reader.db)

    def documents(self) -> Iterator[Document]:
        """All documents in the order they were added, read in bounded memory."""
        return self._complete(self._reader.documents)

    def add(self, documents: Iterable[Document], *, progress: Progress | None = None) -> Changes:
        """Add or update documents; when it returns, they are on disk and can be found.

        In an index with vectors the new documents get theirs as well.
        """
        with Writer.open(self.path) as writer:
            changes = writer.add(documents, progress)
            if pending(writer):
                embed(writer, self.encoder, None)
            return changes

    def entries(self) -> Iterator[Entry]:
        """All documents with their vectors, in the order they were added."""
        return self._complete(self._reader.entries)

    def _complete(self, read: Callable[[int], Iterator[T]]) -> Iterator[T]:
        """What is read of all documents; DamagedIndex where it was less, unless a writer has changed the index."""
        generation, count = self._current(), 0
        for found in read(generation.published):
            count += 1
            yield found
        if count != generation.lexical.documents and self._current().number == generation.number:
            raise store.damaged(self.path, f"{count:,} of {generation.lexical.documents:,} documents can be read")

    def load(self, entries: Iterable[Entry], *, progress: Progress | None = None) -> Changes:
        """Add documents with their vectors; those without one are embedded, if the index has vectors."""
        with Writer.open(self.path) as writer:
            spec = recorded_encoder(writer)
            vectors: dict[str, bytes] = {}

            def documents() -> Iterator[Document]:
                for document, vector in entries:
                    if vector is not None and spec is not None:
                        vectors[utf8(document.id)] = to_half(vector, document.id).tobytes()
                    yield document

            def stored(placed: Sequence[Placed]) -> None:
                numbers = {document.id: document.number for document in placed}
                rows = [(number, vectors.pop(i)) for i, number in numbers.items() if i in vectors]
                writer.store_vectors(rows)

            changes = writer.add(documents(), progress, stored)
            if spec is not None:
                if complete(writer):
                    publish_vectors(writer)
                else:
                    embed(writer, self.encoder, None)
            return changes

    @property
    def settings(self) -> Settings:
        """What the index was made with: all that a copy needs to give the same results."""
        db = self._reader.db
        encoder = store.get(db, "encoder", None)
        row = db.execute("SELECT length(vector) FROM vectors LIMIT 1").fetchone()
        average = self._current().lexical.average
        if encoder is None or row is None:
            return Settings(self.analysis, self.bm25, self.fusion, average=average)
        return Settings(self.analysis, self.bm25, self.fusion, EncoderSpec(**encoder), row[0] // 2, average)

    def embed(
        self, encoder: str | Encoder = "minilm", *, progress: Progress | None = None, through: Encode | None = None
    ) -> int:
        """Embed every document without a vector; returns how many there were. A killed run resumes.

        `through` does the encoding elsewhere, such as on a Ray cluster (`ray_encoders`).
        """
        if through is not None:
            spec = parse(encoder) if isinstance(encoder, str) else encoder.spec
            with Writer.open(self.path) as writer:
                return embed_with(writer, spec, through, progress)
        chosen = open_named(encoder) if isinstance(encoder, str) else encoder
        with Writer.open(self.path) as writer:
            done = embed(writer, chosen, progress)
        self._encoder = chosen
        return done

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents by id; returns how many existed."""
        with Writer.open(self.path) as writer:
            return writer.remove(check_ids(ids)).removed

    def compact(self, *, progress: Progress | None = None) -> None:
        """Merge all segments and free the space of what was removed."""
        with Writer.open(self.path) as writer:
            writer.compact(progress)

    def verify(self) -> list[str]:
        """What is wrong with the index; an empty list when it is sound."""
        return verify(self.path)

    def info(self) -> Info:
        """Counts, sizes and settings."""
        return info(self.path)

    def close(self) -> None:
        self._reader.close()

    def _current(self) -> Generation:
        """The newest generation."""
        if store.get(self._reader.db, "generation", 0) != self._generation.number:
            with self._lock:
                self._generation = open_newest(self.path, self._reader.db)
        return self._generation


def _folder(path: str | Path) -> Path:
    if not str(path):
        raise UsageError("the index has no name; give a folder, such as docs.sq")
    if "://" in str(path) or str(path).startswith("lance:"):
        raise UsageError(
            f"{path} is not a folder; build the index in a folder, then copy it: subquest index copy docs.sq "
            + shlex.quote(str(path))
        )
    return Path(path)


def build_whole(path: Path, build: Callable[[Path], None]) -> None:
    """Build an index that is at its path complete or not at all: half of one would be searched as if it were whole.
    `build` builds it at the path that it is given."""
    building = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        build(building)
        try:
            os.rename(building, path)
        except OSError:
            if not path.exists():  # else another process was faster
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
