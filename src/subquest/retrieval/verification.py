"""What is wrong with an index: `subquest index verify`.

Every byte that a search, an export or a writer may use is under a checksum: documents and vectors one by one, the other
tables of the store as a whole, each file beside the store by its last four bytes, which the store records too. SQLite
checks the structure of the store, the manifest that nothing newer is lost.
"""

from __future__ import annotations

import contextlib
import mmap
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import checksums
from ..english import counted
from ..errors import DamagedIndex, SearchError
from . import checks, store
from .checks import document_checks, vector_check
from .generation import RETRIES, behind
from .segment import PythonSegment, intact
from .tables import FILE as TABLES
from .vectors import VECTOR_HEADER, document_numbers


def verify(folder: Path) -> list[str]:
    """What is wrong with the index; an empty list when it is sound.

    A writer may delete files of the generation that is being checked: then the next one is checked.
    """
    for _ in range(RETRIES):
        problems: list[str] = []
        try:
            manifest, wrong = checks.read_manifest(folder), "it is missing"  # before the store: a writer may go on
        except DamagedIndex:
            manifest, wrong = None, "it was changed after it was written"
        try:
            with contextlib.closing(store.connect(folder)) as db:
                db.execute("BEGIN")
                before = store.get(db, "generation", 0)
                if store.is_checked(db) and manifest is None:
                    problems.append(f"{checks.MANIFEST}: {wrong}")
                problems += [f"{store.STORE}: {problem}" for problem in _check_store(folder, db, manifest)]
                problems += _check_segments(folder, db)
                problems += _check_tables(folder / TABLES)
                db.execute("COMMIT")
                if not problems or store.get(db, "generation", 0) == before:
                    return problems
        except DamagedIndex as error:
            return [*problems, f"{store.STORE}: {error}"]
        except (sqlite3.DatabaseError, TypeError, ValueError) as error:  # a damaged page can hold anything
            return [*problems, f"{store.STORE}: {str(error)[:200]}"]
    raise SearchError(f"{folder} changes faster than it can be verified")


def unverified(folder: Path) -> int:
    """How many documents an older version stored without checksums."""
    with contextlib.closing(store.connect(folder)) as db, store.reading(folder):
        statement = "SELECT count(*) FROM documents WHERE number NOT IN (SELECT number FROM document_checks)"
        return int(db.execute(statement).fetchone()[0])


def _check_store(folder: Path, db: sqlite3.Connection, manifest: tuple[str, int] | None) -> Iterator[str]:
    """SQLite's own check, the definitions of the tables, and the checksums of their rows."""
    yield from (str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok")
    if problem := checksums.size_problem(db, folder / store.STORE):
        yield problem
    checked = store.is_checked(db)
    schema = store.SCHEMA + store.CHECKS if checked else store.SCHEMA
    for name in checksums.changed_schema(db, schema, store.LEDGER):
        yield f"the definition of {name} is not what was written"
    if not checked:
        return
    if problem := behind(manifest, {key: store.get(db, key, 0) for key in ("name", "generation")}):
        yield problem
    summed = store.SUMMED + (store.SUMMED_LEDGER if store.has_ledger(db) else ())
    for table in checksums.changed_tables(db, summed):
        yield f"its table {table} is not what was written"
    unchecked = store.get(db, "unchecked", 0)
    listed = {name for (name,) in db.execute("SELECT name FROM segments")} | set(summed)
    recorded = {name for name in checksums.recorded_sums(db) if not name.endswith(".ann")}
    if recorded - listed or (listed - recorded and not unchecked):
        yield "its table sums is not what was written"
    yield from _check_rows(db, "documents", "id, d.title, d.text, d.meta, c.title, c.content", _document, unchecked)
    yield from _check_rows(db, "vectors", "vector, c.vector", _vector, unchecked)


def _check_rows(
    db: sqlite3.Connection, table: str, columns: str, fits: Callable[[tuple[Any, ...]], bool], unchecked: int
) -> Iterator[str]:
    """Rows that are not what was written, and rows or checksums that the other lacks."""
    other = f"{table[:-1]}_checks"
    wrong = []
    rows = db.execute(f"SELECT d.number, d.{columns} FROM {table} AS d LEFT JOIN {other} AS c ON c.number = d.number")
    for row in rows:
        if not (row[0] <= unchecked if row[-1] is None else fits(row)):
            wrong.append(row[0])
    wrong += [n for (n,) in db.execute(f"SELECT number FROM {other} WHERE number NOT IN (SELECT number FROM {table})")]
    if wrong:
        yield f"{counted(len(wrong), table[:-1])} not as written ({_some(wrong)})"


def _document(row: tuple[Any, ...]) -> bool:
    return document_checks(*row[:5]) == row[5:]


def _vector(row: tuple[Any, ...]) -> bool:
    number, vector, check = row
    return isinstance(vector, bytes) and vector_check(number, vector) == check


def _some(numbers: list[int] | set[int]) -> str:
    return f"numbers {', '.join(map(str, sorted(numbers)[:5]))}, ..."


def _check_segments(folder: Path, db: sqlite3.Connection) -> list[str]:
    problems = []
    published = store.get(db, "published", 0)
    removed = {number for (number,) in db.execute("SELECT number FROM removed")}
    recorded = checksums.recorded_sums(db)
    covered: set[int] = set()
    for name, kind, first, last in db.execute("SELECT name, kind, first, last FROM segments ORDER BY first").fetchall():
        try:
            if problem := _file_problem(folder / name, recorded.get(name)):
                problems.append(f"segment {name}: {problem}")
                continue
            if kind != "lexical":
                problems += _check_vectors(folder / name, db, (first, last), removed, recorded)
                continue
            segment = PythonSegment(folder / name)
        except FileNotFoundError:
            problems.append(f"segment {name}: it is missing")
            continue
        except DamagedIndex as error:
            problems.append(f"segment {name}: {error}")
            continue
        numbers = set(segment.numbers)
        if numbers and (min(numbers) < first or max(numbers) > last):
            problems.append(f"segment {name}: holds documents outside of {first} to {last}")
        if covered & numbers:
            problems.append(f"segment {name}: {counted(len(covered & numbers), 'document')} also in another segment")
        covered |= numbers
    stored = {number for (number,) in db.execute("SELECT number FROM documents WHERE number <= ?", (published,))}
    for what, wrong in (
        ("in no segment, so that search cannot find them", stored - covered),
        ("marked as removed, but stored", stored & removed),
        ("in a segment, but not stored", covered - removed - stored),
    ):
        if wrong:
            problems.append(f"{counted(len(wrong), 'document')} {what} ({_some(wrong)})")
    twice = db.execute(
        "SELECT id FROM documents WHERE number <= ? GROUP BY id HAVING count(*) > 1 LIMIT 5", (published,)
    ).fetchall()
    if twice:
        problems.append(f"ids that stand twice: {', '.join(repr(identifier) for (identifier,) in twice)}")
    return problems


def _file_problem(path: Path, recorded: checksums.Sum | None) -> str:
    """Whether a file was changed, or is another than the store recorded; empty where it is sound."""
    if not intact(path):
        return "the checksum does not fit; its bytes were changed"
    return "" if recorded in (None, checks.file_sum(path)[1]) else "it is another file than the one that was written"


def _check_tables(path: Path) -> list[str]:
    """What is wrong with the tables of files."""
    if not path.exists():
        return []
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN")
            found = [str(row[0]) for row in db.execute("PRAGMA integrity_check") if row[0] != "ok"]
            names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            recorded = checksums.recorded_sums(db).keys() if "sums" in names else names
            if names - {"sums"} != recorded - {"sums"}:
                found.append("its list of tables is not what was written")
            elif "sums" in names:
                changed = checksums.changed_tables(db, sorted(recorded))
                found += [f"its table {name} is not what was written" for name in changed]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        found = [str(error)[:200]]
    return [f"{path.name}: {problem}; add its source again" for problem in found]


def _check_vectors(
    path: Path, db: sqlite3.Connection, span: tuple[int, int], removed: set[int], recorded: Mapping[str, checksums.Sum]
) -> list[str]:
    """Whether a vector file holds the vectors that the store has for its span, and its companion is intact."""
    problems = []
    stored = dict(db.execute("SELECT number, vector FROM vectors WHERE number BETWEEN ? AND ?", span).fetchall())
    held = document_numbers(path)
    wrong = stored.keys() ^ (set(held) - removed)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        _, _, width, start, _ = VECTOR_HEADER.unpack_from(content)
        for row, number in enumerate(held):
            place = start + 2 * width * row
            if number in stored and stored[number] != content[place : place + 2 * width]:
                wrong.add(number)
    if wrong:
        problems.append(f"vectors {path.name}: {counted(len(wrong), 'vector')} not as in the store")
    companion = path.with_suffix(".ann")
    if not companion.exists():
        if companion.name in recorded:
            problems.append(f"vectors {companion.name}: it is missing")
    elif problem := _file_problem(companion, recorded.get(companion.name)):
        problems.append(f"vectors {companion.name}: {problem}")
    return problems
