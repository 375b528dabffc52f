"""Removes old conversations from the run of a server, which otherwise keeps every question it was asked.

What is kept is written as a run of its own, because episodes share the pieces they are made of. Then it replaces the
old contents in one transaction: a kill at any moment leaves the run as it was, or as it is meant to be.
"""

from __future__ import annotations

import sqlite3
import uuid
from pathlib import Path
from typing import NamedTuple

from ..errors import OutsideError, UsageError
from .file import SUMMED, connect, run_path
from .jsonl import Entry, run_entries, write_entries
from .reader import Reader

_LINKS = ("follows", "beside", "resumes")
"""What a question says of another one of its conversation."""


class Pruned(NamedTuple):
    removed: int
    """Questions."""
    kept: int
    bytes: int
    """By which the file shrank."""


def prune_run(path: Path, before: float) -> Pruned:
    """Remove the conversations whose last answer came before a time (seconds since 1970), and give back their space.

    Raises a UsageError if another process has the run open, or if it is not the run of a server.
    """
    file = run_path(path)
    db = connect(file, write=True)
    scratch = file.with_name(f"{file.name}.{uuid.uuid4().hex[:8]}.pruned")
    size = file.stat().st_size
    try:
        run = Reader(file, db)
        if run.meta().get("settings", {}).get("kind") != "server":
            raise UsageError(f"{file} is not the run of a server; delete the file of an evaluation or a training run")
        _keep_others_out(db, file)
        asked = {question.id for question in run.questions()}
        kept = _kept(run, before)
        if kept != asked:
            write_entries((("", entry) for entry in run_entries(run) if _belongs(entry, kept)), scratch)
            _replace_contents(db, scratch)
        db.execute("PRAGMA journal_mode = WAL")
    except sqlite3.Error as error:
        raise OutsideError(f"cannot prune the run {file}: {error}; it is as it was") from None
    finally:
        db.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{scratch}{suffix}").unlink(missing_ok=True)
    return Pruned(len(asked) - len(kept), len(kept), size - file.stat().st_size)


def _keep_others_out(db: sqlite3.Connection, file: Path) -> None:
    """Leaving write-ahead mode takes that no other process has the file open, and so does every step from then on."""
    try:
        db.execute("PRAGMA busy_timeout = 1000")
        db.execute("PRAGMA locking_mode = EXCLUSIVE")
        db.execute("PRAGMA journal_mode = DELETE")
        db.executescript("BEGIN EXCLUSIVE; COMMIT")
    except sqlite3.OperationalError:
        raise UsageError(f"another process has the run {file} open; stop the server first") from None


def _kept(run: Reader, before: float) -> set[str]:
    """Ids of the questions of all conversations that are not older than `before`."""
    added = {summary.id: summary.added for summary in run.summaries()}
    leader: dict[str, str] = {}

    def conversation(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    questions = list(run.questions())
    for question in questions:
        for link in _LINKS:
            if other := question.meta.get(link):
                leader[conversation(question.id)] = conversation(str(other))
    newest: dict[str, float] = {}
    asked = float("inf")
    for question in reversed(questions):  # one that was never answered is about as old as the next that was
        asked = added.get(question.id, asked)
        name = conversation(question.id)
        newest[name] = max(newest.get(name, 0.0), asked)
    return {question.id for question in questions if newest[conversation(question.id)] >= before}


def _belongs(entry: Entry, kept: set[str]) -> bool:
    match entry:
        case {"question": {"id": name}} | {"episode": {"id": name}} | {"episode": str(name)}:
            return name in kept
    return True


def _replace_contents(db: sqlite3.Connection, other: Path) -> None:
    db.execute("ATTACH ? AS pruned", (str(other),))
    db.execute("BEGIN")
    try:
        for table in SUMMED:
            db.execute(f"DELETE FROM main.{table}")
            db.execute(f"INSERT INTO main.{table} SELECT * FROM pruned.{table}")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("DETACH pruned")
    db.execute("VACUUM")
