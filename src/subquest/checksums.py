"""Checksums of what SQLite stores: SQLite checks the structure of its file, but not what is written in it.

A store keeps, in its table `sums`, the number of rows of each watched table and the sum of their checksums; for a file
beside it, size and checksum. Triggers of the connection that writes keep the sums of tables up to date, in the
transaction that changes the rows, so a rollback takes them back as well.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any, NamedTuple

SUMS = "CREATE TABLE sums (name TEXT PRIMARY KEY, size INTEGER NOT NULL, total INTEGER NOT NULL) WITHOUT ROWID"


class Sum(NamedTuple):
    """What a table or a file holds."""

    size: int
    """Rows of a table, bytes of a file."""
    total: int
    """The sum of the rows' checksums; the checksum of the file."""


def row_check(*values: Any) -> int:
    """The checksum of a row: crc32 of its values and their types. A row of one integer is its own checksum."""
    if len(values) == 1 and type(values[0]) is int:
        return values[0]
    if bytes in map(type, values):  # large ones would take long to print
        values = tuple((len(value), zlib.crc32(value)) if type(value) is bytes else value for value in values)
    return zlib.crc32(repr(values).encode())


def sum_of(rows: Iterable[Sequence[Any]]) -> Sum:
    checks = list(starmap(row_check, rows))
    return Sum(len(checks), sum(checks))


def record_sums(db: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Record the tables as they are now."""
    for table in tables:
        db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?)", (table, *_present_sum(db, table)))


def recorded_sums(db: sqlite3.Connection) -> dict[str, Sum]:
    return {name: Sum(size, total) for name, size, total in db.execute("SELECT name, size, total FROM sums")}


def watch(db: sqlite3.Connection, tables: Iterable[str]) -> None:
    """From now on, changes of the tables through this connection change their sums too."""
    db.create_function("row_check", -1, row_check, deterministic=True)
    db.execute("PRAGMA recursive_triggers = ON")  # a row that is replaced counts as deleted
    for table in tables:
        columns = _columns(db, table)
        new, old = (f"row_check({', '.join(f'{row}.{column}' for column in columns)})" for row in ("NEW", "OLD"))
        for event, rows, total in (
            ("INSERT", "+ 1", f"+ {new}"),
            ("DELETE", "- 1", f"- {old}"),
            ("UPDATE", "", f"+ {new} - {old}"),
        ):
            db.execute(
                f"CREATE TEMP TRIGGER IF NOT EXISTS sum_{table}_{event} AFTER {event} ON main.{table} BEGIN "
                f"UPDATE sums SET size = size {rows}, total = total {total} WHERE name = '{table}'; END"
            )


def changed_tables(db: sqlite3.Connection, tables: Iterable[str]) -> Iterator[str]:
    """Those of the tables that are not what was written."""
    recorded = recorded_sums(db)
    return (table for table in tables if recorded.get(table) != _present_sum(db, table))


def changed_schema(db: sqlite3.Connection, schema: str, optional: str = "") -> Iterator[str]:
    """The tables and indexes whose definition is not that of the schema, with those that are missing or too many.

    Tables of the schema `optional` are there all together, or not at all.
    """
    wanted, more = _definitions(schema), _definitions(optional)
    select = "SELECT name, sql FROM main.sqlite_master WHERE sql IS NOT NULL"
    found: dict[Any, Any] = dict(db.execute(select).fetchall())
    if found.keys() & more.keys():
        wanted |= more
    return (str(name) for name in sorted(wanted.keys() | found.keys(), key=str) if wanted.get(name) != found.get(name))


def _definitions(schema: str) -> dict[str, str]:
    db = sqlite3.connect(":memory:")
    try:
        db.executescript(schema)
        return dict(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall())
    finally:
        db.close()


def _columns(db: sqlite3.Connection, table: str) -> list[str]:
    return [f'"{row[1]}"' for row in db.execute(f"PRAGMA main.table_info({table})")]


def _present_sum(db: sqlite3.Connection, table: str) -> Sum:
    return sum_of(db.execute(f"SELECT {', '.join(_columns(db, table))} FROM main.{table}"))


_LOG_HEADER = struct.Struct(">8I")
"""magic, format, page size, checkpoints, two salts, two checksums."""
_FRAME_HEADER = struct.Struct(">6I")
"""page, pages of the file after a commit (0: no commit), two salts, two checksums."""


def log_problem(store: Path) -> str:
    """What is wrong with SQLite's write-ahead log beside a file; empty where nothing is. To be read before SQLite opens
    the file, which drops what it cannot read.

    Frames are written in order, so a killed writer leaves at most some without a commit after the last readable one,
    or a part of a frame. A commit after an unreadable frame, or a whole frame that is unreadable at the end of the
    file, was changed afterwards.
    """
    log = Path(f"{store}-wal")
    if not log.exists() or not (size := log.stat().st_size):
        return ""
    with open(log, "rb") as file:
        head = file.read(_LOG_HEADER.size)
        if len(head) < _LOG_HEADER.size:
            return f"{log.name}: cut short"
        magic, _, page_size, _, *salts, first, second = _LOG_HEADER.unpack(head)
        order = ">" if magic & 1 else "<"
        state = _log_checksum((0, 0), head[:24], order)
        if magic | 1 != 0x377F0683 or page_size not in [1 << n for n in range(9, 17)] or state != (first, second):
            return f"{log.name}: its header was changed; what was written last may be lost"
        readable, step = True, _FRAME_HEADER.size + page_size
        for place in range(_LOG_HEADER.size, size - step + 1, step):
            frame, page = file.read(_FRAME_HEADER.size), file.read(page_size)
            _, commit, *own_salts, first, second = _FRAME_HEADER.unpack(frame)
            current = any(map(int.__eq__, salts, own_salts))  # else left over from before the log was begun again
            if readable:
                state = _log_checksum(_log_checksum(state, frame[:8], order), page, order)
                readable = own_salts == salts and state == (first, second)
            if not readable and current and (commit or place + step == size):
                return f"{log.name}: changed at byte {place:,} or before; what was written last is lost"
    return ""


def _log_checksum(state: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    """The checksum of SQLite's log, over 32-bit words."""
    first, second = state
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for one, two in zip(words, words, strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second


def size_problem(db: sqlite3.Connection, path: Path) -> str:
    """Whether bytes were appended to the file of a store, or cut off; empty where not, or where a log is in use."""
    log = Path(f"{path}-wal")
    if log.exists() and log.stat().st_size:
        return ""
    pages, page_size = (db.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_count", "page_size"))
    size = os.stat(path).st_size
    return "" if size == pages * page_size else f"it has {size:,} bytes instead of {pages * page_size:,}"
