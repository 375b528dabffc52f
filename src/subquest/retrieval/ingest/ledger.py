"""The ledger: which files an index was made from, and which passages came from each.

    files     number, name, path, source, hash, how, passages, empty_pages, note, wrong
    origins   shared, first, file, last         numbers of the documents of a file, as ranges
    retired   number                            documents that the next publication removes
    displaced id, file                          ids for which another file's document replaced this file's

A file is done when its row has the hash of its content, which is written in the transaction that stores its last
passage; without a hash, `wrong` says why it was not read to its end. Passages of an earlier version are put into
`retired`, so that they disappear in the same moment in which the new ones appear, whatever is killed in between. A
document that several files contain, word for word, is `shared`: it is removed with the last of them. Where two files
give one id to different documents, the later one counts; when that is removed, the other file is read again.
"""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .. import store
from ..writer import Placed

Range = tuple[int, int]
"""First and last number, both included."""


class Known(NamedTuple):
    """What is recorded of a file that was read to its end."""

    hash: str
    how: str
    passages: int
    empty_pages: int
    note: str
    """What a user should know about it."""
    wrong: str
    """What could not be read."""

    @property
    def was_read(self) -> bool:
        """A scan without OCR, or an archive of which no member can be read, was not."""
        return self.passages > 0 or not self.wrong


@dataclass(slots=True)
class Account:
    """A file that is being read: the documents it had, and those it has so far."""

    name: str
    path: str
    source: str
    number: int = 0
    old: list[Range] = field(default_factory=list)
    kept: list[Range] = field(default_factory=list)
    own: list[Range] = field(default_factory=list)
    shared: list[Range] = field(default_factory=list)
    replaced: list[Range] = field(default_factory=list)
    """Documents of its earlier version that newer ones with the same id replace."""
    waiting: int = 0
    """Passages that were given to the writer and are not stored yet."""
    result: Known | None = None
    """Set when the file was read to its end."""
    failure: str = ""
    """Why it was not."""
    closed: bool = False


class Ledger:
    """The ledger of one index; everything it writes is part of the writer's transaction."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self.retired = 0
        self.doubles: list[str] = []
        """Ids that two files, or two lines, give to different documents; the later one counts."""
        self._began = 0
        store.add_ledger(db)

    def begin(self, next_number: int) -> None:
        """Start a run whose new documents are numbered from here."""
        self._began = next_number

    def name(self, path: str, wanted: str, taken: Iterable[str]) -> str:
        """The name of a file: as before, or as wanted, or, where another file has that name, with more of its path."""
        row = self._db.execute("SELECT name FROM files WHERE path = ?", (path,)).fetchone()
        if row is not None and row[0] not in taken:
            return str(row[0])
        parts = path.split("/")
        size = len(wanted.split("/"))
        candidates = [wanted, *("/".join(parts[-n:]) for n in range(size + 1, len(parts))), path]
        for name in candidates:
            row = self._db.execute("SELECT path FROM files WHERE name = ?", (name,)).fetchone()
            if name not in taken and (row is None or not os.path.exists(row[0])):
                return name
        return path

    def known(self, name: str) -> Known | None:
        row = self._db.execute(
            "SELECT hash, how, passages, empty_pages, note, wrong FROM files WHERE name = ? AND hash IS NOT NULL",
            (name,),
        ).fetchone()
        return None if row is None else Known(*row)

    def names(self, *, existing: bool) -> set[str]:
        """The names of all files, or of those that still exist."""
        rows = self._db.execute("SELECT name, path FROM files")
        return {name for name, path in rows if not existing or os.path.exists(path)}

    def contents(self) -> set[tuple[str, str]]:
        """Name and hash of all files that were read to their end."""
        return set(self._db.execute("SELECT name, hash FROM files WHERE hash IS NOT NULL"))

    def keep(self, name: str, path: str, source: str) -> None:
        """The file is unchanged; only its location may be new."""
        self._db.execute(
            "UPDATE files SET path = ?2, source = ?3 WHERE name = ?1 AND (path != ?2 OR source != ?3)",
            (name, path, source),
        )

    def open(self, account: Account) -> None:
        """A file is read again; until that is done, its passages are not confirmed."""
        self._db.execute(
            "INSERT INTO files (name, path, source) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE "
            "SET path = excluded.path, source = excluded.source, hash = NULL",
            (account.name, account.path, account.source),
        )
        (account.number,) = self._db.execute("SELECT number FROM files WHERE name = ?", (account.name,)).fetchone()
        account.old = self._ranges(account.number)

    def add(self, account: Account, placed: Sequence[Placed]) -> None:
        """Passages of the file were stored."""
        own: list[Range] = []
        shared: list[Range] = []
        self._unretire([number for _, number, before in placed if number == before])
        for identifier, number, before in placed:
            if _within(number, account.old):
                _extend(account.kept, [(number, number)])
            elif number != before:
                _extend(own, [(number, number)])
                earlier = before and _within(before, account.old)
                if earlier:
                    _extend(account.replaced, [(before, before)])
                if before:
                    self._displace(identifier, before, account.number)
                if before >= self._began and not earlier and len(self.doubles) < 1000:
                    self.doubles.append(identifier)
            elif not _within(number, account.own) and not _within(number, own):
                _extend(shared, [(number, number)])
        for found, ranges, flag in ((own, account.own, 0), (shared, account.shared, 1)):
            _extend(ranges, found)
            self._db.executemany(
                "INSERT OR IGNORE INTO origins (shared, first, last, file) VALUES (?, ?, ?, ?)",
                [(flag, *span, account.number) for span in found],
            )

    def close(self, account: Account) -> None:
        """The file's last passage is stored: it is done, and what only its earlier version had is retired."""
        if account.result is None:
            self._db.execute("UPDATE files SET wrong = ? WHERE number = ?", (account.failure, account.number))
            return
        kept = _merged(account.kept)
        before = self._flags(account.number)
        self._db.execute("DELETE FROM origins WHERE file = ?", (account.number,))
        rows = [(0, *span, account.number) for span in account.own]
        rows += [(1, *span, account.number) for span in _merged(account.shared)]
        for span in kept:
            rows += [(flag, *part, account.number) for part, flag in _divide(span, before)]
        self._db.executemany("INSERT OR REPLACE INTO origins (shared, first, last, file) VALUES (?, ?, ?, ?)", rows)
        gone = _without(account.old, _merged([*kept, *account.replaced]))
        self._db.execute("DELETE FROM displaced WHERE file = ?", (account.number,))
        self._retire(gone)
        self._db.execute(
            "UPDATE files SET hash = ?, how = ?, passages = ?, empty_pages = ?, note = ?, wrong = ? WHERE number = ?",
            (*account.result, account.number),
        )

    def gone(self, sources: Iterable[str], seen: Iterable[str], unseen: Sequence[str]) -> list[str]:
        """The files of these sources that were not seen, unless they could not be read."""
        seen, gone = set(seen), []
        for source in sources:
            rows = self._db.execute("SELECT name, path FROM files WHERE source = ?", (source,)).fetchall()
            for name, path in rows:
                if name in seen or any(path == place or path.startswith(f"{place}/") for place in unseen):
                    continue
                gone.append(name)
        return gone

    def remove(self, name: str) -> None:
        """Remove a file and the documents that only it has."""
        row = self._db.execute("SELECT number FROM files WHERE name = ?", (name,)).fetchone()
        if row is not None:
            old = self._ranges(row[0])
            for table, column in (("origins", "file"), ("displaced", "file"), ("files", "number")):
                self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", row)
            self._retire(old)

    def _unretire(self, numbers: Sequence[int]) -> None:
        """Keep documents that another file dropped in this run, because this one has them too."""
        done = self._db.executemany("DELETE FROM retired WHERE number = ?", [(number,) for number in numbers])
        self.retired -= max(0, done.rowcount)

    def _displace(self, identifier: str, before: int, winner: int) -> None:
        """A document replaces one of other files."""
        owner = "SELECT file, last FROM origins WHERE shared = 0 AND first <= ? ORDER BY first DESC LIMIT 1"
        owners = [file for file, last in self._db.execute(owner, (before,)) if last >= before]
        shared = "SELECT file FROM origins WHERE shared = 1 AND first <= ? AND last >= ?"
        owners += [file for (file,) in self._db.execute(shared, (before, before))]
        rows = [(identifier, file) for file in owners if file != winner]
        self._db.executemany("INSERT OR IGNORE INTO displaced VALUES (?, ?)", rows)

    def _flags(self, number: int) -> list[tuple[int, int, int]]:
        return self._db.execute(
            "SELECT first, last, shared FROM origins WHERE file = ? ORDER BY first", (number,)
        ).fetchall()

    def _ranges(self, number: int) -> list[Range]:
        return _merged([(first, last) for first, last, _ in self._flags(number)])

    def _retire(self, spans: Iterable[Range]) -> None:
        """Retire documents that no file has any more; files that have another one with the id are read again."""
        for span in spans:
            rows = self._db.execute("SELECT number, id FROM documents WHERE number BETWEEN ? AND ?", span).fetchall()
            gone = [row for row in rows if not self._owned(row[0])]
            self._db.executemany("INSERT OR IGNORE INTO retired VALUES (?)", [(number,) for number, _ in gone])
            self._db.executemany(
                "UPDATE files SET hash = NULL WHERE number IN (SELECT file FROM displaced WHERE id = ?)",
                [(identifier,) for _, identifier in gone],
            )
            self.retired += len(gone)

    def _owned(self, number: int) -> bool:
        """Whether some file has the document. Ranges of own documents never overlap, so one lookup is enough."""
        row = self._db.execute(
            "SELECT last FROM origins WHERE shared = 0 AND first <= ? ORDER BY first DESC LIMIT 1", (number,)
        ).fetchone()
        if row is not None and row[0] >= number:
            return True
        shared = "SELECT 1 FROM origins WHERE shared = 1 AND first <= ? AND last >= ? LIMIT 1"
        return self._db.execute(shared, (number, number)).fetchone() is not None


def _merged(ranges: Sequence[Range]) -> list[Range]:
    out: list[Range] = []
    for first, last in sorted(ranges):
        if out and first <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(last, out[-1][1]))
        else:
            out.append((first, last))
    return out


def _extend(ranges: list[Range], more: Sequence[Range]) -> None:
    """Add ranges, each joined to the last one where it is adjacent."""
    for span in more:
        if ranges and span[0] == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], span[1])
        else:
            ranges.append(span)


def _within(number: int, ranges: Sequence[Range]) -> bool:
    at = bisect_right(ranges, (number, 1 << 62)) - 1
    return at >= 0 and ranges[at][1] >= number


def _without(ranges: Sequence[Range], taken: Sequence[Range]) -> list[Range]:
    """The parts of the ranges outside of others; both ascend."""
    out: list[Range] = []
    for first, last in ranges:
        for begin, end in taken[max(0, bisect_right(taken, (first, 0)) - 1) :]:
            if begin > last:
                break
            if end >= first:
                if begin > first:
                    out.append((first, begin - 1))
                first = end + 1
        if first <= last:
            out.append((first, last))
    return out


def _divide(span: Range, flagged: Sequence[tuple[int, int, int]]) -> list[tuple[Range, int]]:
    """The parts of a range with the flags they were recorded with."""
    parts = [((max(span[0], first), min(span[1], last)), flag) for first, last, flag in flagged]
    return [(part, flag) for part, flag in parts if part[0] <= part[1]]
