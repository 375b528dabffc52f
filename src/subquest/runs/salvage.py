"""Verifying a run, and saving what can be read of a damaged one.

Salvage works on a copy and never touches the damaged file. Where the first page, which tells SQLite where the tables
begin, is gone, the first page of an empty run takes its place: all runs of one format have their tables at the same
places. Each record is then read by itself, and those that cannot be read are named.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, UsageError
from .exchange import Entry, episode_entry, run_entries, write_entries
from .reader import Reader
from .schema import APPLICATION_ID, PAGE_SIZE, SCHEMA_VERSION, create_file, run_path

_MAX_MISSES = 2_000
"""Unreadable numbers in a row after which a table is taken to be over."""
_MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of a run found."""

    problems: tuple[str, ...]
    episodes: int
    """Episodes that could be read in full."""

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Salvage:
    """What was saved of a damaged run."""

    episodes: int
    lost: tuple[str, ...]
    """What could not be read, in words."""


def verify_run(path: Path) -> Verdict:
    """Check the file's structure, the hash of every piece, and read every record."""
    problems: list[str] = []
    episodes = 0
    try:
        run = Reader(run_path(path))
    except DataError as error:
        return Verdict((str(error),), 0)
    try:
        problems += [row[0] for row in run.query("PRAGMA integrity_check") if row[0] != "ok"]
        for key, number in run.query("SELECT hash, number FROM piece ORDER BY number"):
            try:
                (data,) = run.pieces([number])
                if hashlib.blake2b(data, digest_size=len(key)).digest() != key:
                    problems.append(f"piece {number} is not what was written")
            except DataError as error:
                problems.append(str(error))
        for entry in run_entries(run):
            episodes += entry.data["type"] == "episode"
    except DataError as error:
        problems.append(str(error))
    finally:
        run.close()
    return Verdict(tuple(problems[:_MAX_PROBLEMS]), episodes)


def salvage_run(path: Path, target: Path) -> Salvage:
    """Save what is readable of the run at `path` as a new run at `target`."""
    source = run_path(path)
    if not source.is_file():
        raise UsageError(f"there is no run {source}")
    with tempfile.TemporaryDirectory(prefix="subquest-salvage-") as folder:
        copy = Path(folder) / "copy.sqlite"
        shutil.copyfile(source, copy)
        log = Path(f"{source}-wal")
        if log.exists():
            shutil.copyfile(log, f"{copy}-wal")
        _mend_first_page(source, copy)
        rescue = _Rescue(Reader(copy), source)
        try:
            episodes = write_entries(rescue.entries(), target)
        finally:
            rescue.run.close()
    return Salvage(episodes, tuple(rescue.lost))


class _Rescue:
    """Reads a damaged run row by row, by number alone: indexes may be damaged too."""

    def __init__(self, run: Reader, source: Path) -> None:
        self.run = run
        self.source = source
        self.lost: list[str] = []
        self._error = "it holds no records"
        """The latest reason why something could not be read."""

    def entries(self) -> Iterator[Entry]:
        found = [*self._episodes(), *self._numbers()]
        if not found:
            raise DataError(f"nothing in {self.source} is readable as a run of Subquest ({self._error})")
        try:
            meta = self.run.meta()
        except DataError:
            meta = {}
            self.lost.append("the settings")
        yield Entry(str(self.source), {"type": "run", "format": SCHEMA_VERSION, "settings": {}, "created": 0.0, **meta})
        for data in found:
            yield Entry(str(self.source), data)

    def _episodes(self) -> Iterator[dict[str, Any]]:
        """Questions, episodes, and the events of episodes that are interrupted or cannot be read."""
        questions: dict[int, bytes] = dict(self._rows("question", "body"))
        for number, body in questions.items():
            try:
                yield {"type": "question", "question": self.run.load(body)}
            except DataError:
                self.lost.append(f"question number {number}")
        parts: dict[str, dict[Any, list[bytes]]] = {}
        for table in ("trajectory", "failure", "event"):
            parts[table] = {}
            for _, owner, body in self._rows(table, "episode", "body"):
                parts[table].setdefault(owner, []).append(body)
        columns = ("id", "question", "attempt", "added", "trajectories", "failures", "events", "body")
        for row in self._rows("episode", *columns):
            number, name, question, attempt, added, trajectories, failures, events, body = row
            contexts, errors = parts["trajectory"].get(number, []), parts["failure"].get(number, [])
            if (len(contexts), len(errors)) != (trajectories, failures) or question not in questions:
                self.lost.append(f"episode {name}")
                continue
            try:
                stream = parts["event"].get(name, [])
                episode = self.run.assemble(body, questions[question], contexts, errors, stream)
                if episode.id != name:  # the row's name is damaged, what it holds is not
                    stream = parts["event"].get(episode.id, [])
                    episode = self.run.assemble(body, questions[question], contexts, errors, stream)
            except DataError:
                self.lost.append(f"episode {name}")
                continue
            parts["event"].pop(episode.id, None)
            if len(episode.events) != events:
                self.lost.append(f"{events - len(episode.events)} events of episode {name}")
            if not (isinstance(attempt, int) and isinstance(added, float)):
                self.lost.append(f"which attempt episode {name} was, and when")
                attempt, added = 0, 0.0
            yield episode_entry(episode, attempt, added)
        for name, stream in parts["event"].items():
            try:
                yield {"type": "events", "episode": name, "events": [e for b in stream for e in self.run.load(b)]}
            except DataError:
                self.lost.append(f"the events of episode {name}")

    def _numbers(self) -> Iterator[dict[str, Any]]:
        """Scores and metrics that are numbers still."""
        for episode, metric, value in self._sound("scores", "SELECT episode, metric, value FROM score", str):
            yield {"type": "scores", "episode": episode, "scores": {metric: value}}
        for step, name, value in self._sound("metrics", "SELECT step, name, value FROM metric", int):
            yield {"type": "metrics", "step": step, "metrics": {name: value}}

    def _sound(self, what: str, select: str, owner: type) -> list[tuple[Any, str, float]]:
        try:
            rows = self.run.query(f"{select} ORDER BY 1, 2")
        except DataError:
            self.lost.append(f"{what}, or some of them")
            return []
        found = []
        for of, name, value in rows:
            with suppress(TypeError, ValueError):
                if isinstance(of, owner) and isinstance(name, str):
                    found.append((of, name, float(value)))
        if lost := len(rows) - len(found):
            self.lost.append(f"{lost} of the {what}")
        return found

    def _rows(self, table: str, *columns: str) -> Iterator[tuple[Any, ...]]:
        """Number and columns of each row that can be read."""
        statement = f"SELECT number, {', '.join(columns)} FROM {table} WHERE number = ?"
        number, misses = 0, 0
        unreadable: list[int] = []
        while misses < _MAX_MISSES:
            number, misses = number + 1, misses + 1
            try:
                rows = self.run.query(statement, number)
            except DataError as error:
                unreadable.append(number)
                self._error = str(error)
                continue
            if rows:
                misses = 0
                yield rows[0]
        behind = number - _MAX_MISSES
        self.lost += [f"{table} number {n}" for n in unreadable if n <= behind]
        if any(n > behind for n in unreadable):
            self.lost.append(f"any {table} after number {behind}")


def _mend_first_page(source: Path, copy: Path) -> None:
    """Give the copy a first page that SQLite can start from, where its own is damaged or tells a wrong size."""
    if (error := _refusal(copy)) is None:
        return
    with copy.open("rb") as file:
        own = bytearray(file.read(PAGE_SIZE))
    application, version = int.from_bytes(own[68:72]), int.from_bytes(own[60:64])
    if own.startswith(b"SQLite format 3\0") and (application != APPLICATION_ID or version > SCHEMA_VERSION):
        raise DataError(error.replace(str(copy), str(source)))
    template = copy.with_name("template.sqlite")
    create_file(template, {})
    with template.open("rb") as file:
        empty = bytearray(file.read(PAGE_SIZE))
    pages = copy.stat().st_size // PAGE_SIZE
    for page in (own, empty):
        page[28:32] = pages.to_bytes(4)
        with copy.open("r+b") as file:
            file.write(page)
        if _refusal(copy) is None:
            return
    raise DataError(f"nothing in {source} is readable as a run of Subquest")


def _refusal(path: Path) -> str | None:
    """Why the file cannot be opened as a run."""
    try:
        Reader(path).close()
    except UsageError as error:
        return str(error)
    return None
