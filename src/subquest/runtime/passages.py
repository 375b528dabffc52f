"""A document as it is compared with what was asked: its sentences, and clauses and cells with values of their own.

Words are compared by their stems.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..retrieval.analysis import STOP_WORDS
from .normalization import compared_words, is_number
from .statements import analysed
from .word_forms import Terms, terms_of

FUNCTION_TERMS = frozenset(term for word in STOP_WORDS["english"] for term in terms_of(word.decode()))
_CLAUSE = re.compile(r"[,;]\s+|\s+(?:and|but|while|whereas)\s+")
_CELL = re.compile(r";\s+")
_EDGES = "\"'()[]{}«»“”‘’,;:.!?"
_POSSESSIVE = re.compile(r"['’]s?$")


class Unit(NamedTuple):
    """A sentence, or a part of one with a value of its own: a clause, a cell of a row."""

    line: str
    terms: Terms
    """Its own words; of a cell, those of its column and all values of the row; of a clause without words of its own
    (`and 2,875 euros in 2025`), those of earlier clauses too."""
    before: Terms
    """The words of earlier clauses, in which it may be named what the clause is about; not of one that begins with a
    name itself."""
    numbers: frozenset[str]
    names: Terms


class Passage(NamedTuple):
    """A document as it is compared with tasks."""

    title: Terms
    sentences: tuple[Unit, ...]
    names: tuple[tuple[Terms, ...], ...]
    """Of each sentence, the words of each of its names."""
    parts: tuple[tuple[Unit, ...], ...]
    """Of each sentence, its clauses or cells."""
    places: Mapping[int, int]
    """Which sentence begins at a character."""
    first: Mapping[bytes, int]
    """The first sentence with a word; -1 for those of the title."""


@functools.lru_cache(maxsize=1024)
def passage_of(title: str, text: str) -> Passage:
    spans = analysed(text).sentences
    texts = [text[s.start : s.end] for s in spans]
    whole = tuple(_unit(t, s.line, terms_of(t)) for t, s in zip(texts, spans, strict=True))
    parts = tuple(tuple(_parts(t, s.is_row)) for t, s in zip(texts, spans, strict=True))
    names = tuple(
        tuple(n for run in names_in(t) if not run[0].isdigit() and (n := terms_of(run)) - FUNCTION_TERMS) for t in texts
    )
    named = terms_of(title)
    first = dict.fromkeys(named, -1)
    for at, unit in enumerate(whole):
        for term in unit.terms:
            first.setdefault(term, at)
    return Passage(named, whole, names, parts, {s.start: at for at, s in enumerate(spans)}, first)


def names_in(text: str) -> list[str]:
    """Runs of words with a capital letter or a digit; a capital that only begins the text makes no name."""
    runs: list[list[str]] = []
    ended = True
    for at, token in enumerate(text.split()):
        word = _POSSESSIVE.sub("", token.strip(_EDGES))
        marked = bool(word) and (word != word.lower() or word[0].isdigit())
        if marked and at and not ended:
            runs[-1].append(word)
        elif marked and at:
            runs.append([word])
        ended = not marked or at == 0 or token[-1] in ",;:.!?"
    return [" ".join(run) for run in runs]


def column_words(row: str) -> Terms:
    """The words that stand only in the names of a row's columns."""
    return terms_of(" ".join(name for name, _ in cells_of(row))) - row_values(row)


@functools.lru_cache(maxsize=4096)
def row_values(row: str) -> Terms:
    """The words of all values of a row."""
    return terms_of(" ".join(value for _, value in cells_of(row)))


def cells_of(row: str) -> list[tuple[str, str]]:
    """The cells of a row: the name of the column, empty if it has none, and the value."""
    return [_named(cell) for cell in _CELL.split(row)]


def _named(cell: str) -> tuple[str, str]:
    """The name of the column of a cell, empty if it has none, and its value."""
    name, named, value = cell.partition(": ")
    return (name, value) if named else ("", cell)


def _parts(text: str, is_row: bool) -> Iterator[Unit]:
    if is_row:
        cells = _CELL.split(text)
        values = frozenset[bytes]().union(*(terms_of(_named(cell)[1]) for cell in cells))
        for cell in cells:
            yield _unit(cell, _line(cell), terms_of(cell) | values)
        return
    before: Terms = frozenset()
    for clause in _clauses(text):
        terms = terms_of(clause)
        spoken = frozenset(term for term in before if not term[:1].isdigit())
        elliptic = all(term in before or term[:1].isdigit() or term in FUNCTION_TERMS for term in terms)
        names = frozenset() if clause[:1].isupper() else spoken
        yield _unit(clause, _line(clause), terms | spoken if elliptic else terms, names)
        before |= terms


def _clauses(text: str) -> Iterator[str]:
    """Clauses with a number and a word each; what has neither belongs to the next one."""
    pending, number, word = "", False, False
    for clause in _CLAUSE.split(text):
        pending = f"{pending} {clause}".strip()
        words = compared_words(clause)
        number, word = number or any(map(is_number, words)), word or any(map(str.isalpha, words))
        if number and word:
            yield pending
            pending, number, word = "", False, False
    if pending:
        yield pending


def _unit(text: str, line: str, terms: Terms, before: Terms = frozenset()) -> Unit:
    numbers = frozenset(word for word in line.split() if is_number(word))
    names = frozenset[bytes]().union(*map(terms_of, names_in(text)))
    return Unit(line, terms, before, numbers, frozenset(name for name in names if not name[:1].isdigit()))


def _line(text: str) -> str:
    return f" {' '.join(compared_words(text))} "
