"""The whole tables of an index, for questions over all rows: filter, count, add up, compare, group.

Passages hold rows in groups, and a search finds a few of them. So the ingestion also keeps every table of its files
(CSV files, sheets, tables in pages and documents) in `tables.db` beside the store, one SQLite table for each. A table
counts as long as the ledger says that its file has the content from which it was read; others are dropped by the next
ingestion. Queries come from models: they can read these tables and nothing else, within limits of time and size.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from ..citation import cite
from ..errors import DataError
from ..record import Document
from .sql_names import identifier, quoted, unique
from .sql_values import missing_values

FILE = "tables.db"
SECONDS = 10.0
"""Time limit of one query."""
SHOWN = 50
"""Rows of a result that are returned."""
COUNTED = 10_000
"""Rows of a result that are counted."""
_VALUE = 300
"""Characters of one value of a result."""
_LONGEST = 4000
"""Characters of a query."""
_LENGTH = 1 << 20
"""Bytes of one value that a query may build."""
_NAMES = 300
"""Characters of the names that one list in an error holds."""
_CLOSE = 3
"""Tables in an error whose columns are named."""
_APOSTROPHE = re.compile(r"""("[^"]*")|(?<=[^\W\d_])'(?=[^\W\d_])""")
"""A quoted name, to be left alone, or an apostrophe between two letters."""
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN = frozenset({"load_extension", "randomblob", "zeroblob", "readfile", "writefile", "edit", "fts3_tokenizer"})

_FOUND = 3.0
"""Shared words that the first result of a search counts for; the second counts for half of it, and so on."""
_WORD = re.compile(r"[^\W_]{3,}")

_PARTS = ("file", "member", "sheet", "page", "slide", "section")
"""What a table and the passages of its rows have in common."""
LISTED = "tables"
"""The table that lists the others."""


class Column(NamedTuple):
    name: str
    """As queries write it."""
    type: str
    """INTEGER, REAL, DATE (text such as `2024-05-17`) or TEXT."""
    label: str
    """As the file has it."""
    samples: tuple[str, ...]
    """Some of its values: dates as queries find them, others as the file has them."""


class Table(NamedTuple):
    """A table of a file."""

    name: str
    """As queries write it."""
    number: int
    place: Mapping[str, Any]
    """Where it is: file, member, sheet, section, line."""
    columns: tuple[Column, ...]
    rows: int

    @property
    def described(self) -> str:
        """One line for a model: name, place, columns with their types and values."""
        columns = ", ".join(
            f"{column.name} {column.type}"
            + (f" ({'; '.join(value[:40] for value in column.samples)})" if column.samples else "")
            for column in self.columns
        )
        return f"{self.name}: {self.rows:,} rows of {cite(self.place)}. Columns: {columns}"

    def rows_in(self, passage: Document) -> set[tuple[Any, ...]]:
        """The lines of a passage that are rows of this table: at its place, beginning with one of its columns, perhaps
        after cells of columns without a name. A row that is alone may be cut: its parts, which have its number or else
        its first cell in common, are the same."""
        if any(passage.meta.get(part) != self.place.get(part) for part in _PARTS):
            return set()
        begins = tuple(f"{column.label}: " for column in self.columns if column.label)
        unnamed = sum(not column.label for column in self.columns[1:])
        cells = [line.split("; ", unnamed) for line in passage.text.split("\n")]
        lines = [row for row in cells if any(cell.startswith(begins) for cell in row)]
        if len(lines) == 1:
            return {(passage.meta.get("row", passage.meta.get("line", lines[0][0].partition("; ")[0])),)}
        return {(passage.id, at) for at in range(len(lines))}


class Result(NamedTuple):
    """What a query gave."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    """The first of them, as text."""
    total: int
    """Of all rows; at most COUNTED."""
    tables: tuple[Table, ...]
    """Those that the query names."""
    sql: str
    """The query that ran."""
    missing: str = ""
    """Why no row matches, or none was counted or added up, as far as that is known."""

    @property
    def text(self) -> str:
        """The rows, each value with the name of its column."""
        lines = ["; ".join(f"{c}: {v}" for c, v in zip(self.columns, row, strict=True)) for row in self.rows]
        if not lines:
            return "No row matches."
        if self.total > len(lines):
            more = "at least " if self.total == COUNTED else ""
            lines.append(f"… {len(lines)} of {more}{self.total:,} rows are shown …")
        return "\n".join(lines)


class Tables:
    """The tables of an index, as they are now."""

    def __init__(
        self, folder: Path, store: Callable[[], sqlite3.Connection], files_about: Callable[[str], list[str]]
    ) -> None:
        """`store` gives a connection to the store of the index; `files_about` searches it."""
        self._path = folder / FILE
        self._store = store
        self._files_about = files_about
        self._known: list[Table] | None = None

    def unchanging(self) -> Tables:
        """The same tables, listed once: for an index that nobody changes meanwhile."""
        same = Tables(self._path.parent, self._store, self._files_about)
        same._known = self.all()
        return same

    def __bool__(self) -> bool:
        return bool(self.all())

    def all(self) -> list[Table]:
        """Every table, in the order in which they were read."""
        if self._known is not None:
            return self._known
        if not self._path.exists():
            return []
        current = set(self._store().execute("SELECT name, hash FROM files WHERE hash IS NOT NULL"))
        with self._connected() as db:
            rows = db.execute("SELECT number, file, hash, place, columns, rows FROM catalogue ORDER BY 1").fetchall()
        found: list[Table] = []
        names: set[str] = {LISTED}
        for number, file, hash_, place, columns, count in rows:
            if (file, hash_) in current:
                meta = json.loads(place)
                name = unique(_plain_name(meta), names)
                made = tuple(Column(n, t, label, tuple(samples)) for n, t, label, samples in json.loads(columns))
                found.append(Table(name, number, meta, made, count))
        return found

    def about(self, question: str) -> list[Table]:
        """Every table, those first that a question seems to be about: a search for it finds their rows, or it shares
        words with their names, columns and sample values."""
        tables = self.all()
        found = self._files_about(question) if len(tables) > 1 and question.strip() else []
        asked = _beginnings(question)

        def fit(table: Table) -> float:
            file = str(table.place["file"])
            return len(asked & _beginnings(table.described)) + (
                _FOUND / (1 + found.index(file)) if file in found else 0
            )

        return sorted(tables, key=fit, reverse=True)

    def behind(self, documents: Sequence[Document]) -> list[Table]:
        """The tables of which some rows stand in these passages, but not all, in the order of the passages."""
        shown: defaultdict[int, set[tuple[Any, ...]]] = defaultdict(set)
        tables = {table.number: table for table in self.all()}
        for document in documents:
            for table in tables.values():
                if rows := table.rows_in(document):
                    shown[table.number] |= rows
        return [tables[number] for number, rows in shown.items() if len(rows) < tables[number].rows]

    def query(self, sql: str) -> Result:
        """Run one SELECT. Raises DataError with the reason where that is impossible."""
        tables = self.all()
        if not tables:
            return compute(sql)
        sql = _one_query(sql)
        lowered = sql.casefold()
        named = tuple(table for table in tables if re.search(rf"\b{re.escape(table.name)}\b", lowered))
        with self._connected() as db:
            for table in named:
                db.execute(f"CREATE TEMP VIEW {quoted(table.name)} AS SELECT * FROM t{table.number}")
            if re.search(rf"\b{LISTED}\b", lowered):
                _list(db, tables)
            return _result(db, sql, named, tables)

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        place = f"{self._path.absolute().as_uri()}?mode=ro"
        with contextlib.ExitStack() as opened:

            def connect(place: str) -> sqlite3.Connection:
                db = sqlite3.connect(place, uri=True, timeout=10.0, isolation_level=None, check_same_thread=False)
                opened.callback(db.close)
                db.execute("SELECT 1 FROM catalogue LIMIT 1")
                return db

            try:
                try:
                    db = connect(place)
                except sqlite3.OperationalError:  # a disk on which SQLite cannot write its own files
                    db = connect(f"{place}&immutable=1")
            except sqlite3.DatabaseError as error:
                raise DataError(f"{self._path} cannot be read ({error}); rebuild the index from its source") from None
            yield db


def compute(sql: str) -> Result:
    """Run one SELECT over no tables: arithmetic and dates. Raises DataError as `Tables.query` does."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        return _result(db, _one_query(sql), (), ())


def _one_query(sql: str) -> str:
    sql = re.sub(r"^\s*```\w*|```\s*$", "", sql).strip().rstrip(";").strip()
    if not sql:
        raise DataError("the query is empty")
    if len(sql) > _LONGEST:
        raise DataError(f"the query has {len(sql):,} characters; at most {_LONGEST:,} are allowed")
    if not re.match(r"(?:select|with|values)\b", sql, re.IGNORECASE):
        raise DataError("only SELECT is allowed")
    return sql


def _result(db: sqlite3.Connection, sql: str, named: tuple[Table, ...], tables: Sequence[Table]) -> Result:
    """What a query gives within the limits; `tables` are all that there are."""
    _confine(db)
    try:
        try:
            return _run(db, sql, named)
        except sqlite3.OperationalError as error:
            doubled = _APOSTROPHE.sub(lambda found: found[1] or "''", sql)
            if doubled == sql or not re.search("syntax error|unrecognized token", str(error)):
                raise
            with contextlib.suppress(sqlite3.Error, sqlite3.Warning):  # models forget to double them
                return _run(db, doubled, named)
            raise
    except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
        raise DataError(_reason(error, named, tables)) from None


def _run(db: sqlite3.Connection, sql: str, named: tuple[Table, ...]) -> Result:
    cursor = db.execute(sql)
    columns = tuple(str(column[0]) for column in cursor.description)
    rows = cursor.fetchmany(SHOWN)
    count = len(rows)
    while count < COUNTED and (more := cursor.fetchmany(min(1000, COUNTED - count))):
        count += len(more)
    shown = tuple(tuple("" if value is None else str(value)[:_VALUE] for value in row) for row in rows)
    missing = ""
    if len(named) == 1 and (not shown or (len(shown) == 1 and set(shown[0]) <= {"", "0"})):  # a sum of nothing is null
        with contextlib.suppress(sqlite3.Error):
            missing = missing_values(db, sql, named[0].name, [column.name for column in named[0].columns])
    return Result(columns, shown, count, named, sql, missing)


def _beginnings(text: str) -> set[str]:
    """Words by their first letters: *employees* and *employee* count as one."""
    return {word[:5] for word in _WORD.findall(text.casefold())}


def _plain_name(place: Mapping[str, Any]) -> str:
    """The name of a table: its file, and its sheet or the last heading above it."""
    stem = PurePosixPath(str(place.get("member", place["file"]))).name.split(".")[0]
    inner = place.get("sheet") or str(place.get("section", "")).rpartition(" > ")[2]
    repeated = not inner or identifier(inner, "") == identifier(stem, "")
    return identifier(stem if repeated else f"{stem} {inner}", "table_1")


def _list(db: sqlite3.Connection, tables: Sequence[Table]) -> None:
    db.execute(f"CREATE TEMP TABLE {LISTED} (name TEXT, source TEXT, rows INTEGER, columns TEXT)")
    db.executemany(
        f"INSERT INTO {LISTED} VALUES (?, ?, ?, ?)",
        [(table.name, cite(table.place), table.rows, ", ".join(c.name for c in table.columns)) for table in tables],
    )


def _confine(db: sqlite3.Connection) -> None:
    """From here on the connection only reads tables, within the limits."""
    deadline = time.monotonic() + SECONDS

    def allowed(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION:
            return sqlite3.SQLITE_DENY if second in _FORBIDDEN else sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and (first or "").startswith(("sqlite_", "catalogue")):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY

    db.execute("PRAGMA query_only = ON")
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH)
    db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    db.set_authorizer(allowed)
    db.set_progress_handler(lambda: time.monotonic() > deadline, 10_000)


def _reason(error: Exception, named: Sequence[Table], tables: Sequence[Table]) -> str:
    message = str(error)
    if message == "interrupted":
        return f"the query takes longer than {SECONDS:g} seconds"
    if "no such table: " in message:
        return f"{message}; {_hint(message.partition('no such table: ')[2], tables)}"
    if "no such column: " in message and named:
        column = message.partition("no such column: ")[2].rpartition(".")[2]
        return f"{message}; the columns are: {_columns(named[:_CLOSE], column, '; ')}"
    if "not authorized" in message or "prohibited" in message:
        return f"only SELECT over the tables is allowed ({message})"
    if "one statement" in message:
        return "one query at a time"
    return message


def _hint(wanted: str, tables: Sequence[Table]) -> str:
    """What to write instead of a table that does not exist."""
    if not tables:
        return "the index has no tables"
    by_name = {table.name: table for table in tables}
    close = _close([identifier(wanted, ""), identifier(PurePosixPath(wanted).stem, "")], by_name)
    others = _listed([name for name in by_name if name not in close])
    if not close:
        return f"the tables are: {others}"
    meant = f"did you mean {_columns([by_name[name] for name in close], '', ' or ')}?"
    return f"{meant} Other tables: {others}" if others else meant


def _columns(tables: Sequence[Table], wanted: str, between: str) -> str:
    """The names of tables with those of their columns, the columns first that are close to the wanted one."""
    shown = []
    for table in tables:
        names = [column.name for column in table.columns]
        close = _close([identifier(wanted, "")], names)
        names = [*close, *(name for name in names if name not in close)]
        shown.append(f"{table.name} ({_listed(names, _NAMES // len(tables))})")
    return between.join(shown)


def _close(wanted: Sequence[str], names: Collection[str]) -> list[str]:
    """The few names that are most similar to one of the wanted, those that are the same first."""
    same = [text for text in wanted if text in names]
    similar = [name for text in wanted for name in get_close_matches(text, names, _CLOSE)]
    return list(dict.fromkeys([*same, *similar]))[:_CLOSE]


def _listed(names: Sequence[str], characters: int = _NAMES) -> str:
    """As many names as there is room for, and how many there are beyond."""
    lengths = itertools.accumulate(len(name) + 2 for name in names)
    shown = max(1, sum(length <= characters for length in lengths))
    more = f" and {len(names) - shown:,} more" if shown < len(names) else ""
    return ", ".join(names[:shown]) + more
