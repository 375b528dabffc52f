"""Rows of tables in documents: which rows of a passage a query is about, and which row states a result.

A passage of a table holds several rows, one a line, each cell after the name of its column (`Name: Iris Moss; Office:
Old Quay`). Rows look alike, so a small model easily reads the one beside the right one.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate

from ..citation import keep_parts
from ..record import Document
from ..retrieval.analysis import Analysis

_CELL = r"[^:;\n]{1,80}: [^;\n]*"
_LABEL = r"(?:(?!: )[^;\n]){1,80}"
"""A cell of a first column that has no name."""
_ROW = re.compile(rf"(?:{_CELL}|{_LABEL}; {_CELL})(?:; {_CELL})+")
_ENDS = ("row_end", "line_end")
"""Metadata that only a passage of several rows has; rows of a page or a slide have no numbers."""


def is_row(line: str) -> bool:
    """Whether a line is a row of a table: two cells or more, each after the name of its column, and perhaps a cell
    without one before them, which labels the row."""
    return _ROW.fullmatch(line) is not None


def matching_rows(document: Document, query: str) -> Document:
    """The document with the rows alone that a query is about; unchanged if it is no table, or if no row stands out.

    Each row that is kept has a word of the query that the better rows do not have, or the same words as one of them.
    Words that all rows have say nothing. A row whose first cell is empty belongs to the row above it.
    """
    lines = document.text.split("\n")
    if len(lines) < 2 or not (any(end in document.meta for end in _ENDS) or all(map(is_row, lines))):
        return document
    groups = _groups(lines)
    wanted = frozenset(Analysis().query_terms(query))
    found = [wanted & _terms(" ".join(lines[at] for at in group)) for group in groups]
    common = frozenset.intersection(*found)
    found = [terms - common for terms in found]
    kept: dict[int, frozenset[bytes]] = {}
    covered: frozenset[bytes] = frozenset()
    for at in sorted(range(len(groups)), key=lambda at: -len(found[at])):
        if found[at] - covered or (found[at] and found[at] in kept.values()):
            kept[at] = found[at]
            covered |= found[at]
    if not kept or len(kept) == len(groups):
        return document
    begins = list(accumulate((len(line) + 1 for line in lines), initial=0))
    rows = [(begins[at], begins[at + 1] - 1) for group in sorted(kept) for at in groups[group]]
    meta, text = keep_parts(document.meta, document.text, rows, "\n")
    return replace(document, text=text, meta=meta)


@lru_cache(maxsize=4096)
def _terms(text: str) -> frozenset[bytes]:
    return frozenset(Analysis().terms(text))


def _groups(lines: list[str]) -> list[list[int]]:
    """Rows by their number, those without a first cell with the row above them."""
    names = [_first_name(line) for line in lines]
    first = Counter(names).most_common(1)[0][0]
    groups: list[list[int]] = []
    for at, name in enumerate(names):
        if name == first or not groups:
            groups.append([])
        groups[-1].append(at)
    return groups


def _first_name(line: str) -> str:
    """The name of the first column; empty if it has none. A line without several cells stands for itself."""
    cell, several, _ = line.partition("; ")
    name, named, _ = cell.partition(": ")
    return name if named or not several else ""
