"""LanceDB as a backend: a table of files, on a disk or in object storage.

    lance:FOLDER     lance:s3://bucket/path     lance:gs://bucket/path     #TABLE: a table other than `passages`

No server is needed: whoever can read the files can search, which makes it the backend for indexes in object storage.
Terms are made here, with the analysis of our own index; Lance ranks them by its BM25, whose k1 and b are fixed (1.2 and
0.75), and whose counts lag behind updates. From ANN_ROWS rows on, vectors are searched through an inverted file of
graphs, below that exactly.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

from ...errors import MissingDependency, SearchError, UsageError
from ...record import Document
from ..bm25 import BM25
from ..search import Mode
from ..settings import Entry, Settings
from .backend import DOCUMENT_FIELDS, Backend, Facets, Known, Passage, Ranked, to_document

ANN_ROWS = 100_000
_PAGE = 1000


class Lance(Backend):
    """A LanceDB table."""

    BATCH = 5000

    def __init__(self, url: str, mode: Mode = "auto") -> None:
        try:
            import lancedb
            import pyarrow
        except ImportError:
            raise MissingDependency("LanceDB", "lancedb") from None
        place, _, table = url.removeprefix("lance:").partition("#")
        if not place:
            raise UsageError("write lance:FOLDER or lance:s3://BUCKET/PATH")
        self._pa: Any = pyarrow
        self._table_name = table or "passages"
        super().__init__(f"lance:{place}" + (f"#{table}" if table else ""), mode)
        self._table: Any = None
        with self._errors("open"):
            self._db: Any = lancedb.connect(place, read_consistency_interval=timedelta(0))

    @classmethod
    def open(cls, url: str, *, mode: Mode = "auto") -> Self:
        """The collection at an address; LanceDB would make a folder that is not there."""
        place = url.removeprefix("lance:").partition("#")[0]
        if place and "://" not in place and not Path(place).is_dir():
            raise UsageError(f"there is no collection at {url}; copy an index there: subquest index copy INDEX URL")
        return super().open(url, mode=mode)

    @contextlib.contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        """Turn what Lance or its storage raises into a SearchError."""
        try:
            yield
        except (OSError, RuntimeError, ValueError) as error:
            raise SearchError(f"{self.name}: could not {what}: {error}") from error

    def close(self) -> None:
        self._table = None

    def _open(self) -> Any:
        if self._table is None:
            raise UsageError(f"{self.name} is closed")
        return self._table

    # ------------------------------------------------------------------------------------------------ settings

    def _read_settings(self) -> Settings | None:
        with self._errors("list tables"):
            if not self._exists():
                return None
            self._table = self._db.open_table(self._table_name)
            found = (self._table.schema.metadata or {}).get(b"subquest")
        if found is None:
            raise UsageError(f"{self.name} was not made by Subquest; name another table: lance:PATH#TABLE")
        return Settings.from_record(json.loads(found), self.name)

    def _exists(self) -> bool:
        token = None
        while True:
            page = self._db.list_tables(page_token=token)
            if self._table_name in page.tables:
                return True
            token = page.page_token
            if not token:
                return False

    def _make(self, settings: Settings) -> None:
        if settings.bm25 != BM25(1.2, 0.75):
            raise UsageError(f"LanceDB supports only k1 1.2 and b 0.75; this index has {settings.bm25}")
        with self._errors("make a table"):
            metadata = {"subquest": json.dumps(settings.to_record())}
            self._table = self._db.create_table(self._table_name, schema=self._schema(settings, metadata))

    def _schema(self, settings: Settings, metadata: dict[str, str] | None = None) -> Any:
        pa = self._pa
        fields = [(name, pa.string()) for name in ("key", *DOCUMENT_FIELDS, "digest", "terms")]
        fields.append(("facets", pa.list_(pa.string())))
        if settings.encoder:
            fields.append(("vector", pa.list_(pa.float16(), settings.width)))
        return pa.schema(fields, metadata=metadata)

    # ------------------------------------------------------------------------------------------------ writing

    def _known(self, keys: Sequence[str]) -> dict[str, Known]:
        rows = self._rows(keys, ["key", "digest"])
        return {row["key"]: Known(row["digest"], self.settings.encoder is not None) for row in rows}

    def _rows(self, keys: Sequence[str], columns: list[str]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        with self._errors("read"):
            for start in range(0, len(keys), _PAGE):
                chosen = f"key IN ({_listed(keys[start : start + _PAGE])})"
                found += self._open().search().where(chosen).select(columns).limit(_PAGE).to_list()
        return found

    def _put(self, passages: Sequence[Passage]) -> None:
        import numpy as np

        pa = self._pa
        columns: dict[str, Any] = {
            "key": [p.key for p in passages],
            "terms": [p.repeated_terms() for p in passages],
        }
        rows = [p.fields() for p in passages]
        columns |= {name: [row[name] for row in rows] for name in rows[0]}
        if self.settings.encoder:
            vectors = np.concatenate([np.asarray(p.vector, np.float16) for p in passages])
            columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(vectors), self.settings.width)
        with self._errors("write"):
            merge = self._open().merge_insert("key").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.table(columns, schema=self._schema(self.settings)))

    def _delete(self, keys: Sequence[str]) -> int:
        with self._errors("delete"):
            before = self._open().count_rows()
            self._open().delete(f"key IN ({_listed(keys)})")
            return int(before - self._open().count_rows())

    def _finish(self) -> None:
        """Create the missing indexes and update the others."""
        from lancedb.index import FTS, BTree, IvfHnswSq, LabelList

        plain: dict[str, Any] = {"lower_case": False, "stem": False, "remove_stop_words": False, "ascii_folding": False}
        with self._errors("index"):
            table = self._open()
            there = {index.columns[0] for index in table.list_indices()}
            rows = table.count_rows()
            wanted: dict[str, Any] = {"terms": FTS(base_tokenizer="whitespace", max_token_length=None, **plain)}
            if rows:
                wanted |= {"key": BTree(), "facets": LabelList()}
            if self.settings.encoder and rows >= ANN_ROWS:
                wanted["vector"] = IvfHnswSq(distance_type="cosine")
            for column, config in wanted.items():
                if column not in there:
                    table.create_index(column, config=config)
            if there:
                table.optimize()

    # ------------------------------------------------------------------------------------------------ searching

    def _lexical(self, queries: Sequence[Counter[str]], k: int, facets: Facets | None) -> list[list[Ranked]]:
        out = []
        with self._errors("search"):
            for query in queries:
                words = " ".join(term for term, count in query.items() for _ in range(count))
                asked = self._open().search(words, query_type="fts", fts_columns="terms")
                rows = _narrowed(asked, facets).select(["key", "_score"]).limit(k).to_list()
                out.append([Ranked(row["key"], row["_score"]) for row in rows])
        return out

    def _nearest(self, vectors: Any, k: int, facets: Facets | None) -> list[list[Ranked]]:
        out = []
        with self._errors("search"):
            for vector in vectors:
                asked = self._open().search(vector, vector_column_name="vector").distance_type("cosine")
                asked = asked.nprobes(64).refine_factor(4)
                rows = _narrowed(asked, facets).select(["key", "_distance"]).limit(k).to_list()
                out.append([Ranked(row["key"], 1 - row["_distance"]) for row in rows])
        return out

    def _fetch(self, keys: Sequence[str]) -> dict[str, Document]:
        return {row["key"]: to_document(row) for row in self._rows(keys, ["key", *DOCUMENT_FIELDS])}

    def entries(self) -> Iterator[Entry]:
        import numpy as np

        columns = [*DOCUMENT_FIELDS, "vector"] if self.settings.encoder else list(DOCUMENT_FIELDS)
        with self._errors("read"):
            for batch in self._open().search().select(columns).to_batches(_PAGE):
                for row in batch.to_pylist():
                    vector = row.get("vector")
                    yield Entry(to_document(row), None if vector is None else np.array(vector, np.float32))

    def __len__(self) -> int:
        with self._errors("count"):
            return int(self._open().count_rows())


def _listed(values: Sequence[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)


def _narrowed(asked: Any, facets: Facets | None) -> Any:
    if not facets:
        return asked
    conditions = " AND ".join(f"array_has_any(facets, [{_listed(group)}])" for group in facets)
    return asked.where(conditions, prefilter=True)
