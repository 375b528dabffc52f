"""What all backends share: queries become terms and vectors as in our own index, two rankings become one.

A *backend* is another store (a database, a search engine) that holds passages, their terms and their vectors. It ranks
by terms and by vectors; everything else is the same for all of them and is here, so that an index can move to another
backend and give the same results. The settings (analysis, BM25, encoder) are stored in the backend itself.

    backend = open_place("postgres://localhost/docs")
    backend.search("who designed the bridge", 5)
    await backend.retrieve(["...", "..."], 5)
"""

from __future__ import annotations

import hashlib
import json
import uuid
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ...codec import utf8
from ...errors import UsageError
from ...record import Document, Hit
from .. import titles
from ..analysis import Analysis
from ..bm25 import BM25, Scored
from ..collection import Collection
from ..encoder import EncoderSpec
from ..filters import Filter, conditions_of
from ..search import Mode, check_ids
from ..settings import Entry, Settings
from ..stored_document import cleaned
from ..vectors import to_half
from ..writer import Changes, Progress

if TYPE_CHECKING:
    from typing import Self

    from ..settings import Row


MISSING = "\ufffd"
"""Replaces what a store cannot hold: lone surrogates, and the NUL that PostgreSQL refuses."""


class Ranked(NamedTuple):
    """A passage's key in the backend, and its score."""

    key: str
    score: float


class Known(NamedTuple):
    """What the backend knows about a passage."""

    digest: str
    vector: bool


class Passage(NamedTuple):
    """A passage with everything that a backend stores of it."""

    key: str
    """Made from the id; a UUID, the one kind of key that all stores accept."""
    document: Document
    digest: str
    """Of title, text and metadata: a passage with the same digest is not written again."""
    facets: tuple[str, ...]
    """`field=value` for each field of the metadata that can be filtered by."""
    terms: Mapping[str, int]
    """How often each term occurs in it, the title weighted."""
    length: int
    vector: Row | None

    def fields(self) -> dict[str, Any]:
        """What is stored of it beside its terms and its vector."""
        document = self.document
        return {
            "id": document.id,
            "title": document.title,
            "text": document.text,
            "meta": json.dumps(dict(document.meta), sort_keys=True),
            "digest": self.digest,
            "facets": list(self.facets),
        }

    def repeated_terms(self) -> str:
        """Its terms, each as often as it occurs, for stores that split a text at blanks."""
        return " ".join(term for term, count in self.terms.items() for _ in range(count))


def to_document(fields: Mapping[str, Any]) -> Document:
    """A document from the fields that `Passage.fields` stored."""
    return Document(fields["id"], fields["title"], fields["text"], json.loads(fields["meta"]))


DOCUMENT_FIELDS = ("id", "title", "text", "meta")

Facets = Sequence[Sequence[str]]
"""A filter: a passage must have one facet of each group."""


class Backend(Collection):
    """A searchable collection in somebody else's store. Threads may share it; `close` it, or use a `with` block."""

    BATCH = 512
    """Passages of one write."""

    def __init__(self, name: str, mode: Mode = "auto") -> None:
        super().__init__(mode)
        self._name = name
        self._settings: Settings | None = None

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
        """Make a collection, or open the existing one if it was made with the same settings."""
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
    def analysis(self) -> Analysis:  # type: ignore[override]
        return self.settings.analysis

    def _encoder_spec(self) -> EncoderSpec | None:
        return self.settings.encoder

    def _no_vectors(self) -> str:
        return f"{self.name} has no vectors; embed the index before copying it there"

    # ------------------------------------------------------------------------------------------------ searching

    def _hits(
        self, queries: Sequence[str], k: int, depth: int, mode: Mode, where: Filter | None, bm25: BM25 | None
    ) -> list[list[Hit]]:
        if bm25 is not None and bm25 != self.settings.bm25:
            raise UsageError(f"{self.name} ranks with the BM25 parameters it was made with, {self.settings.bm25}")
        if not queries:
            return []
        ranked = self._rank(queries, depth, mode, None if where is None else filter_facets(where))
        documents = self._fetch(sorted({found.key for row in ranked for found in row}))
        hits = [[Hit(documents[found.key], found.score) for found in row if found.key in documents] for row in ranked]
        if mode != "auto":
            return hits
        return [self._named_first(query, row)[:k] for query, row in zip(queries, hits, strict=True)]

    def _named_first(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        articles = [(hit.document.title, hit.document.text) for hit in hits]
        known = [titles.title_words(title, self.analysis) for title, _ in articles]
        order = titles.named_first(query, known, [hit.score for hit in hits], self.analysis, lambda: articles)
        return [Hit(hits[i].document, score) for i, score in order]

    def _rank(self, queries: Sequence[str], k: int, mode: Mode, facets: Facets | None) -> list[list[Ranked]]:
        if mode in ("auto", "linked"):
            mode = "hybrid" if self.settings.encoder else "bm25"
        depth = k if mode != "hybrid" else max(k, self.settings.fusion.depth)
        lexical: list[list[Ranked]] = [[] for _ in queries]
        if mode != "dense":
            terms = [Counter(term_text(term) for term in self.analysis.query_terms(query)) for query in queries]
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

    def get(self, identifier: str) -> Document | None:
        """The document with this id, None where there is none."""
        key = key_of(identifier)
        return self._fetch([key]).get(key)

    # ------------------------------------------------------------------------------------------------ changing

    def add(self, documents: Iterable[Document], *, progress: Progress | None = None) -> Changes:
        """Add or update documents; in a collection with vectors the new ones get theirs as well."""
        return self.load((Entry(document) for document in documents), progress=progress)

    def load(self, entries: Iterable[Entry], *, progress: Progress | None = None) -> Changes:
        """Add passages, with their vectors where they have some; an equal passage is skipped.

        When it returns, everything can be found. A killed run loses at most the current batch: run again, it skips
        what exists.
        """
        added = updated = unchanged = 0
        source = iter(entries)
        try:
            while batch := list(islice(source, self.BATCH)):
                batch = [Entry(cleaned(document), vector) for document, vector in batch]
                for document, vector in batch:
                    if vector is not None:
                        to_half(vector, document.id)
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
            terms = Counter(map(term_text, found))
            out.append(Passage(key, document, digest, facets_of(document.meta), terms, len(found), vector))
        return out

    def remove(self, ids: Iterable[str]) -> int:
        """Remove documents by id; returns how many existed."""
        ids = check_ids(ids)
        removed, source = 0, iter(ids)
        while batch := list(islice(source, self.BATCH)):
            removed += self._delete([key_of(identifier) for identifier in dict.fromkeys(batch)])
        self._finish()
        return removed

    # ------------------------------------------------------------------------------------------------ of each backend

    @abstractmethod
    def _read_settings(self) -> Settings | None:
        """The settings of the collection, None where there is no collection."""

    @abstractmethod
    def _make(self, settings: Settings) -> None:
        """Make the empty collection."""

    @abstractmethod
    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        """The existing ones of these passages."""

    @abstractmethod
    def _put(self, passages: Sequence[Passage]) -> None:
        """Write passages; one whose key exists replaces the older version. Durable when it returns."""

    @abstractmethod
    def _delete(self, keys: Sequence[str]) -> int:
        """Remove passages; returns how many existed."""

    def _finish(self) -> None:
        """Make what was written searchable, where that is a separate step."""

    @abstractmethod
    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        """The best k by BM25 of each query, given as its terms with their counts, never empty."""

    @abstractmethod
    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        """The k nearest to each row, with their cosines."""

    @abstractmethod
    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        """The existing documents of these keys."""

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """All passages with their vectors in a stable order, read in bounded memory."""

    @abstractmethod
    def __len__(self) -> int: ...


def key_of(identifier: str) -> str:
    """A passage's key in backends: a UUID from the digest of its id."""
    return str(uuid.UUID(bytes=hashlib.blake2b(_utf8(identifier).encode(), digest_size=16).digest()))


def digest_of(document: Document) -> str:
    content = json.dumps([document.title, document.text, dict(document.meta)], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


def term_text(term: bytes) -> str:
    """A term as text; a character that was cut in the middle is replaced."""
    return term.decode(errors="replace")


def storable(document: Document) -> Document:
    """The document without what a store cannot hold; its metadata are stored as JSON in ASCII."""
    return Document(_utf8(document.id), _utf8(document.title), _utf8(document.text), document.meta)


def _utf8(words: str) -> str:
    return utf8(words).replace("\0", MISSING)


def facets_of(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """What a passage can be filtered by."""
    facets = []
    for field, value in meta.items():
        for one in value if isinstance(value, list | tuple) else [value]:
            if isinstance(one, str | int | float):
                facets.append(facet(field, one))
    return tuple(dict.fromkeys(facets))


def facet(field: str, value: str | float) -> str:
    """`field=value`; a whole number is the same as int, float or bool."""
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)
    return f"{_utf8(field)}={json.dumps(value if not isinstance(value, str) else _utf8(value), ensure_ascii=False)}"


def filter_facets(where: Filter) -> list[list[str]]:
    """A filter as groups of facets; malformed ones are refused as in our own index."""
    return [[facet(field, choice) for choice in choices] for field, choices in conditions_of(where)]
