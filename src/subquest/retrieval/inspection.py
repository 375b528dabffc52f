"""The state of an index: what `subquest index info` and `verify` show."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, SearchError
from . import kernel, store
from .generation import RETRIES
from .segment import PythonSegment, intact
from .vectors import document_numbers


@dataclass(frozen=True, slots=True)
class Info:
    """An index in figures."""

    path: str
    generation: int
    documents: int
    files: int
    """Files that documents were read from; documents added by a program have none."""
    segments: int
    removed: int
    """Removed documents that still take space until the next `compact`."""
    vectors: int
    unpublished: int
    """Documents of a write that is running or was killed; the next write publishes them."""
    analysis: dict[str, Any]
    bm25: dict[str, Any]
    fusion: dict[str, Any]
    encoder: dict[str, Any] | None
    bytes_store: int
    bytes_lexical: int
    bytes_dense: int
    search: str
    """What searches run on: the C kernel or plain Python."""


def info(folder: Path) -> Info:
    """Counts, sizes and settings."""
    with contextlib.closing(store.connect(folder)) as db, store.reading(folder):

        def count(query: str, *values: object) -> int:
            return int(db.execute(query, values).fetchone()[0])

        published = store.get(db, "published", 0)
        return Info(
            path=str(folder),
            generation=store.get(db, "generation", 0),
            documents=count("SELECT count(*) FROM documents WHERE number <= ?", published),
            files=count("SELECT count(*) FROM files") if store.has_ledger(db) else 0,
            segments=count("SELECT count(*) FROM segments WHERE kind = 'lexical'"),
            removed=count("SELECT count(*) FROM removed"),
            vectors=count("SELECT count(*) FROM vectors"),
            unpublished=count("SELECT count(*) FROM documents WHERE number > ?", published),
            analysis=store.get(db, "analysis", {}),
            bm25=store.get(db, "bm25", {}),
            fusion=store.get(db, "fusion", {}),
            encoder=store.get(db, "encoder", None),
            bytes_store=_bytes(folder, f"{store.STORE}*"),
            bytes_lexical=_bytes(folder, "*.lex"),
            bytes_dense=_bytes(folder, "*.vec", "*.ann"),
            search=kernel.status(),
        )


def _bytes(folder: Path, *patterns: str) -> int:
    """The size of files; a writer may remove one of them at any moment."""
    total = 0
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


def verify(folder: Path) -> list[str]:
    """What is wrong with the index; an empty list when it is sound.

    A writer may delete files of the generation that is being checked: then the next one is checked.
    """
    with contextlib.closing(store.connect(folder)) as db:
        for _ in range(RETRIES):
            problems: list[str] = []
            try:
                db.execute("BEGIN")
                before = store.get(db, "generation", 0)
                problems += [f"store: {row[0]}" for row in db.execute("PRAGMA quick_check") if row[0] != "ok"]
                problems += _check_segments(folder, db)
                db.execute("COMMIT")
                if not problems or store.get(db, "generation", 0) == before:
                    return problems
            except (sqlite3.DatabaseError, DataError, TypeError) as error:  # a damaged page can hold anything
                return [*problems, f"store: {error}"]
    raise SearchError(f"{folder} changes faster than it can be verified")


def _check_segments(folder: Path, db: sqlite3.Connection) -> list[str]:
    problems = []
    published = store.get(db, "published", 0)
    removed = {number for (number,) in db.execute("SELECT number FROM removed")}
    covered: set[int] = set()
    for name, kind, first, last in db.execute("SELECT name, kind, first, last FROM segments ORDER BY first").fetchall():
        try:
            if not intact(folder / name):
                problems.append(f"segment {name}: the checksum does not fit; its bytes were changed")
                continue
            if kind != "lexical":
                problems += _check_vectors(folder / name, db, (first, last), removed)
                continue
            segment = PythonSegment(folder / name)
        except (DataError, FileNotFoundError) as error:
            problems.append(f"segment {name}: {error}")
            continue
        numbers = set(segment.numbers)
        if numbers and (min(numbers) < first or max(numbers) > last):
            problems.append(f"segment {name}: holds documents outside of {first} to {last}")
        if covered & numbers:
            problems.append(f"segment {name}: {len(covered & numbers)} documents stand in another segment too")
        covered |= numbers
    stored = {number for (number,) in db.execute("SELECT number FROM documents WHERE number <= ?", (published,))}
    for what, wrong in (
        ("documents cannot be found: no segment has them", stored - covered),
        ("documents are marked as removed, but are stored", stored & removed),
        ("documents can be found, but are not stored", covered - removed - stored),
    ):
        if wrong:
            problems.append(f"{len(wrong)} {what} (numbers {', '.join(map(str, sorted(wrong)[:5]))}, ...)")
    twice = db.execute(
        "SELECT id FROM documents WHERE number <= ? GROUP BY id HAVING count(*) > 1 LIMIT 5", (published,)
    ).fetchall()
    if twice:
        problems.append(f"ids that stand twice: {', '.join(repr(identifier) for (identifier,) in twice)}")
    return problems


def _check_vectors(path: Path, db: sqlite3.Connection, span: tuple[int, int], removed: set[int]) -> list[str]:
    """Whether a vector file holds the vectors that the store has for its span, and its companion is intact."""
    problems = []
    stored = {number for (number,) in db.execute("SELECT number FROM vectors WHERE number BETWEEN ? AND ?", span)}
    held = set(document_numbers(path)) - removed
    if stored != held:
        problems.append(f"vectors {path.name}: {len(stored ^ held)} vectors are not those of the store")
    companion = path.with_suffix(".ann")
    if companion.exists() and not intact(companion):
        problems.append(f"vectors {companion.name}: the checksum does not fit; its bytes were changed")
    return problems
