"""The cache file: results by the digest of what they depend on."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..errors import DataError, UsageError

APPLICATION = 0x53716361
"""Marks the file as a cache (SQLite's application_id), so that no other database is ever written to."""
SCHEMA = 1
KEEP = 0.9
"""Share of `max_bytes` that an eviction leaves."""
TOUCH = 60.0
"""Seconds within which a second use of an entry is not recorded."""

_BROKEN = (sqlite3.DatabaseError, zlib.error, ValueError, TypeError)
"""What a damaged, full or locked file can raise while an entry is read or written."""
log = logging.getLogger("subquest.cache")

_TABLES = """
CREATE TABLE entries (key BLOB PRIMARY KEY, kind TEXT, value BLOB, made REAL, used REAL, size INTEGER) WITHOUT ROWID;
CREATE INDEX by_use ON entries (used);
CREATE TABLE total (bytes INTEGER, entries INTEGER);
INSERT INTO total VALUES (0, 0);
CREATE TRIGGER added AFTER INSERT ON entries BEGIN
    UPDATE total SET bytes = bytes + new.size, entries = entries + 1;
END;
CREATE TRIGGER removed AFTER DELETE ON entries BEGIN
    UPDATE total SET bytes = bytes - old.size, entries = entries - 1;
END;
"""


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What a cache holds, and this process's hits and misses."""

    entries: int
    bytes: int
    hits: int
    misses: int


class Cache:
    """Results of calls, by kind and key, in one file."""

    def __init__(self, path: str | os.PathLike[str], *, max_bytes: int = 1 << 30) -> None:
        if max_bytes < 1:
            raise UsageError(f"a cache of {max_bytes} bytes: use at least 1")
        self.path = Path(path)
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._owner = 0
        self._hits = self._misses = 0
        self._complained = False
        with self._lock:
            self._open()

    def get(self, kind: str, key: Any, *, max_age: float | None = None) -> Any | None:
        """The stored result, or None. Entries older than `max_age` seconds count as missing."""
        name, now = digest(kind, key), time.time()
        row = found = None
        try:
            with self._lock:
                db = self._open()
                row = db.execute("SELECT value, made, used FROM entries WHERE key = ?", (name,)).fetchone()
                if row is not None and max_age is not None and row[1] < now - max_age:
                    row = None
                if row is not None and row[2] < now - TOUCH:
                    with db:
                        db.execute("UPDATE entries SET used = ? WHERE key = ?", (now, name))
        except _BROKEN as error:
            self._complain(error)
        try:
            found = None if row is None else json.loads(zlib.decompress(row[0]))
        except _BROKEN as error:
            self._complain(error)
        with self._lock:
            self._hits += found is not None
            self._misses += found is None
        return found

    def put(self, kind: str, key: Any, value: Any) -> None:
        """Store a result (JSON values). One that is too large for the whole cache is not stored."""
        name, now = digest(kind, key), time.time()
        packed = zlib.compress(
            json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"), 3
        )
        size = len(packed) + len(name) + len(kind) + 64
        if size > self.max_bytes:
            return
        with self._lock:
            try:
                db = self._open()
                with db:
                    db.execute("BEGIN IMMEDIATE")
                    db.execute("DELETE FROM entries WHERE key = ?", (name,))
                    db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (name, kind, packed, now, now, size))
                    evicted = self._evict(db)
                if evicted:
                    db.execute("PRAGMA incremental_vacuum")
            except _BROKEN as error:
                self._complain(error)

    async def call(
        self, kind: str, key: Any, make: Callable[[], Awaitable[Any]], *, max_age: float | None = None
    ) -> Any:
        """The stored result of `make`, or its new result, which is stored; exceptions are raised and not stored."""
        found = await asyncio.to_thread(self.get, kind, key, max_age=max_age)
        if found is None:
            found = await make()
            await asyncio.to_thread(self.put, kind, key, found)
        return found

    def stats(self) -> CacheStats:
        with self._lock:
            held, entries = self._open().execute("SELECT bytes, entries FROM total").fetchone()
        return CacheStats(entries, held, self._hits, self._misses)

    def clear(self, kind: str | None = None) -> None:
        """Delete everything, or everything of one kind."""
        with self._lock:
            db = self._open()
            with db:
                db.execute("DELETE FROM entries WHERE ?1 IS NULL OR kind = ?1", (kind,))
            db.execute("PRAGMA incremental_vacuum")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None and self._owner == os.getpid():
                self._connection.close()
            self._connection = None

    def _complain(self, error: Exception) -> None:
        """Warn once: a full disk or a damaged cache must not stop the work that it only speeds up."""
        if not self._complained:
            self._complained = True
            log.warning("the cache %s cannot be used (%s); continuing without it", self.path, error)

    def _evict(self, db: sqlite3.Connection) -> bool:
        held: int = db.execute("SELECT bytes FROM total").fetchone()[0]
        if held <= self.max_bytes:
            return False
        victims = []
        for key, size in db.execute("SELECT key, size FROM entries ORDER BY used"):
            if held <= KEEP * self.max_bytes:
                break
            victims.append((key,))
            held -= size
        db.executemany("DELETE FROM entries WHERE key = ?", victims)
        return True

    def _open(self) -> sqlite3.Connection:
        """The connection of this process: a forked process must not use its parent's."""
        if self._connection is None or self._owner != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._connect()
            except (OSError, sqlite3.OperationalError, ValueError) as error:  # ValueError: a name with a NUL byte
                raise UsageError(f"cannot open the cache {str(self.path)!r}: {error}") from None
            except sqlite3.DatabaseError as error:  # not SQLite at all, or damaged
                raise DataError(f"{self.path} is not a cache ({error}); delete it or name another file") from None
            self._owner = os.getpid()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=60.0, check_same_thread=False, isolation_level=None)
        try:
            if not self._is_made(db):
                db.execute("PRAGMA auto_vacuum = INCREMENTAL")
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("BEGIN IMMEDIATE")
                if not self._is_made(db):
                    for statement in _statements(_TABLES):
                        db.execute(statement)
                    db.execute(f"PRAGMA application_id = {APPLICATION}")
                    db.execute(f"PRAGMA user_version = {SCHEMA}")
                db.execute("COMMIT")
            db.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            db.close()
            raise
        return db

    def _is_made(self, db: sqlite3.Connection) -> bool:
        """Whether the file holds a cache already; raises DataError if it holds anything else."""
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            return False
        application = db.execute("PRAGMA application_id").fetchone()[0]
        if application != APPLICATION:
            raise DataError(f"{self.path} is another kind of database; name another file")
        if db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA:
            raise DataError(f"{self.path} is a cache of another version of Subquest; delete it or name another file")
        return True


@runtime_checkable
class Identified(Protocol):
    """An engine or a search that declares what its results depend on."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything but the call itself that decides a result, as JSON values: address, model, version, …"""
        ...


def digest(kind: str, key: Any) -> bytes:
    """SHA-256 of the canonical JSON of a call."""
    text = json.dumps([kind, key], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _statements(script: str) -> list[str]:
    """The statements of a script one by one, so that they run inside one transaction."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
