"""Where names, codes, dates, years and numbers stand in the sentences of a text."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from .normalization import CALENDAR, compared_words, is_number
from .passages import FUNCTION_TERMS
from .relevance import CALENDAR_TERMS, is_year
from .statements import analysed
from .word_forms import term_list, terms_of

_CAPITAL = r"[^\W\d_a-zß-öø-ÿ](?:[\w-]|['’](?!s\b))*"
_NAME = re.compile(rf"{_CAPITAL}(?:(?:(?<=\b\w)\.)? (?:(?:de|of|of the|van|von) )?{_CAPITAL})*")


class Spot(NamedTuple):
    """Where an answer, or a rival, stands in a sentence: the positions of its words. A title stands nowhere: -1."""

    line: str
    start: int
    end: int


class Tokens(NamedTuple):
    """The words of a sentence, their stems, and of a row of a table where each cell begins and ends."""

    words: list[str]
    stems: list[bytes]
    cells: list[tuple[int, int]]


def kind_of(line: str) -> str:
    """What sort of answer words are: a date, a year, a number or a name."""
    words = line.split()
    numbers = [word for word in words if is_number(word)]
    if not numbers:
        return "code" if any(map(_has_digit, words)) else "name"
    if not CALENDAR.isdisjoint(words) or any(word.startswith("-") for word in words[1:]):
        return "date"
    return "year" if len(words) == 1 and is_year(words[0]) else "number"


@functools.lru_cache(maxsize=1024)
def tokens_of(text: str) -> tuple[Tokens, ...]:
    found = []
    for sentence in analysed(text).sentences:
        words = sentence.line.split()
        cells: list[tuple[int, int]] = []
        for cell in text[sentence.start : sentence.end].split("; ") if sentence.is_row else ():
            begin = cells[-1][1] if cells else 0
            cells.append((begin, begin + len(compared_words(cell))))
        found.append(Tokens(words, [next(iter(term_list(word)), b"") for word in words], cells))
    return tuple(found)


@functools.lru_cache(maxsize=1024)
def spots_of(text: str) -> tuple[dict[str, list[Spot]], ...]:
    """Of each sentence the names, numbers and dates, by kind."""
    return tuple(_spots_in(text[s.start : s.end], s.line.split()) for s in analysed(text).sentences)


def _spots_in(text: str, words: list[str]) -> dict[str, list[Spot]]:
    found: dict[str, list[Spot]] = {"name": [], "code": [], "date": [], "year": [], "number": []}
    at = 0
    for name in _NAME.finditer(text):
        parts = compared_words(name[0])
        while parts and terms_of(parts[0]) <= FUNCTION_TERMS:
            del parts[0]  # The, In: it begins the sentence
        if not parts or terms_of(name[0]) <= FUNCTION_TERMS | CALENDAR_TERMS or any(map(is_number, parts)):
            continue
        kind = "code" if any(map(_has_digit, parts)) else "name"
        start = next((n for n in range(at, len(words)) if words[n : n + len(parts)] == parts), -1)
        if start >= 0:
            at = start + len(parts)
            found[kind].append(Spot(f" {' '.join(parts)} ", start, at))
    dated: set[int] = set()
    for start in range(len(words)):
        for end in (start + 2, start + 3):
            run = words[start:end]
            if len(run) == end - start and _is_date(run):
                found["date"].append(Spot(f" {' '.join(run)} ", start, end))
                dated |= {n for n in range(start, end) if not is_year(words[n])}
    for start, word in enumerate(words):
        if word in CALENDAR:
            dated |= {start - 1, start + 1} - {n for n in (start - 1, start + 1) if is_year("".join(words[n : n + 1]))}
        if is_number(word) and start not in dated:
            kind = "year" if is_year(word) else "number"
            found[kind].append(Spot(f" {word} ", start, start + 1))
    return found


def _is_date(words: list[str]) -> bool:
    """`12 may 1900`, `may 12 1900`, `may 1900` or `1900 -05 -12`."""
    if len(words) == 3 and is_year(words[0]):
        return words[1].startswith("-") and words[2].startswith("-")
    months = sum(word in CALENDAR for word in words)
    return (
        months == 1
        and words[-1] not in CALENDAR
        and is_year(words[-1])
        and all(is_number(word) for word in words if word not in CALENDAR)
    )


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))
