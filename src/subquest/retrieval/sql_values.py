"""Why a query gives no row: the values it asks for that no row has, and those of the table that are close to them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection
from difflib import get_close_matches

from .sql_names import quoted

_CONDITION = re.compile(r"""(?:"([^"]+)"|\b(\w+))\s*(=|\blike\b)\s*'((?:[^']|'')*)'""", re.IGNORECASE)
"""A column, the operator, and the text that the column is compared with."""
_CONDITIONS = 4
"""Conditions of a query that are looked at."""
_VALUES = 2000
"""Values of a column that are compared."""
_CLOSE = 3
"""Values that are named."""
_SHOWN = 60
"""Characters of a value that are shown."""
_WORD = re.compile(r"\w+")


def missing_values(db: sqlite3.Connection, sql: str, table: str, columns: Collection[str]) -> str:
    """What a query that gave no row asks for in vain; empty if it compares no column with a text."""
    known = {column.casefold(): column for column in columns}
    reasons: list[str] = []
    compared = 0
    for match in list(_CONDITION.finditer(sql))[:_CONDITIONS]:
        column, value = known.get((match[1] or match[2]).casefold()), match[4].replace("''", "'")
        if column is None or not value.strip("%"):
            continue
        compared += 1
        name, view = quoted(column), quoted(table)
        if db.execute(f"SELECT 1 FROM {view} WHERE {name} {match[3]} ? LIMIT 1", [value]).fetchone():
            continue
        value = value.strip("%")
        found = db.execute(f"SELECT DISTINCT {name} FROM {view} WHERE {name} IS NOT NULL LIMIT {_VALUES}").fetchall()
        close = "; ".join(text[:_SHOWN] for text in close_values(value, [str(row[0]) for row in found]))
        reasons.append(f"No {column} is {value[:_SHOWN]!r}" + (f"; the closest: {close}." if close else "."))
    if compared > 1 and not reasons:
        return "Each of these values is in the table, but no row has all of them."
    return " ".join(reasons)


def close_values(wanted: str, values: Collection[str]) -> list[str]:
    """The values that share most words with the wanted one, or else most letters."""
    words = set(_WORD.findall(wanted.casefold()))
    shared = {value: len(words & set(_WORD.findall(value.casefold()))) for value in values}
    best = sorted((value for value in shared if shared[value]), key=lambda value: -shared[value])
    return best[:_CLOSE] or get_close_matches(wanted, list(values), _CLOSE, 0.6)
