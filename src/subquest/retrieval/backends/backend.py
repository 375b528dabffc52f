"""What all backends share: queries become terms and vectors as in our own index, two rankings become one.

A *backend* is a store of somebody else (a database, a search engine) that holds passages, their terms and their
vectors. It ranks by terms and by vectors; everything around that is the same for all of them and stands here, so that
an index can move to another backend and give the same answers. The settings (analysis, BM25, encoder) are kept in the
backend itself.

    backend = open_backend("postgres://localhost/docs")
    backend.search("who designed the bridge", 5)
    await backend.retrieve(["...", "..."], 5)
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import UsageError
from ...record import Document, Hit
from .. import linked, titles
from ..analysis import Analysis
from ..bm25 import Scored
from ..duplicates import distinct_many
from ..encoder import Encoder, open_encoder
from ..filters import Filter
from ..frameworks import Retrievers
from ..request import Mode, check, check_ids
from ..settings import Entry, Settings
from ..store import cleaned
from ..writer import Changes, Progress
from .stored import digest_of, facets_of, filter_facets, key_of, storable, text

if TYPE_CHECKING:
    from typing import Self

    from ..settings import Row


class Ranked(NamedTuple):
    """A passage's key in the backend, and its score."""

    key: str
    score: float


class Known(NamedTuple):
    """What the backend has of a passage."""

    digest: str
    vector: bool


class Passage(NamedTuple):
    """A passage with everything that a backend stores of it."""

    key: str
    """Made from the id; a UUID, because that is what the narrowest of the stores takes."""
    document: Document
    digest: str
    """Of title, text and metadata: an equal one need not be written again."""
    facets: tuple[str, ...]
    """`field=value` for each field of the metadata that can be filtered by."""
    terms: Mapping[str, int]
    """How often each term stands in it, the title weighted."""
    length: int
    vector: Row | None


Facets = Sequence[Sequence[str]]
"""A filter: of each group a passage must have one facet."""


class Backend(Retrievers, ABC):
    """A searchable collection elsewhere. Threads may share it; `close` it, or use it in a `with` block."""

    BATCH = 512
    """Passages of one write."""

    def __init__(self, name: str, mode: Mode = "auto") -> None:
        self._name = name
        self.mode: Mode = mode
        self._settings: Settings | None = None
        self._encoder: Encoder | None = None
        self._encoder_lock = threading.Lock()

    @classmethod
    def open(cls, url: str, *, mode: Mode = "auto") -> Self:
        """The collection at an address; a UsageError where there is none."""
        made = cls(url, mode)
        try:
            made._settings = made._read_settings()
            if made._settings is None:
                raise UsageError(
                    f"there is no collection at {made.name}; copy an index there: subquest index copy INDEX URL"
                )
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def create(cls, url: str, settings: Settings) -> Self:
        """Make a collection, or open the one that is there if it was made with the same settings."""
        made = cls(url)
        try:
            found = made._read_settings()
            if found is None:
                made._make(settings)
                found = settings
            elif differences := found.differences(settings):
                raise UsageError(f"the collection at {made.name} has {differences}; choose another")
            made._settings = found
        except BaseException:
            made.close()
            raise
        return made

    @property
    def name(self) -> str:
        return self._name

    @property
    def settings(self) -> Settings:
        assert self._settings is not None
        return self._settings

    @property
    def analysis(self) -> Analysis:
        return self.settings.analysis

    @property
    def encoder(self) -> Encoder:
        """The encoder of the passages, opened when it is first needed."""
        with self._encoder_lock:
            if self._encoder is None:
                if self.settings.encoder is None:
                    raise UsageError(f"{self.name} has no vectors; embed the index before copying it there")
                self._encoder = open_encoder(self.settings.encoder)
            return self._encoder

    # ------------------------------------------------------------------------------------------------ searching

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: Mode | None = None,
        where: Filter | None = None,
        distinct: bool = False,
    ) -> list[Hit]:
        """The best k documents, best first; see `search_many`."""
        return self.search_many([query], k, mode=mode, where=where, distinct=distinct)[0]

    def search_many(
        self,
        queries: Sequence[str],
        k: int = 10,
        *,
        mode: Mode | None = None,
        where: Filter | None = None,
        distinct: bool = False,
    ) -> list[list[Hit]]:
        """The best k documents of each query, with the options of `Index.search_many`."""
        mode = mode or self.mode
        check(queries, k, mode)
        if not queries:
            return []
        if distinct:
            return distinct_many(partial(self.search_many, mode=mode, where=where), queries, k, self.analysis)
        depth = max(k, {"auto": titles.DEPTH, "linked": linked.DEPTH}.get(mode, k))
        ranked = self._rank(queries, depth, mode, None if where is None else filter_facets(where))
        documents = self._fetch(sorted({found.key for row in ranked for found in row}))
        hits = [[Hit(documents[found.key], found.score) for found in row if found.key in documents] for row in ranked]
        if mode == "auto":
            return [self._named_first(query, row)[:k] for query, row in zip(queries, hits, strict=True)]
        if mode == "linked":
            return [linked.linked(query, row, self.analysis)[:k] for query, row in zip(queries, hits, strict=True)]
        return hits

    def _named_first(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        titles = [titles.title_words(hit.document.title, self.analysis) for hit in hits]
        articles = [(hit.document.title, hit.document.text) for hit in hits]
        order = titles.named(query, titles, [hit.score for hit in hits], self.analysis, lambda: articles)
        return [Hit(hits[place].document, score) for place, score in order]

    def _rank(self, queries: Sequence[str], k: int, mode: Mode, facets: Facets | None) -> list[list[Ranked]]:
        if mode in ("auto", "linked"):
            mode = "hybrid" if self.settings.encoder else "bm25"
        depth = k if mode != "hybrid" else max(k, self.settings.fusion.depth)
        lexical: list[list[Ranked]] = [[] for _ in queries]
        if mode != "dense":
            terms = [Counter(text(term) for term in self.analysis.query_terms(query)) for query in queries]
            asked = [i for i, counted in enumerate(terms) if counted]
            if asked:
                found = self._lexical([terms[i] for i in asked], depth, facets)
                for i, row in zip(asked, found, strict=True):
                    lexical[i] = row
            if mode == "bm25":
                return lexical
        dense = self._nearest(self.encoder.encode(queries, query=True), depth, facets)
        if mode == "dense":
            return dense
        return [self._fuse(a, b, k) for a, b in zip(lexical, dense, strict=True)]

    def _fuse(self, lexical: Sequence[Ranked], dense: Sequence[Ranked], k: int) -> list[Ranked]:
        keys = list(dict.fromkeys(found.key for found in (*lexical, *dense)))
        numbers = {key: number for number, key in enumerate(keys)}
        one, other = ([Scored(numbers[key], score) for key, score in ranking] for ranking in (lexical, dense))
        return [Ranked(keys[number], score) for number, score in self.settings.fusion.fuse(one, other, k)]

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        """The Search protocol: `search_many` on a thread of its own."""
        return await asyncio.to_thread(self.search_many, list(queries), k)

    def get(self, identifier: str) -> Document | None:
        """The document with this id, None where there is none."""
        key = key_of(identifier)
        return self._fetch([key]).get(key)

    # ------------------------------------------------------------------------------------------------ changing

    def add(self, documents: Iterable[Document], *, progress: Progress | None = None) -> Changes:
        """Add or update documents; in a collection with vectors the new ones get theirs as well."""
        return self.load((Entry(document) for document in documents), progress=progress)

    def load(self, entries: Iterable[Entry], *, progress: Progress | None = None) -> Changes:
        """Take passages in, with their vectors where they have some; an equal passage is passed over.

        When it returns, everything can be found. A killed run loses at most the batch that was under way: run again,
        it passes over what is there.
        """
        added = updated = unchanged = 0
        source = iter(entries)
        try:
            while batch := list(islice(source, self.BATCH)):
                batch = [Entry(cleaned(document), vector) for document, vector in batch]
                latest = {key_of(entry.document.id): entry for entry in batch}
                known = self._known(list(latest))
                fresh: list[tuple[str, str, Entry]] = []
                for key, (document, vector) in latest.items():
                    digest = digest_of(document)
                    found = known.get(key)
                    if found and found.digest == digest and (found.vector or self.settings.encoder is None):
                        unchanged += 1
                        continue
                    fresh.append((key, digest, Entry(document, vector)))
                    added, updated = (added, updated + 1) if found else (added + 1, updated)
                if fresh:
                    self._put(self._passages(fresh))
                if progress:
                    progress(len(batch))
        finally:
            self._finish()
        return Changes(added, updated, unchanged)

    def _passages(self, fresh: Sequence[tuple[str, str, Entry]]) -> list[Passage]:
        vectors: list[Row | None] = [entry.vector for _, _, entry in fresh]
        if self.settings.encoder is None:
            vectors = [None] * len(fresh)
        elif bare := [i for i, vector in enumerate(vectors) if vector is None]:
            documents = [fresh[i][2].document for i in bare]
            made = self.encoder.encode([f"{d.title}\n{d.text}" for d in documents], query=False)
            for i, row in zip(bare, made, strict=True):
                vectors[i] = row
        out = []
        for (key, digest, entry), vector in zip(fresh, vectors, strict=True):
            if vector is not None and len(vector) != self.settings.width:
                raise UsageError(
                    f"{self.name} has vectors of {self.settings.width} numbers; the passage "
                    f"{entry.document.id!r} has one of {len(vector)}"
                )
            document = storable(entry.document)
            found = self.analysis.folded_terms(self.analysis.document(document.title, document.text))
            terms = Counter(map(text, found))
            out.append(Passage(key, document, digest, facets_of(document.meta), terms, len(found), vector))
        return out

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents by id; the number of documents that were there."""
        ids = check_ids(ids)
        removed, source = 0, iter(ids)
        while batch := list(islice(source, self.BATCH)):
            removed += self._delete([key_of(identifier) for identifier in dict.fromkeys(batch)])
        self._finish()
        return removed

    # ------------------------------------------------------------------------------------------------ a backend's part

    @abstractmethod
    def _read_settings(self) -> Settings | None:
        """The settings that the collection was made with, None where there is no collection."""

    @abstractmethod
    def _make(self, settings: Settings) -> None:
        """Make the empty collection."""

    @abstractmethod
    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        """What is there of these passages."""

    @abstractmethod
    def _put(self, passages: Sequence[Passage]) -> None:
        """Write passages; one whose key is there replaces the older version. Durable when it returns."""

    @abstractmethod
    def _delete(self, keys: Sequence[str]) -> int:
        """Remove passages; how many were there."""

    def _finish(self) -> None:
        """Make what was written findable, where that is a step of its own."""

    @abstractmethod
    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        """The best k by BM25 of each query, given as terms with their counts; none is empty."""

    @abstractmethod
    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        """The k nearest to each row, with their cosines."""

    @abstractmethod
    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        """The documents of these keys, as far as they are there."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """All passages with their vectors in a stable order, read in bounded memory."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def close(self) -> None:
        """Let go of connections. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
