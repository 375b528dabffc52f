"""What an ingestion says: how far it is, what it did, and what is wrong with the files it read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from ...english import counted
from ...readers.part import CELLS
from .documents import Contents
from .table_writer import COLUMNS


class Problem(NamedTuple):
    """A file, a line of a corpus or a member of an archive that could not be read."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


@dataclass(slots=True)
class State:
    """How far an ingestion has come."""

    files: int = 0
    files_total: int = 0
    bytes: int = 0
    bytes_total: int = 0
    passages: int = 0
    rows: int = 0
    """Of tables, counted in thousands: the last rows of a long table are in no passage."""
    name: str = ""
    """The file that is being read."""


@dataclass(slots=True)
class Report:
    """What an ingestion did."""

    files: int = 0
    """Files that were read."""
    files_unchanged: int = 0
    files_removed: list[str] = field(default_factory=list)
    """Files that no longer exist and whose passages were removed (`prune`)."""
    files_gone: list[str] = field(default_factory=list)
    """The same without `prune`: their passages are still found."""
    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    """Passages of earlier versions and of files that no longer exist."""
    problems: list[Problem] = field(default_factory=list)
    """What could not be read (the first thousand)."""
    skipped: int = 0
    """How many files, lines and members could not be read."""
    broken: int = 0
    """Files that could not be read, or not to their end."""
    notes: list[Problem] = field(default_factory=list)
    """What a user should know about files that were read, such as pages without text."""
    doubles: list[str] = field(default_factory=list)
    """Ids that several documents had (the first thousand); the last document counts."""
    passed_over: Counter[str] = field(default_factory=Counter)
    """Files of kinds that are not read, by suffix."""
    bytes: int = 0
    seconds: float = 0.0


def note_on(contents: Contents) -> str:
    """What a user should know about a file that was read."""
    notes = []
    left_out = contents.left_out
    if contents.empty_pages:
        notes.append(f"no text on {contents.empty_pages} of {contents.pages} pages")
    if left_out.rows:
        notes.append(
            f"a long table: search finds its first rows, and not the last {left_out.rows:,}; "
            "queries over tables use all of them"
        )
    if left_out.columns:
        notes.append(
            f"a wide table: queries over tables use its first {COLUMNS} columns, and not the last "
            f"{left_out.columns:,}; search finds all of them"
        )
    if left_out.undivided:
        notes.append(
            f"{left_out.undivided:,} rows of more than {CELLS:,} cells: they are read as text, without the names of "
            "their columns, and queries over tables do not use them; divide the table into narrower ones"
        )
    if left_out.uncomputed:
        notes.append(
            f"the file has no value for {counted(left_out.uncomputed, 'formula')}, because the program that wrote it "
            "computed none; open it in a spreadsheet program and save it again"
        )
    if contents.unguessed:
        notes.append(
            "read as western letters, which is wrong; to guess its encoding: pip install 'subquest[web-tools]'"
        )
    return "; ".join(notes) or ("" if contents.passages else "it has no text")


def wrong_with(contents: Contents, ocr: bool) -> str:
    """What could not be read in a file that was read to its end."""
    if contents.pages and contents.pages == contents.empty_pages:
        advice = "; OCR found none" if ocr else ": a scan; read it with --ocr"
        where = f"any of its {contents.pages:,} pages" if contents.pages > 1 else "its page"
        return f"no text on {where}{advice}"
    if contents.wrong:
        return f"{contents.wrong:,} lines or members could not be read, the first: {contents.first_wrong}"
    return ""
