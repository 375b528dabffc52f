"""Names of tables and columns as SQL has them: unique, and without quotation marks where possible."""

from __future__ import annotations

import re


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def unique(name: str, taken: set[str]) -> str:
    """The name, with a number where it is taken; then it is."""
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    taken.add(found)
    return found


def identifier(words: str, otherwise: str) -> str:
    """Words as a name that needs no quotation marks: `Annual value (£)` as annual_value."""
    name = re.sub(r"\W+", "_", words.casefold()).strip("_")[:60].rstrip("_")
    if not name or name in _KEYWORDS:
        return f"{name}_" if name else otherwise
    return f"_{name}" if name[0].isdigit() else name


_WORDS = """
all and as asc between by case check column create default delete desc distinct drop else end escape exists from group
having in index insert into is isnull join limit not nothing notnull null on or order primary references select set
table tables then to union unique update using values when where
"""
_KEYWORDS = frozenset(_WORDS.split())
