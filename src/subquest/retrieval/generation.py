"""One generation of an index, opened for searching.

A generation is what one committed transaction of the writer shows. Its files are immutable, so it can be searched for
as long as somebody holds it, whatever is written meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import sqlite3
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from .. import checksums
from ..errors import DamagedIndex, MissingDependency
from . import checks, store
from .checked_file import CheckedFile
from .dense import Dense, VectorPart
from .kernel import open_segment
from .lexical import Lexical, Part, Removed
from .vectors import VectorFile

RETRIES = 25
"""How often a reader tries again where a writer was faster; each time is a new chance."""

_READ = {
    "settings": "SELECT key, value FROM settings",
    "segments": "SELECT name, kind, first, last, documents FROM segments",
    "removed": "SELECT number FROM removed",
}
"""What a generation is made of: all rows of some tables, which can be checked as a whole."""


class Generation(NamedTuple):
    number: int
    published: int
    lexical: Lexical
    dense: Dense | MissingDependency | None
    """The vectors; what is missing to read them; None where there are none."""
    names: Sequence[tuple[str, str, int, int]]
    """Kind, name, first and last document of each file."""
    removed: Sequence[int]
    settings: Mapping[str, Any]
    files: Sequence[CheckedFile]
    """Those that every lexical search reads."""

    @property
    def content(self) -> str:
        """Digest of what can be found. Files never change under their names, and names are random, so the names of the
        files and the numbers of removed documents identify the content, in a copy of the folder as well."""
        return hashlib.sha256(json.dumps([self.names, self.removed]).encode()).hexdigest()


def open_newest(folder: Path, db: sqlite3.Connection) -> Generation:
    """The newest generation; looked up again where a writer has just replaced a file of it."""
    for _ in range(RETRIES):
        manifest = checks.read_manifest(folder)  # before the store, which a writer may change right after
        db.execute("BEGIN")
        try:
            tables = {name: db.execute(statement).fetchall() for name, statement in _READ.items()}
            sums = checksums.recorded_sums(db)
        finally:
            db.execute("COMMIT")
        for name, rows in tables.items():
            if sums and checksums.sum_of(rows) != sums.get(name):
                raise store.damaged(folder, f"its table {name} is not what was written")
        settings = {key: store.parsed(key, value) for key, value in tables["settings"]}
        if problem := behind(manifest, settings):
            raise store.damaged(folder, problem)
        removed = sorted(number for (number,) in tables["removed"])
        listed = sorted(tables["segments"], key=itemgetter(2))
        names = [(kind, name, first, last) for name, kind, first, last, _ in listed]
        try:
            parts: list[Part] = []
            files: list[CheckedFile] = []
            for kind, name, first, last in names:
                if kind == "lexical":
                    path = folder / name
                    file = CheckedFile(path, sums.get(name))
                    if file.small:  # the kernel trusts what it reads
                        file.require()
                    files.append(file)
                    segment = open_segment(path)
                    gone = [number for number in removed if first <= number <= last]
                    parts.append(Part(segment, Removed(segment, gone) if gone else None))
            dense = _dense(folder, [name for kind, name, _, _ in names if kind == "dense"], removed, sums)
            found = settings.get("generation", 0), settings.get("published", 0)
            return Generation(*found, Lexical(parts), dense, names, removed, settings, files)
        except FileNotFoundError as error:
            missing = error.filename
    raise DamagedIndex(f"{missing} is missing; run `subquest index compact {shlex.quote(str(folder))}`")


def behind(manifest: tuple[str, int] | None, settings: Mapping[str, Any]) -> str:
    """What the manifest says that the store does not have; empty where nothing is missing."""
    if manifest is None or "name" not in settings:
        return ""
    name, generation = manifest
    if name != settings["name"]:
        return f"it belongs to another index than {checks.MANIFEST}"
    if generation > settings.get("generation", 0):
        return f"it is at generation {settings.get('generation', 0)}, but {generation} was written"
    return ""


def _dense(
    folder: Path, names: Sequence[str], removed: Sequence[int], recorded: Mapping[str, checksums.Sum]
) -> Dense | MissingDependency | None:
    try:
        parts = [VectorPart(VectorFile(folder / name), None) for name in names]
    except MissingDependency as missing:
        return missing
    if removed:
        parts = [VectorPart(file, file.hide(removed)) for file, _ in parts]
    return Dense(parts, recorded) if parts else None
