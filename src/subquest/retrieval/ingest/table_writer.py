"""Keeps the tables of the files that are read (`retrieval.tables`)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import checksums
from ...errors import SearchError
from ...readers.columns import date_in, is_comma_number, number_in
from ..sql_names import identifier, quoted, unique
from ..tables import FILE, Column

_BATCH = 1000
COLUMNS = 200
"""Columns of a table that are kept."""
_CELL = 2000
"""Characters of a cell that are kept."""
_SAMPLES = 3
_ROW = "row_in_file"
_SIGNS = "£$€¥%,+"
_SCHEMA = """CREATE TABLE IF NOT EXISTS catalogue (
    number INTEGER PRIMARY KEY, file TEXT NOT NULL, hash TEXT NOT NULL, place TEXT NOT NULL, columns TEXT NOT NULL,
    rows INTEGER NOT NULL
)"""


@contextlib.contextmanager
def _stored() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise SearchError(
            f"the tables of the index could not be written: {error}; rows of earlier files are intact"
        ) from error


class TableWriter:
    """Stores tables, file by file: those of a file appear together, once all of it is read."""

    def __init__(self, folder: Path, written: Callable[[int], None] | None = None) -> None:
        """`written` is told how many rows of a long table were written, every now and then."""
        self._path = folder / FILE
        self._written = written
        self._db: sqlite3.Connection | None = None
        self._file, self._hash = "", ""
        self._meta: Mapping[str, Any] = {}
        self._table: _Open | None = None

    @_stored()
    def open(self, file: str, hash_: str) -> None:
        """The tables that follow are of this file, with this content."""
        self._file, self._hash = file, hash_
        if self._path.exists():
            self._drop("file = ? AND hash = ?", (file, hash_))

    def within(self, meta: Mapping[str, Any]) -> None:
        """The tables that follow are at this place, such as a member of an archive."""
        self._meta = meta

    @_stored()
    def begin(self, names: Sequence[str], place: Mapping[str, str | int], section: Sequence[str]) -> int:
        self.end()
        where = {"file": self._file, **self._meta, **{k: v for k, v in place.items() if k in ("sheet", "page", "line")}}
        if section:
            where["section"] = " > ".join(section)
        db = self._connected()
        if not db.in_transaction:
            db.execute("BEGIN IMMEDIATE")
        (number,) = db.execute("SELECT coalesce(max(number), 0) + 1 FROM catalogue").fetchone()
        self._table = _Open(db, number, names[:COLUMNS], where, self._written)
        return max(0, len(names) - COLUMNS)

    @_stored()
    def row(self, number: int, cells: Sequence[str]) -> None:
        if self._table is not None:
            self._table.add(number, cells)

    @_stored()
    def end(self) -> None:
        if self._table is not None:
            self._table.finish(self._file, self._hash)
            self._table = None

    @_stored()
    def close_file(self, *, whole: bool) -> None:
        """Keep the tables of a file that was read to its end; forget those of another."""
        self._table, self._meta = None, {}
        if self._db is not None and self._db.in_transaction:
            if whole:
                checksums.record_sums(self._db, ["catalogue"])
            self._db.execute("COMMIT" if whole else "ROLLBACK")

    @_stored()
    def tidy(self, current: set[tuple[str, str]]) -> None:
        """Drop the tables of files, or of earlier contents, that are not current."""
        if not self._path.exists():
            return
        stored = set(self._connected().execute("SELECT file, hash FROM catalogue"))
        for file, hash_ in sorted(stored - current):
            self._drop("file = ? AND hash = ?", (file, hash_))
        self.close_file(whole=True)

    def close(self) -> None:
        self.close_file(whole=False)
        if self._db is not None:
            self._db.close()
            self._db = None

    def _connected(self) -> sqlite3.Connection:
        if self._db is None:
            self._db = sqlite3.connect(self._path, timeout=60.0, isolation_level=None)
            with contextlib.suppress(sqlite3.OperationalError):
                self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(_SCHEMA)
            self._db.execute(checksums.SUMS.replace("TABLE", "TABLE IF NOT EXISTS"))
        return self._db

    def _drop(self, condition: str, values: Sequence[Any]) -> None:
        db = self._connected()
        numbers = [n for (n,) in db.execute(f"SELECT number FROM catalogue WHERE {condition}", values)]
        if numbers and not db.in_transaction:
            db.execute("BEGIN IMMEDIATE")
        for number in numbers:
            db.execute(f"DROP TABLE IF EXISTS t{number}")
            db.execute("DELETE FROM catalogue WHERE number = ?", (number,))
            db.execute("DELETE FROM sums WHERE name = ?", (f"t{number}",))


class _Open:
    """A table whose rows are coming: all text, until it is known which columns hold numbers."""

    def __init__(
        self,
        db: sqlite3.Connection,
        number: int,
        labels: Sequence[str],
        place: Mapping[str, Any],
        written: Callable[[int], None] | None,
    ) -> None:
        self._db = db
        self._written = written
        self._number = number
        self._labels = labels
        self._place = place
        taken = {_ROW}
        self._names = [unique(identifier(label, f"column_{n}"), taken) for n, label in enumerate(labels, 1)]
        self._kinds: list[type | None] = [int] * len(labels)
        """int or float while all values are numbers, None once one is not."""
        self._commas = [True] * len(labels)
        """Whether all values are numbers if a comma comes before the decimals."""
        self._dates = [True] * len(labels)
        """Whether all values are dates."""
        self._samples: list[list[str]] = [[] for _ in labels]
        self._waiting: list[list[Any]] = []
        self._rows = 0
        columns = ", ".join(f"{quoted(name)} TEXT COLLATE NOCASE" for name in self._names)
        db.execute(f"CREATE TABLE t{number} ({_ROW} INTEGER, {columns})")

    def add(self, number: int, cells: Sequence[str]) -> None:
        width = len(self._names)
        row: list[Any] = [number, *([None] * width)]
        for at, cell in enumerate(cells[:width]):
            if not cell:
                continue
            row[at + 1] = cell[:_CELL]
            if self._kinds[at] is not None:
                found = number_in(cell)
                self._kinds[at] = None if found is None else float if isinstance(found, float) else self._kinds[at]
            self._commas[at] = self._commas[at] and is_comma_number(cell)
            self._dates[at] = self._dates[at] and date_in(cell) is not None
            samples = self._samples[at]
            if len(samples) < _SAMPLES and cell not in samples:
                samples.append(cell[:60])
        self._waiting.append(row)
        self._rows += 1
        if len(self._waiting) == _BATCH:
            self._write()
            if self._written is not None:
                self._written(_BATCH)

    def _write(self) -> None:
        marks = ", ".join("?" * (len(self._names) + 1))
        self._db.executemany(f"INSERT INTO t{self._number} VALUES ({marks})", self._waiting)
        self._waiting.clear()

    def finish(self, file: str, hash_: str) -> None:
        self._write()
        if not self._rows or len(self._names) < 2:
            self._db.execute(f"DROP TABLE t{self._number}")
            return
        kinds = [kind if samples else None for kind, samples in zip(self._kinds, self._samples, strict=True)]
        commas = [not k and bool(s) and c for k, s, c in zip(kinds, self._samples, self._commas, strict=True)]
        kinds = [float if comma else kind for kind, comma in zip(kinds, commas, strict=True)]
        types = ["TEXT" if kind is None else "INTEGER" if kind is int else "REAL" for kind in kinds]
        if any(kinds):
            self._convert(types, commas)
        dates = [at for at, samples in enumerate(self._samples) if samples and self._dates[at]]
        for at in dates:
            types[at] = "DATE"
            self._samples[at] = [date_in(sample) or "" for sample in self._samples[at]]
        if dates:
            self._convert_dates([quoted(self._names[at]) for at in dates])
        columns = [Column(_ROW, "INTEGER", "", ())]
        columns += map(Column, self._names, types, self._labels, map(tuple, self._samples))
        self._db.execute(
            "INSERT INTO catalogue VALUES (?, ?, ?, ?, ?, ?)",
            (self._number, file, hash_, json.dumps(self._place), json.dumps(columns), self._rows),
        )
        checksums.record_sums(self._db, [f"t{self._number}"])

    def _convert(self, types: Sequence[str], commas: Sequence[bool]) -> None:
        """The table again, with numbers as numbers."""
        table, columns, values = f"t{self._number}", [f"{_ROW} INTEGER"], [_ROW]
        for name, type_, comma in zip(map(quoted, self._names), types, commas, strict=True):
            columns.append(f"{name} {type_}" + (" COLLATE NOCASE" if type_ == "TEXT" else ""))
            value = f"replace({name}, '−', '-')"
            if comma:
                value = f"replace(replace(replace({value}, ' ', ''), '.', ''), ',', '.')"
            for sign in _SIGNS:
                value = f"replace({value}, '{sign}', '')"
            values.append(name if type_ == "TEXT" else f"CAST({value} AS {type_})")
        self._db.execute(f"ALTER TABLE {table} RENAME TO {table}_text")
        self._db.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
        self._db.execute(f"INSERT INTO {table} SELECT {', '.join(values)} FROM {table}_text")
        self._db.execute(f"DROP TABLE {table}_text")

    def _convert_dates(self, names: Sequence[str]) -> None:
        """Dates of these columns in the one form that sorts and that SQLite's functions read, in one pass."""
        self._db.create_function("written_date", 1, lambda cell: cell and date_in(cell), deterministic=True)
        self._db.execute(f"UPDATE t{self._number} SET {', '.join(f'{name} = written_date({name})' for name in names)}")
