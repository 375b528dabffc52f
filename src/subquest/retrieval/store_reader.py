"""What an index holds, read from its store: single documents, the documents behind a ranking, or all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..record import Document, Hit
from . import store
from .bm25 import Scored
from .settings import Entry

if TYPE_CHECKING:
    from .settings import Row

_PAGE = 1000
"""Rows read at once; between pages other threads and writers have their turn."""
_NUMBERS = 500
"""Documents fetched by one statement."""

Connect = Callable[[], sqlite3.Connection]
"""Gives the calling thread's connection."""


def get(db: sqlite3.Connection, identifier: str, published: int) -> Document | None:
    """The published document with this id, None where there is none."""
    row = db.execute(
        "SELECT id, title, text, meta FROM documents WHERE id = ? AND number <= ?", (identifier, published)
    ).fetchone()
    return None if row is None else store.to_document(row)


def hits(db: sqlite3.Connection, ranked: Sequence[Sequence[Scored]]) -> list[list[Hit]] | None:
    """The documents behind the numbers; None when one has gone in the meantime."""
    wanted = sorted({scored.number for row in ranked for scored in row})
    found: dict[int, Document] = {}
    for start in range(0, len(wanted), _NUMBERS):
        chunk = wanted[start : start + _NUMBERS]
        marks = ",".join("?" * len(chunk))
        rows = db.execute(f"SELECT number, id, title, text, meta FROM documents WHERE number IN ({marks})", chunk)
        found.update((row[0], store.to_document(row[1:])) for row in rows)
    if len(found) < len(wanted):
        return None
    return [[Hit(found[scored.number], scored.score) for scored in row] for row in ranked]


def titles(db: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """The numbers with their titles; without those that have gone in the meantime."""
    for start in range(0, len(numbers), _NUMBERS):
        chunk = numbers[start : start + _NUMBERS]
        marks = ",".join("?" * len(chunk))
        yield from db.execute(f"SELECT number, title FROM documents WHERE number IN ({marks})", chunk)


def articles(db: sqlite3.Connection, numbers: Sequence[int]) -> Iterator[tuple[int, tuple[str, str]]]:
    """The numbers with their titles and texts; without those that have gone in the meantime."""
    for start in range(0, len(numbers), _NUMBERS):
        chunk = numbers[start : start + _NUMBERS]
        marks = ",".join("?" * len(chunk))
        for number, title, text in db.execute(
            f"SELECT number, title, text FROM documents WHERE number IN ({marks})", chunk
        ):
            yield number, (title, text)


def documents(connect: Connect, published: int) -> Iterator[Document]:
    """All documents in the order they were added, read in bounded memory."""
    for row in _pages(connect, "SELECT number, id, title, text, meta FROM documents", published):
        yield store.to_document(row[1:])


def entries(connect: Connect, published: int) -> Iterator[Entry]:
    """All documents with their vectors, in the order they were added."""
    statement = (
        "SELECT number, id, title, text, meta, (SELECT vector FROM vectors AS v WHERE v.number = d.number) "
        "FROM documents AS d"
    )
    for row in _pages(connect, statement, published):
        yield Entry(store.to_document(row[1:5]), None if row[5] is None else _vector(row[5]))


def _pages(connect: Connect, statement: str, published: int) -> Iterator[tuple[Any, ...]]:
    last = 0
    while True:
        page = connect().execute(
            f"{statement} WHERE number > ? AND number <= ? ORDER BY number LIMIT {_PAGE}", (last, published)
        )
        rows = page.fetchall()
        if not rows:
            return
        last = rows[-1][0]
        yield from rows


def _vector(stored: bytes) -> Row:
    import numpy as np

    return np.frombuffer(stored, np.float16).astype(np.float32)
