"""PostgreSQL with pgvector as a backend.

    postgres://user@host:5432/database?collection=NAME       (PGPASSWORD and the other libpq settings apply)

A collection is a schema with a row for each passage. BM25 is exact and equal to our own index to the last bit: a
passage has the numbers of its terms and their counts in two arrays, a GIN index finds the passages that have a term,
and the database adds up the formula over them (`sql_bm25`). A table counts how many passages have a term.

A search first scores the passages that have one of the query's rarest terms. A term adds less than its weight to a
score, so the k-th score found so far tells which of the other terms, or pairs of them, a passage must have to get into
the result; only those passages are read (MaxScore, as in our own index, extended to pairs).

Vectors are half-precision (`halfvec`); from ANN_ROWS rows on they get an HNSW index, below that search is exact.
"""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...errors import DataError, MissingDependency, SearchError, SearchRefused, UsageError
from ...record import Document
from ..bm25 import ONE, idf
from ..json_server import retry
from ..search import Mode
from ..settings import Entry, Settings
from .backend import Backend, Facets, Known, Passage, Ranked
from .sql_bm25 import SCORE, columns, essential, has

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

FORMAT = 1
ANN_ROWS = 20_000
"""From here on, the HNSW index is faster than reading all vectors."""
MAX_TERMS = 400
"""Different terms of one query; longer queries use those with the most weight."""
_FIRST = 256
"""At least this many passages, by the counts of the rarest terms, are scored first."""
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,40}")

_SCHEMA = """
{extension}CREATE SCHEMA {schema};
CREATE TABLE {schema}.settings (format int NOT NULL, settings text NOT NULL, documents bigint NOT NULL,
    length bigint NOT NULL);
CREATE TABLE {schema}.terms (number int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, term text NOT NULL UNIQUE,
    documents int NOT NULL DEFAULT 0) WITH (fillfactor = 70);
CREATE TABLE {schema}.documents (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key uuid NOT NULL UNIQUE,
    id text NOT NULL, title text NOT NULL, text text NOT NULL, meta text NOT NULL, digest text NOT NULL,
    facets text[] NOT NULL, length int NOT NULL, terms int[] NOT NULL, counts int[] NOT NULL{vector});
CREATE INDEX documents_terms ON {schema}.documents USING gin (terms);
CREATE INDEX documents_facets ON {schema}.documents USING gin (facets);
"""


class Postgres(Backend):
    """A collection in PostgreSQL."""

    BATCH = 4000

    def __init__(self, url: str, mode: Mode = "auto") -> None:
        try:
            import psycopg
        except ImportError:
            raise MissingDependency("psycopg, which speaks to PostgreSQL,", "postgres") from None
        self._psycopg = psycopg
        self._target, collection = split(url)
        self._schema = f'"{collection}"'
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._closed = False
        self._numbers: dict[str, int] = {}
        super().__init__(shown(url), mode)

    # ------------------------------------------------------------------------------------------------ connections

    def _do(self, work: Callable[[Connection[Any]], T]) -> T:
        """One transaction; repeated on a new connection where the connection or the server failed."""
        return retry(lambda: self._once(work))

    def _once(self, work: Callable[[Connection[Any]], T]) -> T:
        psycopg = self._psycopg
        with self._lock:
            if self._closed:
                raise UsageError(f"{self.name} is closed")
            connection = self._idle.pop() if self._idle else None
        try:
            if connection is None:
                connection = psycopg.connect(self._target, connect_timeout=10, application_name="subquest")
            with connection.transaction():
                result = work(connection)
        except psycopg.Error as error:
            if connection is not None:
                connection.close()
            passing = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            kind = SearchError if passing else SearchRefused
            raise kind(f"{self.name}: {str(error).strip() or type(error).__name__}") from error
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        with self._lock:
            keep = not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()
        return result

    def _sql(self, statement: str, **parts: str) -> Any:
        return statement.format(schema=self._schema, **parts)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # ------------------------------------------------------------------------------------------------ settings

    def _read_settings(self) -> Settings | None:
        def read(db: Connection[Any]) -> tuple[int, str] | None:
            there = db.execute("SELECT to_regclass(%s)", (f"{self._schema}.settings",)).fetchone()
            if there is None or there[0] is None:
                return None
            return db.execute(self._sql("SELECT format, settings FROM {schema}.settings")).fetchone()

        found = self._do(read)
        if found is None:
            return None
        if found[0] != FORMAT:
            raise DataError(f"{self.name} has format {found[0]}, this version reads format {FORMAT}; copy it again")
        return Settings.from_record(json.loads(found[1]), self.name)

    def _make(self, settings: Settings) -> None:
        vector, extension = "", ""
        if settings.encoder:
            vector, extension = f", vector halfvec({settings.width})", "CREATE EXTENSION IF NOT EXISTS vector;"

        def make(db: Connection[Any]) -> None:
            for statement in self._sql(_SCHEMA, vector=vector, extension=extension).split(";"):
                if statement.strip():
                    db.execute(statement)
            row = (FORMAT, json.dumps(settings.to_record()))
            db.execute(self._sql("INSERT INTO {schema}.settings VALUES (%s, %s, 0, 0)"), row)

        self._do(make)

    # ------------------------------------------------------------------------------------------------ writing

    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        has = "vector IS NOT NULL" if self.settings.encoder else "false"
        statement = self._sql(
            "SELECT key::text, digest, {has} FROM {schema}.documents WHERE key = ANY(%s::uuid[])", has=has
        )
        rows = self._do(lambda db: db.execute(statement, (list(keys),)).fetchall())
        return {key: Known(digest, vector) for key, digest, vector in rows}

    def _put(self, passages: Sequence[Passage]) -> None:
        self._do(lambda db: self._write(db, passages))

    def _write(self, db: Connection[Any], passages: Sequence[Passage]) -> None:
        self._one_writer(db)
        self._forget(db, [passage.key for passage in passages])
        counts = Counter(term for passage in passages for term in passage.terms)
        numbers = self._term_numbers(db, list(counts), make=True)
        self._count(db, {numbers[term]: count for term, count in counts.items()})
        columns = "key, id, title, text, meta, digest, facets, length, terms, counts"
        marks = "%s, %s, %s, %s, %s, %s, %s::text[], %s, %s::int[], %s::int[]"
        if self.settings.encoder:
            columns, marks = f"{columns}, vector", f"{marks}, %s::halfvec"
        rows = []
        for p in passages:
            ordered = sorted((numbers[term], count) for term, count in p.terms.items())
            row = [p.key, *p.fields().values(), p.length]  # in the order of the columns
            row += [[number for number, _ in ordered], [count for _, count in ordered]]
            rows.append([*row, _vector_text(p.vector)] if self.settings.encoder else row)
        statement = self._sql(
            "INSERT INTO {schema}.documents ({columns}) VALUES ({marks})", columns=columns, marks=marks
        )
        with db.cursor() as cursor:
            cursor.executemany(statement, rows)
        self._grow(db, len(passages), sum(passage.length for passage in passages))

    def _one_writer(self, db: Connection[Any]) -> None:
        """Writers take turns, transaction by transaction; readers never wait."""
        db.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"subquest {self._schema}",))

    def _forget(self, db: Connection[Any], keys: Sequence[str]) -> int:
        """Delete passages and subtract them from the counts."""
        statement = self._sql("DELETE FROM {schema}.documents WHERE key = ANY(%s::uuid[]) RETURNING terms, length")
        gone = db.execute(statement, (list(keys),)).fetchall()
        self._count(db, {number: -count for number, count in Counter(n for terms, _ in gone for n in terms).items()})
        if gone:
            self._grow(db, -len(gone), -sum(length for _, length in gone))
        return len(gone)

    def _term_numbers(self, db: Connection[Any], terms: Sequence[str], *, make: bool) -> dict[str, int]:
        """The numbers of terms, cached; new terms get one with `make`."""
        missing = [term for term in terms if term not in self._numbers]
        if missing:
            found = dict(
                db.execute(self._sql("SELECT term, number FROM {schema}.terms WHERE term = ANY(%s)"), (missing,))
            )
            if make and (new := [term for term in missing if term not in found]):
                statement = self._sql(
                    "INSERT INTO {schema}.terms (term) SELECT unnest(%s::text[]) RETURNING term, number"
                )
                # not cached: the transaction may still fail
                return {**found, **dict(db.execute(statement, (new,))), **self._cached(terms)}
            if len(self._numbers) > 2_000_000:
                self._numbers.clear()
            self._numbers.update(found)
        return self._cached(terms)

    def _cached(self, terms: Sequence[str]) -> dict[str, int]:
        return {term: self._numbers[term] for term in terms if term in self._numbers}

    def _count(self, db: Connection[Any], changes: dict[int, int]) -> None:
        if changes:
            statement = self._sql(
                "UPDATE {schema}.terms AS t SET documents = t.documents + c.change "
                "FROM unnest(%s::int[], %s::int[]) AS c(number, change) WHERE t.number = c.number"
            )
            db.execute(statement, (list(changes), list(changes.values())))

    def _grow(self, db: Connection[Any], documents: int, length: int) -> None:
        statement = self._sql("UPDATE {schema}.settings SET documents = documents + %s, length = length + %s")
        db.execute(statement, (documents, length))

    def _delete(self, keys: Sequence[str]) -> int:
        def delete(db: Connection[Any]) -> int:
            self._one_writer(db)
            return self._forget(db, keys)

        return self._do(delete)

    def _finish(self) -> None:
        """New statistics for the query planner, and the HNSW index where there are enough vectors."""
        many = self.settings.encoder is not None and len(self) >= ANN_ROWS

        def finish(db: Connection[Any]) -> None:
            db.execute(self._sql("ANALYZE {schema}.documents"))
            if many:
                db.execute(
                    self._sql(
                        "CREATE INDEX IF NOT EXISTS documents_vector ON {schema}.documents "
                        "USING hnsw (vector halfvec_ip_ops)"
                    )
                )

        self._do(finish)

    # ------------------------------------------------------------------------------------------------ searching

    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        def search(db: Connection[Any]) -> list[list[Ranked]]:
            db.execute("SET LOCAL jit = off")  # compiling takes longer than the search
            db.execute("SET LOCAL enable_seqscan = off")  # the planner underestimates array conditions
            return [self._best(db, query, k, facets) for query in queries]

        return self._do(search)

    def _best(self, db: Connection[Any], query: Counter[str], k: int, facets: Facets | None) -> list[Ranked]:
        documents, length = db.execute(self._sql("SELECT documents, length FROM {schema}.settings")).fetchone() or (
            0,
            0,
        )
        rows = db.execute(
            self._sql("SELECT term, number, documents FROM {schema}.terms WHERE term = ANY(%s) AND documents > 0"),
            (list(query),),
        ).fetchall()
        if not rows:
            return []
        weights = {n: query[term] * idf(documents, df) for term, n, df in rows}
        if len(weights) > MAX_TERMS:
            weights = dict(sorted(weights.items(), key=lambda item: -item[1])[:MAX_TERMS])
        counts = {number: df for _, number, df in rows}
        rare = sorted(weights, key=lambda number: counts[number])
        first: list[int] = []
        seen = 0
        while rare and (not first or seen < max(_FIRST, 4 * k)):
            first.append(rare.pop(0))
            seen += counts[first[-1]]
        shape = columns(list(weights), list(weights.values()))
        asked = {
            "k": k,
            "k1": self.settings.bm25.k1,
            "b": self.settings.bm25.b,
            "average": length / documents if length else 1.0,
        }
        best = self._scored(db, shape, asked, has(first, []), facets)
        threshold = best[k - 1][2] / ONE if len(best) == k else -1.0
        singles, pairs = essential({number: weights[number] for number in rare}, threshold)
        if singles or pairs:
            more = self._scored(db, shape, asked, has(singles, pairs), facets)
            best = sorted({*best, *more}, key=lambda row: (-row[2], row[1]))[:k]
        return [Ranked(key, float(score) / ONE) for key, _, score in best]

    def _scored(
        self, db: Connection[Any], shape: dict[str, str], asked: dict[str, Any], chosen: str, facets: Facets | None
    ) -> list[tuple[str, int, float]]:
        where, values = _where(facets)
        statement = self._sql(SCORE, chosen=chosen, facets=where, **shape)
        return db.execute(statement, {**asked, **values}).fetchall()

    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        where, values = _where(facets)
        statement = self._sql(
            "SELECT key::text, number, -(vector <#> %(query)s::halfvec) FROM {schema}.documents "
            "WHERE vector IS NOT NULL{facets} ORDER BY vector <#> %(query)s::halfvec LIMIT %(k)s",
            facets=where,
        )

        def search(db: Connection[Any]) -> list[list[Ranked]]:
            db.execute(f"SET LOCAL hnsw.ef_search = {min(1000, max(100, 2 * k))}")
            db.execute("SET LOCAL hnsw.iterative_scan = strict_order")
            out = []
            for vector in vectors:
                rows = db.execute(statement, {"query": _vector_text(vector), "k": k, **values}).fetchall()
                rows.sort(key=lambda row: (-row[2], row[1]))
                out.append([Ranked(key, score) for key, _, score in rows])
            return out

        return self._do(search)

    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        columns = "key::text, id, title, text, meta"
        statement = self._sql("SELECT {columns} FROM {schema}.documents WHERE key = ANY(%s::uuid[])", columns=columns)
        rows = self._do(lambda db: db.execute(statement, (list(keys),)).fetchall())
        return {key: Document(identifier, title, text, json.loads(meta)) for key, identifier, title, text, meta in rows}

    def entries(self) -> Iterator[Entry]:
        import numpy as np

        vector = "vector::text" if self.settings.encoder else "NULL"
        statement = self._sql(
            "SELECT number, id, title, text, meta, {vector} FROM {schema}.documents WHERE number > %s "
            "ORDER BY number LIMIT 1000",
            vector=vector,
        )
        last = 0
        while rows := self._do(lambda db, after=last: db.execute(statement, (after,)).fetchall()):  # type: ignore[misc]
            last = rows[-1][0]
            for _, identifier, title, text, meta, found in rows:
                row = None if found is None else np.array(found[1:-1].split(","), np.float32)
                yield Entry(Document(identifier, title, text, json.loads(meta)), row)

    def __len__(self) -> int:
        row = self._do(lambda db: db.execute(self._sql("SELECT documents FROM {schema}.settings")).fetchone())
        return int(row[0]) if row else 0


def split(url: str) -> tuple[str, str]:
    """The address as libpq takes it, and the collection's name."""
    parts = urlsplit(url)
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    collection = next((value for name, value in pairs if name == "collection"), "subquest")
    if not _NAME.fullmatch(collection):
        raise UsageError(f"the collection {collection!r}: use at most 41 of a-z, 0-9 and _, not starting with a digit")
    rest = urlencode([pair for pair in pairs if pair[0] != "collection"], safe="/")
    return urlunsplit(("postgresql", parts.netloc, parts.path, rest, "")), collection


def shown(url: str) -> str:
    """The address without a password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"postgres://{host}{parts.path}?collection={split(url)[1]}"


def _where(facets: Facets | None) -> tuple[str, dict[str, list[str]]]:
    values = {f"facets{i}": list(group) for i, group in enumerate(facets or ())}
    return "".join(f" AND facets && %({name})s::text[]" for name in values), values


def _vector_text(vector: Any) -> str | None:
    return None if vector is None else "[" + ",".join(map(repr, vector.tolist())) + "]"
