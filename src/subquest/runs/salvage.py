"""Verifies a run, and saves what is readable of a damaged one.

Salvage works on a copy and never touches the damaged file. If the first page is lost, which tells SQLite where the
tables start, the first page of an empty run replaces it: all runs of one format have their tables in the same places.
Then each record is read on its own, and those that cannot be read are reported.
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

from ..checksums import log_problem
from ..english import counted
from ..errors import DataError, UsageError
from .file import APPLICATION_ID, PAGE_SIZE, SCHEMA_VERSION, create_file, run_path
from .jsonl import FORMAT, Entry, episode_entry, run_entries, write_entries
from .reader import Reader

_MAX_MISSES = 2_000
"""Consecutive missing or unreadable rows after which a table is considered finished."""
_MAX_PROBLEMS = 50


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a run."""

    problems: tuple[str, ...]
    episodes: int
    """Episodes that could be read completely."""
    checked: bool = True
    """False where an older version wrote the run, without checksums of all that is in it."""

    @property
    def sound(self) -> bool:
        return not self.problems


@dataclass(frozen=True, slots=True)
class Salvage:
    """The result of saving what is readable of a damaged run."""

    episodes: int
    lost: tuple[str, ...]
    """Descriptions of what could not be read."""


def verify_run(path: Path) -> Verdict:
    """Check the structure of the file and all checksums, and read every record."""
    problems: list[str] = []
    episodes = 0
    file = run_path(path)
    problem = log_problem(file)  # first, because opening the run folds in what is left of its log
    if problem and problem == log_problem(file):  # otherwise a writer has just begun the log again
        return Verdict((problem,), 0)
    try:
        run = Reader(file)
    except DataError as error:
        return Verdict((str(error),), 0)
    checked = True
    try:
        problems += [row[0] for row in run.query("PRAGMA integrity_check") if row[0] != "ok"]
        problems += run.structure_problems()
        problems += [f"the table {table} is not what was written" for table in run.changed_tables()]
        checked = run.is_checked()
        for key, number in run.query("SELECT hash, number FROM piece ORDER BY number"):
            try:
                (data,) = run.pieces([number])
                if hashlib.blake2b(data, digest_size=len(key)).digest() != key:
                    problems.append(f"piece {number} is not what was written")
            except (DataError, TypeError) as error:  # a damaged row can hold anything
                problems.append(str(error))
        for entry in run_entries(run):
            episodes += entry["type"] == "episode"
    except (DataError, TypeError) as error:
        problems.append(str(error))
    finally:
        run.close()
    return Verdict(tuple(problems[:_MAX_PROBLEMS]), episodes, checked)


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
        _repair_first_page(source, copy)
        rescue = _Rescue(Reader(copy), source)
        try:
            episodes = write_entries(rescue.entries(), target)
        finally:
            rescue.run.close()
    return Salvage(episodes, tuple(rescue.lost))


class _Rescue:
    """Reads a damaged run row by row, by number only: indexes may be damaged too."""

    def __init__(self, run: Reader, source: Path) -> None:
        self.run = run
        self.source = source
        self.lost: list[str] = []
        self._error = "it holds no records"
        """The most recent reason why something could not be read."""

    def entries(self) -> Iterator[tuple[str, Entry]]:
        found = [*self._episodes(), *self._numbers()]
        if not found:
            raise DataError(f"nothing in {self.source} is readable as a run of Subquest ({self._error})")
        try:
            meta = self.run.meta()
        except DataError:
            meta = {}
            self.lost.append("the settings")
        first = {"type": "run", "format": FORMAT, "settings": {}, "created": 0.0, **meta}
        for entry in (first, *found):
            yield str(self.source), entry

    def _episodes(self) -> Iterator[Entry]:
        """Questions, episodes, and the events of episodes that were interrupted or cannot be read."""
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
                if episode.id != name:  # the id column is damaged, the body is not
                    stream = parts["event"].get(episode.id, [])
                    episode = self.run.assemble(body, questions[question], contexts, errors, stream)
            except DataError:
                self.lost.append(f"episode {name}")
                continue
            parts["event"].pop(episode.id, None)
            if len(episode.events) != events:
                self.lost.append(f"{counted(events - len(episode.events), 'event')} of episode {name}")
            if not (isinstance(attempt, int) and isinstance(added, float)):
                self.lost.append(f"attempt number and time of episode {name}")
                attempt, added = 0, 0.0
            yield episode_entry(episode, attempt, added)
        for name, stream in parts["event"].items():
            try:
                yield {"type": "events", "episode": name, "events": [e for b in stream for e in self.run.load(b)]}
            except DataError:
                self.lost.append(f"the events of episode {name}")

    def _numbers(self) -> Iterator[Entry]:
        """Scores and metrics that are still numbers."""
        for episode, metric, value in self._readable("scores", "SELECT episode, metric, value FROM score", str):
            yield {"type": "scores", "episode": episode, "scores": {metric: value}}
        for step, name, value in self._readable("metrics", "SELECT step, name, value FROM metric", int):
            yield {"type": "metrics", "step": step, "metrics": {name: value}}

    def _readable(self, what: str, select: str, owner: type) -> list[tuple[Any, str, float]]:
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
        """Number and columns of each readable row."""
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


def _repair_first_page(source: Path, copy: Path) -> None:
    """Replace the first page of the copy if it is damaged or has a wrong file size."""
    if (error := _open_error(copy)) is None:
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
        if _open_error(copy) is None:
            return
    raise DataError(f"nothing in {source} is readable as a run of Subquest")


def _open_error(path: Path) -> str | None:
    """Why the file cannot be opened as a run, or None."""
    try:
        Reader(path).close()
    except UsageError as error:
        return str(error)
    return None
