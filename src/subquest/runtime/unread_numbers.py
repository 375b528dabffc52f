"""Numbers of a result that stand in nothing its role was told: small models invent years, and lose a digit when they
copy 67300 as an amount."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from .normalization import compared_words, is_number

DIGITS = 4
"""Shorter numbers may have been counted or worked out."""
_MOST, _LONGEST = 3, 20
"""How many numbers are told, and in how many digits."""
_NEAR = 0.85
"""How like it a number is that may have been meant: of four digits, one that has one more."""


def unread_numbers(result: str, told: Iterable[str]) -> str:
    """What is wrong with the long numbers of a result; empty if all of them stand in what was told."""
    numbers = dict.fromkeys(_long_numbers(result))
    if not numbers:
        return ""
    known = dict.fromkeys(number for text in told for number in _long_numbers(text))
    found = []
    for number in [number for number in numbers if number not in known][:_MOST]:
        like = [it for it in known if abs(len(it) - len(number)) <= 1 and len(it) <= _LONGEST]
        near = difflib.get_close_matches(number, like, n=1, cutoff=_NEAR)
        but = f", but {near[0]} does" if near else ""
        found.append(f"{number[:_LONGEST]} stands nowhere in what you have read{but}")
    return "; ".join(found)


def _long_numbers(text: str) -> list[str]:
    return [word for word in compared_words(text) if is_number(word) and sum(map(str.isdigit, word)) >= DIGITS]
