"""Rows to records: reads a run, which others may be writing."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from .. import checksums
from ..codec import from_dict
from ..errors import DataError, UsageError
from ..events import Event
from ..record import Episode, Question
from . import pack
from .file import SCHEMA, SCHEMA_VERSION, SUMMED, TABLES, connect, damaged
from .rows import column

_CACHED_BLOCKS = 256
_PAGE = 64
"""Rows read at a time; no lock is held between pages, however slow the caller is."""


@dataclass(frozen=True, slots=True)
class Summary:
    """An episode in a list: what can be shown or filtered without reading its trajectories."""

    id: str
    question: str
    """Id of the question."""
    dataset: str
    split: str
    attempt: int
    """Which attempt at the question this was, counted from 0."""
    system: str
    model: str
    answer: str
    stop_reason: str
    added: float
    """When it was written, in seconds since 1970."""
    forced: bool


class Metric(NamedTuple):
    """A number of the run as a whole."""

    step: int
    name: str
    value: float


class Score(NamedTuple):
    """The score of an episode by one metric."""

    episode: str
    metric: str
    value: float


class Reader:
    """Reads a run through its own connection, unless it is given one."""

    def __init__(self, path: Path, connection: sqlite3.Connection | None = None) -> None:
        self.path = path
        self._connection = connection or connect(path, write=False)
        self._blocks: OrderedDict[int, list[bytes]] = OrderedDict()

    def close(self) -> None:
        self._connection.close()

    def meta(self) -> dict[str, Any]:
        try:
            return {key: json.loads(value) for key, value in self.query("SELECT key, value FROM meta")}
        except (TypeError, ValueError, RecursionError) as error:
            raise damaged(self.path, error) from None

    def counts(self) -> dict[str, int]:
        """How many questions, episodes, … the run holds."""
        tables = {
            "questions": "question",
            "episodes": "episode",
            "trajectories": "trajectory",
            "failures": "failure",
            "pieces": "piece",
        }
        found = {name: self.query(f"SELECT count(*) FROM {table}")[0][0] for name, table in tables.items()}
        return {**found, "interrupted": len(self.interrupted())}

    def questions(self, *, question: str | None = None) -> Iterator[Question]:
        """All questions in the order in which they were added, or those with one id."""
        wanted = None if question is None else column(question)
        select = (
            f"SELECT number, body FROM question WHERE number > ?1 AND (id = ?2 OR ?2 IS NULL) ORDER BY 1 LIMIT {_PAGE}"
        )
        last = 0
        while rows := self.query(select, last, wanted):
            for last, body in rows:  # noqa: B007 - the next page starts after the last row
                yield from_dict(Question, self.load(body))

    def summaries(
        self, *, question: str | None = None, dataset: str | None = None, system: str | None = None
    ) -> Iterator[Summary]:
        yield from map(_summary, self._pages(_SUMMARY, question, dataset, system))

    def latest(
        self, *, offset: int = 0, limit: int = 50, system: str | None = None, ending: str | None = None
    ) -> tuple[int, list[Summary]]:
        """The number of episodes, and one page of them, newest first."""
        wanted = {"e.system": system, "e.stop_reason": ending}
        given = {name: column(value) for name, value in wanted.items() if value is not None}
        where = f" WHERE {' AND '.join(f'{name} = ?' for name in given)}" if given else ""
        total: int = self.query(f"SELECT count(*) FROM episode e{where}", *given.values())[0][0]
        rows = self.query(f"{_SUMMARY}{where} ORDER BY e.number DESC LIMIT ? OFFSET ?", *given.values(), limit, offset)
        return total, [_summary(row) for row in rows]

    def episodes(
        self,
        *,
        question: str | None = None,
        dataset: str | None = None,
        system: str | None = None,
        events: bool = True,
    ) -> Iterator[Episode]:
        for row in self._pages(_EPISODE, question, dataset, system):
            yield self._episode(row, events)

    def episode(self, episode_id: str, *, events: bool = True) -> Episode:
        rows = self.query(f"{_EPISODE} WHERE e.id = ?", column(episode_id))
        if not rows:
            raise UsageError(f"the run {self.path} has no finished episode {episode_id!r}")
        return self._episode(rows[0], events)

    def question_of(self, episode_id: str) -> Question:
        """The question of an episode, without reading the episode."""
        rows = self.query(f"SELECT q.body {_JOIN} WHERE e.id = ?", column(episode_id))
        if not rows:
            raise UsageError(f"the run {self.path} has no finished episode {episode_id!r}")
        return from_dict(Question, self.load(rows[0][0]))

    def events(self, episode_id: str, *, after: int = -1) -> list[Event]:
        """The episode's events so far, those after event number `after`."""
        rows = self.query(
            "SELECT body FROM event WHERE episode = ? AND last > ? ORDER BY number", column(episode_id), after
        )
        events = (from_dict(Event, e) for (body,) in rows for e in self.load(body))
        return [event for event in events if event.seq > after]

    def interrupted(self) -> list[str]:
        """Ids of episodes that have events and never finished, in the order in which they started."""
        return [
            row[0]
            for row in self.query(
                "SELECT episode FROM event WHERE episode NOT IN (SELECT id FROM episode) "
                "GROUP BY episode ORDER BY min(number)"
            )
        ]

    def unstarted(self) -> list[str]:
        """Ids of questions with no episode and no event under the question's own id. A server asks each question once,
        under its id, so these were still queued when it was killed."""
        select = "SELECT id FROM question WHERE id NOT IN (SELECT id FROM episode UNION SELECT episode FROM event)"
        return [row[0] for row in self.query(f"{select} ORDER BY number")]

    def scores(self, episode_id: str | None = None) -> list[Score]:
        rows = self.query(
            "SELECT episode, metric, value FROM score WHERE episode = ?1 OR ?1 IS NULL ORDER BY episode, metric",
            None if episode_id is None else column(episode_id),
        )
        return [Score(episode, metric, self._number(value)) for episode, metric, value in rows]

    def metrics(self, name: str | None = None) -> list[Metric]:
        rows = self.query(
            "SELECT step, name, value FROM metric WHERE name = ?1 OR ?1 IS NULL ORDER BY step, name", name
        )
        return [Metric(step, found, self._number(value)) for step, found, value in rows]

    def _number(self, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise damaged(self.path, error) from None

    def _pages(
        self, select: str, question: str | None, dataset: str | None, system: str | None
    ) -> Iterator[tuple[Any, ...]]:
        wanted = {"q.id": question, "q.dataset": dataset, "e.system": system}
        given = {name: column(value) for name, value in wanted.items() if value is not None}
        where = " AND ".join(["e.number > ?", *(f"{name} = ?" for name in given)])
        last = 0
        while rows := self.query(f"{select} WHERE {where} ORDER BY e.number LIMIT {_PAGE}", last, *given.values()):
            yield from rows
            last = rows[-1][0]

    def _episode(self, row: tuple[Any, ...], events: bool) -> Episode:
        number, episode_id, body, question = row
        trajectories = self.query("SELECT body FROM trajectory WHERE episode = ? ORDER BY number", number)
        failures = self.query("SELECT body FROM failure WHERE episode = ? ORDER BY number", number)
        stream = self.query("SELECT body FROM event WHERE episode = ? ORDER BY number", episode_id) if events else []
        parts = ([found for (found,) in rows] for rows in (trajectories, failures, stream))
        return self.assemble(body, question, *parts)

    def assemble(
        self, body: bytes, question: bytes, trajectories: list[bytes], failures: list[bytes], stream: list[bytes]
    ) -> Episode:
        """Build an episode from the bodies of its rows."""
        data: dict[str, Any] = self.load(body)
        data["question"] = self.load(question)
        data["trajectories"] = [self.load(found) for found in trajectories]
        data["errors"] = [self.load(found) for found in failures]
        data["events"] = [event for found in stream for event in self.load(found)]
        try:
            return from_dict(Episode, data)
        except DataError as error:
            raise DataError(f"{self.path}: {error}") from None

    def query(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.ProgrammingError:
            raise UsageError(f"the run {self.path} is closed") from None
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from None

    def is_checked(self) -> bool:
        """Whether the run has checksums."""
        return bool(self.query("SELECT 1 FROM sqlite_master WHERE name = 'sums'"))

    def structure_problems(self) -> Iterator[str]:
        """What is wrong with the definitions of the tables, the format and the size of the file."""
        checked = self.is_checked()
        try:
            for name in checksums.changed_schema(self._connection, SCHEMA if checked else TABLES):
                yield f"the definition of {name} is not what was written"
            if self.query("PRAGMA user_version") != [(SCHEMA_VERSION if checked else SCHEMA_VERSION - 1,)]:
                yield "its format is not what was written"
            if problem := checksums.size_problem(self._connection, self.path):
                yield problem
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from None

    def changed_tables(self) -> list[str]:
        """Tables that are not what was written; none is known where an older version wrote the run."""
        self.query("BEGIN")  # others may be writing
        try:
            return list(checksums.changed_tables(self._connection, SUMMED)) if self.is_checked() else []
        except sqlite3.DatabaseError as error:
            raise damaged(self.path, error) from None
        finally:
            self.query("COMMIT")

    def load(self, body: bytes) -> Any:
        try:
            return pack.load(body, self.pieces)
        except DataError as error:
            raise damaged(self.path, error) from None

    def pieces(self, numbers: Sequence[int]) -> list[bytes]:
        """The pieces with these numbers, which must be ascending."""
        out: list[bytes] = []
        first, block = 0, [b""][:0]
        for number in numbers:
            if not first <= number < first + len(block):
                first, block = self._block(number)
            out.append(block[number - first])
        return out

    def _block(self, number: int) -> tuple[int, list[bytes]]:
        rows = self.query("SELECT first FROM block WHERE first <= ? ORDER BY first DESC LIMIT 1", number)
        first = rows[0][0] if rows else 0
        block = self._blocks.get(first)
        if block is None:
            found = self.query("SELECT data FROM block WHERE first = ?", first)
            block = self._blocks[first] = pack.load_pieces(found[0][0]) if found else []
            if len(self._blocks) > _CACHED_BLOCKS:
                self._blocks.popitem(last=False)
        if not first <= number < first + len(block):
            raise DataError(f"piece {number} is missing")
        return first, block


_JOIN = "FROM episode e JOIN question q ON q.number = e.question"
_SUMMARY = (
    "SELECT e.number, e.forced, e.id, q.id, q.dataset, q.split, e.attempt, e.system, e.model, e.answer, "
    f"e.stop_reason, e.added {_JOIN}"
)
_SUMMARY_FIELDS = tuple(Summary.__slots__)[:-1]
_EPISODE = f"SELECT e.number, e.id, e.body, q.body {_JOIN}"


def _summary(row: tuple[Any, ...]) -> Summary:
    _, forced, *columns = row
    return Summary(**dict(zip(_SUMMARY_FIELDS, columns, strict=True)), forced=bool(forced))
