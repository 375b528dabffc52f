"""An optional on-disk cache of model, search and page calls.

One SQLite file in WAL mode, safe for many threads and processes. A call's key is the SHA-256 of the canonical JSON of
everything that decides its result; failures never get here, because only results are stored. The file keeps below
`max_bytes`: what was not used for longest goes first.

    cache = Cache("cache.sqlite")
    engine = CachedEngine(engine, cache)
    search = CachedSearch(search, cache)
    page = await cache.call("page", {"url": url}, fetch, max_age=86_400)
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import threading
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from .codec import from_dict, to_dict
from .engine.base import Engine, Generation, Message, Mode, RoleAware, Sampling, Session
from .errors import DataError, UsageError
from .record import Hit, Segment
from .retrieval.base import Search

APPLICATION = 0x53716361
"""Marks the file as ours (SQLite's application_id), so that no other database is ever written to."""
SCHEMA = 1
KEEP = 0.9
"""Share of `max_bytes` that an eviction leaves."""
TOUCH = 60.0
"""Seconds within which a second use of an entry is not written down again."""

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
    """What a cache holds, and how this process fared with it."""

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
        with self._lock:
            self._open()

    def get(self, kind: str, key: Any, *, max_age: float | None = None) -> Any | None:
        """The stored result, or None. `max_age` in seconds: what is older counts as missing."""
        digest, now = _digest(kind, key), time.time()
        with self._lock:
            db = self._open()
            row = db.execute("SELECT value, made, used FROM entries WHERE key = ?", (digest,)).fetchone()
            if row is None or (max_age is not None and row[1] < now - max_age):
                self._misses += 1
                return None
            self._hits += 1
            if row[2] < now - TOUCH:
                with db:
                    db.execute("UPDATE entries SET used = ? WHERE key = ?", (now, digest))
        return json.loads(zlib.decompress(row[0]))

    def put(self, kind: str, key: Any, value: Any) -> None:
        """Store a result (JSON values). One too large for the whole cache is left out."""
        digest, now = _digest(kind, key), time.time()
        packed = zlib.compress(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), 3)
        size = len(packed) + len(digest) + len(kind) + 64
        if size > self.max_bytes:
            return
        with self._lock:
            db = self._open()
            with db:
                db.execute("BEGIN IMMEDIATE")
                db.execute("DELETE FROM entries WHERE key = ?", (digest,))
                db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)", (digest, kind, packed, now, now, size))
                evicted = self._evict(db)
            if evicted:
                db.execute("PRAGMA incremental_vacuum")

    async def call(
        self, kind: str, key: Any, make: Callable[[], Awaitable[Any]], *, max_age: float | None = None
    ) -> Any:
        """The stored result of `make`, or its result, stored; what it raises is passed on and forgotten."""
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
        """Forget everything, or everything of one kind."""
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
        """The connection of this process: a fork must not use its parent's."""
        if self._connection is None or self._owner != os.getpid():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self._connection = self._connect()
            except (OSError, sqlite3.OperationalError) as error:
                raise UsageError(f"cannot open the cache {self.path}: {error}") from None
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
    """An engine or a search that says what its results depend on."""

    @property
    def identity(self) -> Mapping[str, Any]:
        """Everything but the call itself that decides a result, as JSON values: address, model, version, …"""
        ...


@runtime_checkable
class Resumable(Session, Protocol):
    """A session that can go on from a turn recorded earlier."""

    def resume(self, turn: Generation, segments: Sequence[Segment]) -> None:
        """Go on as if the model had just written `turn`; `segments` is the context up to and with it."""
        ...


class CachedEngine:
    """An engine that asks its model only what it has not been asked before.

    A turn's key is the engine's identity, the whole context and how the turn is sampled. Turns sampled at random
    (temperature above 0, no seed) are not cached unless `sampled` says so: repeating them is their point. Engines
    that do not say what decides their answers (`Identified`), and sessions that cannot take over a recorded turn
    (`Resumable`), run uncached.
    """

    def __init__(self, engine: Engine, cache: Cache, *, sampled: bool = False) -> None:
        self.engine = engine
        self.cache = cache
        self.sampled = sampled

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def context_window(self) -> int | None:
        return self.engine.context_window

    def for_role(self, role: str) -> CachedEngine:
        if not isinstance(self.engine, RoleAware):
            return self
        return CachedEngine(self.engine.for_role(role), self.cache, sampled=self.sampled)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> Session:
        session = await self.engine.open(messages, mode=mode)
        if not isinstance(session, Resumable) or not isinstance(self.engine, Identified):
            return session
        opening = _chained("", "open", mode, [[m.role, m.content] for m in messages])
        return CachedSession(self, self.engine, session, opening)

    def count_tokens(self, text: str) -> int:
        return self.engine.count_tokens(text)

    async def close(self) -> None:
        await self.engine.close()


class CachedSession:
    """A context whose turns come from the cache where they can; its segments are those of the turns recorded."""

    def __init__(self, engine: CachedEngine, identified: Identified, inner: Resumable, context: str) -> None:
        self._engine = engine
        self._identified = identified
        self._inner = inner
        self._context = context
        """Digest of everything said so far."""
        self._settled = 0
        """Segments up to the end of the last turn."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self._inner.segments

    @property
    def context_tokens(self) -> int:
        return self._inner.context_tokens

    @property
    def on_retry(self) -> Any:
        return getattr(self._inner, "on_retry", None)

    @on_retry.setter
    def on_retry(self, hook: Any) -> None:
        if hasattr(self._inner, "on_retry"):
            self._inner.on_retry = hook

    async def generate(self, sampling: Sampling) -> Generation:
        if sampling.temperature > 0 and sampling.seed is None and not self._engine.sampled:
            turn = await self._inner.generate(sampling)
        else:
            turn = await self._cached(sampling)
        self._context = _chained(self._context, "turn", turn.text, turn.finish, list(turn.token_ids))
        self._settled = len(self._inner.segments)
        return turn

    async def append(self, text: str) -> None:
        await self._inner.append(text)
        self._context = _chained(self._context, "env", text)

    def fork(self) -> CachedSession:
        twin = self._inner.fork()
        assert isinstance(twin, Resumable)
        copy = CachedSession(self._engine, self._identified, twin, self._context)
        copy._settled = self._settled
        return copy

    async def close(self) -> None:
        await self._inner.close()

    async def _cached(self, sampling: Sampling) -> Generation:
        cache, start = self._engine.cache, time.perf_counter()
        if sampling.temperature == 0:
            sampling = replace(sampling, seed=None, top_p=1.0, top_k=0, min_p=0.0)
        key = {"engine": dict(self._identified.identity), "context": self._context, "sampling": asdict(sampling)}
        before = self._inner.segments[: self._settled]
        found = await asyncio.to_thread(cache.get, "model", key)
        if found is not None:
            turn = from_dict(Generation, found["turn"])
            fresh = tuple(from_dict(Segment, s) for s in found["segments"])
            self._inner.resume(turn, before[: found["after"]] + fresh)
            usage = replace(
                turn.usage,
                cached_tokens=turn.usage.prompt_tokens,
                seconds=time.perf_counter() - start,
                cost=0.0,
                cache_hits=1,
            )
            return replace(turn, usage=usage, cached=True)
        turn = await self._inner.generate(sampling)
        after = self._settled if self._inner.segments[: self._settled] == before else 0
        value = {
            "turn": to_dict(turn),
            "after": after,
            "segments": [to_dict(s) for s in self._inner.segments[after:]],
        }
        await asyncio.to_thread(cache.put, "model", key, value)
        return turn


class CachedHits(list[Hit]):
    """The hits of one query; `cached` says where they came from."""

    def __init__(self, hits: Sequence[Hit], cached: bool) -> None:
        super().__init__(hits)
        self.cached = cached


class CachedSearch:
    """A search that sends only queries it has not sent before; the rest of a batch goes out in one call.

    A search that does not say what decides its results (`Identified`) runs uncached: stale hits are worse than none.
    """

    def __init__(self, search: Search, cache: Cache, *, max_age: float | None = None) -> None:
        """`max_age` in seconds is for searches whose world changes, such as the web."""
        self.search = search
        self.cache = cache
        self.max_age = max_age

    @property
    def name(self) -> str:
        return self.search.name

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        if not isinstance(self.search, Identified):
            return await self.search.retrieve(queries, k)
        keys = [{"search": dict(self.search.identity), "query": query, "k": k} for query in queries]
        stored = await asyncio.to_thread(lambda: [self.cache.get("search", key, max_age=self.max_age) for key in keys])
        missing = [i for i, found in enumerate(stored) if found is None]
        results: list[list[Hit]] = [
            CachedHits([from_dict(Hit, h) for h in found or ()], cached=True) for found in stored
        ]
        if missing:
            fresh = await self.search.retrieve([queries[i] for i in missing], k)
            for i, hits in zip(missing, fresh, strict=True):
                results[i] = CachedHits(hits, cached=False)
                await asyncio.to_thread(self.cache.put, "search", keys[i], [to_dict(h) for h in hits])
        return results


def _digest(kind: str, key: Any) -> bytes:
    text = json.dumps([kind, key], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _chained(before: str, *parts: Any) -> str:
    return _digest(before, parts).hex()


def _statements(script: str) -> list[str]:
    """The statements of a script one by one, so that they run inside one transaction."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
