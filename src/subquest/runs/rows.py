"""Records to rows, and batches of records to transactions."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..codec import utf8
from ..errors import DataError, OutsideError
from . import pack
from .file import connect

Record = Mapping[str, Any]
"""A record as `codec.to_dict` returns it."""

_OWN_TABLES = ("question", "trajectories", "errors", "events")
"""The parts of an episode that have tables of their own."""

_exact = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode
_MAX_KNOWN = 40_000
"""Hashes kept in memory; beyond that they are looked up in the file."""
_BLOCK = 32_768
"""Bytes of pieces that are compressed together: as far as zlib looks back."""


class EpisodeExists(DataError):
    """The run already has an episode with that id, which stays as it is."""


class Pieces:
    """Numbers pieces of content; the same bytes always get the same number.

    New pieces are written as one block, in the transaction in which `begin` was called. A piece whose record is rolled
    back is written all the same: nothing refers to it, unless it occurs again.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._known: dict[bytes, int] = {}
        self.texts: pack.Known = {}
        self._new: list[bytes] = []
        self._hashes: list[tuple[bytes, int]] = []
        self._size = 0
        self._first = 0

    def begin(self) -> None:
        """Start a transaction: other processes may have added blocks since the last one."""
        row = self._connection.execute("SELECT first + count FROM block ORDER BY first DESC LIMIT 1").fetchone()
        self._first = row[0] if row else 1
        if len(self._known) > _MAX_KNOWN:
            self._known.clear()

    def intern(self, data: bytes, *, unique: bool = False) -> int:
        if unique:
            return self._add(data)
        key = hashlib.blake2b(data, digest_size=12).digest()
        number = self._known.get(key)
        if number is None:
            row = self._connection.execute("SELECT number FROM piece WHERE hash = ?", (key,)).fetchone()
            if row:
                number = int(row[0])
            else:
                number = self._add(data)
                self._hashes.append((key, number))
            self._known[key] = number
        return number

    def write_full_block(self) -> None:
        """Write the new pieces if they fill a block; to be called between two records."""
        if self._size > _BLOCK:
            self.write_block()

    def write_block(self) -> None:
        if self._new:
            block = (self._first, len(self._new), pack.dump_pieces(self._new))
            self._connection.execute("INSERT INTO block VALUES (?, ?, ?)", block)
            self._connection.executemany("INSERT INTO piece VALUES (?, ?)", self._hashes)
            self._first += len(self._new)
            self._clear()

    def forget(self) -> None:
        """Forget all numbers, some of which a transaction assigned that was rolled back."""
        self._known.clear()
        self.texts.clear()
        self._clear()

    def _add(self, data: bytes) -> int:
        self._new.append(data)
        self._size += len(data)
        return self._first + len(self._new) - 1

    def _clear(self) -> None:
        self._new.clear()
        self._hashes.clear()
        self._size = 0


class Rows:
    """Adds records through one connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute
        self._many = connection.executemany
        self.pieces = Pieces(connection)
        self._live: set[str] = set()
        """Ids of episodes whose events have been added live through this object."""

    def question(self, data: Record) -> int:
        """The number of the question, which is added if it is new."""
        exact = _exact(data).encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(exact, digest_size=16).digest()
        row = self._execute("SELECT number FROM question WHERE hash = ?", (key,)).fetchone()
        if row is None:
            columns = (key, *(column(data.get(name, "")) for name in ("id", "dataset", "split")), self._body(data))
            cursor = self._execute(
                "INSERT INTO question (hash, id, dataset, split, body) VALUES (?, ?, ?, ?, ?)", columns
            )
            return int(cursor.lastrowid or 0)
        return int(row[0])

    def questions(self, questions: Iterable[Record]) -> None:
        for question in questions:
            self.question(question)

    def episode(
        self, data: Record, attempt: int, added: float | None = None, scores: Mapping[str, float] | None = None
    ) -> None:
        """Add a finished episode, with its scores if it has any."""
        identifier = data["id"]
        if self._execute("SELECT 1 FROM episode WHERE id = ?", (column(identifier),)).fetchone():
            raise EpisodeExists(f"the run already has an episode {identifier!r}")
        body = {key: value for key, value in data.items() if key not in _OWN_TABLES}
        trajectories, errors, events = (data.get(name, []) for name in _OWN_TABLES[1:])
        last = self._last_event(identifier, restarted=bool(events) and identifier not in self._live)
        self._live.discard(identifier)
        new_events = [e for e in events if last is None or e["seq"] > last]
        cursor = self._execute(
            "INSERT INTO episode (id, question, attempt, system, model, answer, stop_reason, forced, added, "
            "trajectories, failures, events, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                column(identifier),
                self.question(data["question"]),
                attempt,
                *(column(data.get(name, "")) for name in ("system", "model", "answer", "stop_reason")),
                int(data.get("forced", False)),
                time.time() if added is None else added,
                len(trajectories),
                len(errors),
                len(new_events) + (0 if last is None else last + 1),
                self._body(body),
            ),
        )
        number = cursor.lastrowid
        self._many(
            "INSERT INTO trajectory (episode, id, role, body) VALUES (?, ?, ?, ?)",
            [(number, column(t["id"]), column(t["role"]), self._body(t)) for t in trajectories],
        )
        self._many(
            "INSERT INTO failure (episode, place, fatal, body) VALUES (?, ?, ?, ?)",
            [(number, column(e["where"]), int(e.get("fatal", False)), self._body(e)) for e in errors],
        )
        if new_events:
            self._add_events(identifier, new_events)
        if scores:
            self.scores(identifier, scores)

    def events(self, episode_id: str, events: Sequence[Record]) -> None:
        """Append to an episode's stream, which must have no gaps.

        The events of an episode that was interrupted and starts again under its id replace the earlier ones.
        """
        if self._execute("SELECT 1 FROM episode WHERE id = ?", (column(episode_id),)).fetchone():
            raise DataError(f"episode {episode_id!r} has ended; event {events[0]['seq']} is too late")
        last = self._last_event(episode_id, restarted=events[0]["seq"] == 0 and episode_id not in self._live)
        expected = 0 if last is None else last + 1
        if events[0]["seq"] != expected:
            raise DataError(f"episode {episode_id!r}: got event {events[0]['seq']}, expected {expected}")
        self._add_events(episode_id, events)
        self._live.add(episode_id)

    def scores(self, episode_id: str, scores: Mapping[str, float | None]) -> None:
        episode = column(episode_id)
        self._many(
            "INSERT OR REPLACE INTO score VALUES (?, ?, ?)",
            [(episode, name, number(value)) for name, value in scores.items() if value is not None],
        )
        self._many(
            "DELETE FROM score WHERE episode = ? AND metric = ?",
            [(episode, name) for name, value in scores.items() if value is None],
        )

    def metrics(self, step: int, metrics: Mapping[str, float]) -> None:
        self._many(
            "INSERT OR REPLACE INTO metric VALUES (?, ?, ?)",
            [(name, step, number(value)) for name, value in metrics.items()],
        )

    def _add_events(self, episode_id: str, events: Sequence[Record]) -> None:
        sequence = [e["seq"] for e in events]
        self._execute(
            "INSERT INTO event (episode, first, last, body) VALUES (?, ?, ?, ?)",
            (column(episode_id), sequence[0], max(sequence), self._body(list(events))),
        )

    def _last_event(self, episode_id: str, *, restarted: bool) -> int | None:
        """Number of the last event stored; the earlier events of an episode that restarted are deleted."""
        if restarted:
            self._execute("DELETE FROM event WHERE episode = ?", (column(episode_id),))
        row = self._execute("SELECT max(last) FROM event WHERE episode = ?", (column(episode_id),)).fetchone()
        return None if row[0] is None else int(row[0])

    def _body(self, value: Any) -> bytes:
        return pack.dump(value, self.pieces.intern, self.pieces.texts)


Write = Callable[[Rows], object]
"""Something to write, such as `operator.methodcaller("episode", ...)`, which can also be sent to another process."""


class Transactions:
    """Owns the connection that writes, and commits batches of writes; to be used by one thread at a time.

    A commit costs a disk flush however much it holds, so each batch is one transaction. A write that fails takes
    nothing else down with it: each has its own savepoint. Two processes may write one run: SQLite's lock puts their
    transactions one after the other.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path, write=True)
        self._rows = Rows(self._connection)
        self._outcomes: list[Exception | None] = []

    def send(self, writes: Sequence[Write]) -> None:
        self._outcomes = self.commit(writes)

    def receive(self) -> list[Exception | None]:
        """What `commit` returned for the batch that was sent."""
        return self._outcomes

    def commit(self, writes: Sequence[Write]) -> list[Exception | None]:
        """Write a batch; returns for each write what went wrong, or None if it is on disk."""
        failures: list[Exception | None] = []
        execute = self._connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            self._rows.pieces.begin()
            for write in writes:
                execute("SAVEPOINT one")
                try:
                    write(self._rows)
                except Exception as error:
                    if not self._connection.in_transaction:  # a full disk rolls the whole transaction back
                        raise
                    execute("ROLLBACK TO one")
                    failures.append(self._explain(error))
                else:
                    failures.append(None)
                execute("RELEASE one")
                self._rows.pieces.write_full_block()
            self._rows.pieces.write_block()
            execute("COMMIT")
        except Exception as error:
            if self._connection.in_transaction:
                execute("ROLLBACK")
            self._rows.pieces.forget()
            failures += [None] * (len(writes) - len(failures))
            return [failure or self._explain(error) for failure in failures]
        return failures

    def close(self) -> None:
        """Fold the log into the file and close it."""
        with contextlib.suppress(sqlite3.Error):  # a reader holds the log: the next writer folds it in
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _explain(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.Error | OSError):
            full = "; what was written before is safe: free some space and run again" if "full" in str(error) else ""
            return OutsideError(f"cannot write to the run {self._path}: {error}{full}")
        if isinstance(error, TypeError | ValueError):
            return DataError(f"a record for the run {self._path} contains a value that is not JSON: {error}")
        return error


def column(text: str) -> str:
    """Text that SQLite can hold; what it cannot (lone surrogates) is kept exactly in the row's body."""
    return utf8(text)


def number(value: float) -> float | str:
    """SQLite would store NaN as NULL."""
    return value if value == value else "nan"
