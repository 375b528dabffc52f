"""Filters: search only documents with matching metadata.

A filter is a mapping from a field of `Document.meta` to the value it must have, or to a list of values of which it must
have one: `{"source": "manual.pdf", "year": [2023, 2024]}`. A field that holds a list matches if one of its values does.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from ..codec import utf8
from ..errors import UsageError

Filter = Mapping[str, Any]
Choice = str | int | float


def conditions_of(where: Filter) -> list[tuple[str, list[Choice]]]:
    """Each field with the values of which it must have one; a UsageError for a malformed filter."""
    if not isinstance(where, Mapping):
        raise UsageError(f"a filter is a mapping from fields to values, not {where!r:.100}")
    conditions = []
    for field, wanted in where.items():
        if not isinstance(field, str) or not field or '"' in field or "\\" in field:
            raise UsageError(f"cannot filter by the field {field!r}")
        choices = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        if not choices or not all(_possible(choice) for choice in choices):
            raise UsageError(f"filter {field!r}: give a string, a number, true or false, or a list of these")
        conditions.append((field, choices))
    if not conditions:
        raise UsageError("the filter is empty; leave it out to search everything")
    return conditions


def _possible(choice: object) -> bool:
    if isinstance(choice, int):
        return -(1 << 63) <= choice < 1 << 63
    return isinstance(choice, str | float)


def allowed_numbers(db: sqlite3.Connection, where: Filter) -> list[int]:
    """The numbers of the matching documents, ascending."""
    conditions: list[str] = []
    values: list[Choice] = []
    for field, choices in conditions_of(where):
        marks, path = ",".join("?" * len(choices)), f'$."{field}"'
        asked = [utf8(choice) if isinstance(choice, str) else choice for choice in choices]
        conditions.append(
            f"(json_extract(meta, ?) IN ({marks}) OR (json_type(meta, ?) = 'array' "
            f"AND EXISTS (SELECT 1 FROM json_each(meta, ?) WHERE value IN ({marks}))))"
        )
        values += [utf8(path), *asked, utf8(path), utf8(path), *asked]
    query = f"SELECT number FROM documents WHERE meta IS NOT NULL AND {' AND '.join(conditions)} ORDER BY number"
    return [number for (number,) in db.execute(query, values)]


def hidden_bits(numbers: Sequence[int], allowed: Sequence[int], removed: bytearray | None) -> bytearray:
    """A bit for each of a segment's documents that is removed or not allowed; all numbers ascend."""
    bits = bytearray(b"\xff") * ((len(numbers) + 63) // 64 * 8)
    if not numbers:
        return bits
    local = 0
    for number in allowed[bisect_left(allowed, numbers[0]) : bisect_right(allowed, numbers[-1])]:
        local = bisect_left(numbers, number, local)
        if numbers[local] == number and not (removed and removed[local >> 3] >> (local & 7) & 1):
            bits[local >> 3] &= ~(1 << (local & 7)) & 0xFF
    return bits
