"""Filters: only documents whose metadata fit may be found.

A filter is a mapping from a field of `Document.meta` to the value it must have, or to a list of values of which it must
have one: `{"source": "manual.pdf", "year": [2023, 2024]}`.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import UsageError

Filter = Mapping[str, Any]


def allowed_numbers(db: sqlite3.Connection, where: Filter) -> list[int]:
    """The numbers of the documents that fit, ascending."""
    conditions, values = [], []
    for field, wanted in where.items():
        if not field or '"' in field:
            raise UsageError(f"cannot filter by the field {field!r}")
        choices = list(wanted) if isinstance(wanted, list | tuple | set | frozenset) else [wanted]
        if not choices or not all(isinstance(choice, str | int | float) for choice in choices):
            raise UsageError(f"filter {field!r}: give a text, a number, true or false, or a list of these")
        conditions.append(f"json_extract(meta, ?) IN ({','.join('?' * len(choices))})")
        values += [f'$."{field}"', *choices]
    if not conditions:
        raise UsageError("the filter is empty; leave it out to search everything")
    query = f"SELECT number FROM documents WHERE meta IS NOT NULL AND {' AND '.join(conditions)} ORDER BY number"
    return [number for (number,) in db.execute(query, values)]


def hidden_bits(numbers: Sequence[int], allowed: Sequence[int], removed: bytearray | None) -> bytearray:
    """A bit for each of a segment's documents that is not allowed, or removed; all numbers ascend."""
    bits = bytearray(b"\xff") * ((len(numbers) + 63) // 64 * 8)
    if not numbers:
        return bits
    local = 0
    for number in allowed[bisect_left(allowed, numbers[0]) : bisect_right(allowed, numbers[-1])]:
        local = bisect_left(numbers, number, local)
        if numbers[local] == number and not (removed and removed[local >> 3] >> (local & 7) & 1):
            bits[local >> 3] &= ~(1 << (local & 7)) & 0xFF
    return bits
