"""One generation of an index, opened for searching.

A generation is what one committed transaction of the writer shows. Its files are immutable, so it can be searched for
as long as somebody holds it, whatever is written meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import MissingDependency, SearchError
from . import store
from .dense import Dense, VectorPart
from .kernel import open_segment
from .lexical import Lexical, Part, Removed
from .vectors import VectorFile

RETRIES = 25
"""How often a reader tries again where a writer was faster; each time is a new chance."""


class Generation(NamedTuple):
    number: int
    published: int
    lexical: Lexical
    dense: Dense | MissingDependency | None
    """The vectors; what is missing to read them; None where there are none."""
    content: str
    """Digest of what can be found. Files never change under their names, and names are random, so the names of the
    files and the numbers of removed documents identify the content, in a copy of the folder as well."""


def open_newest(folder: Path, db: sqlite3.Connection) -> Generation:
    """The newest generation; looked up again where a writer has just replaced a file of it."""
    for _ in range(RETRIES):
        db.execute("BEGIN")
        try:
            generation, published = store.get(db, "generation", 0), store.get(db, "published", 0)
            names = db.execute("SELECT kind, name, first, last FROM segments ORDER BY first").fetchall()
            removed = [number for (number,) in db.execute("SELECT number FROM removed ORDER BY number")]
        finally:
            db.execute("COMMIT")
        try:
            parts = []
            for kind, name, first, last in names:
                if kind == "lexical":
                    segment = open_segment(folder / name)
                    gone = [number for number in removed if first <= number <= last]
                    parts.append(Part(segment, Removed(segment, gone) if gone else None))
            dense = _dense(folder, [name for kind, name, _, _ in names if kind == "dense"], removed)
            content = hashlib.sha256(json.dumps([names, removed]).encode()).hexdigest()
            return Generation(generation, published, Lexical(parts), dense, content)
        except FileNotFoundError:
            continue
    raise SearchError(f"{folder}: segment files are missing; run `subquest index verify`")


def _dense(folder: Path, names: Sequence[str], removed: Sequence[int]) -> Dense | MissingDependency | None:
    try:
        files = [VectorFile(folder / name) for name in names]
    except MissingDependency as missing:
        return missing
    return Dense([VectorPart(file, file.hide(removed) if removed else None) for file in files]) if files else None
