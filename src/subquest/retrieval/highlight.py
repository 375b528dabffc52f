"""Highlighting: which part of a passage matches a query."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from .analysis import Analysis

_END = re.compile(r"(?<![.!?؟۔।॥])[.!?؟۔।॥]++[\"'”’»)\]]*(?=\s|$)|[。！？]+[」』”’）]*|\n")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Mt|Prof|Jr|Sr|vs|No|c|ca|e\.g|i\.e)\.$")
_LONGEST_ABBREVIATION = 6
LONGEST = 300
"""Characters that are marked."""


class Span(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int


def highlight(text: str, query: str, analysis: Analysis) -> Span:
    """The sentence that has most of the query's terms (each counted once, the first of equals), cut to `LONGEST`.

    An empty span at 0 where no sentence has any.
    """
    wanted = set(analysis.query_terms(query))
    best, best_count = Span(0, 0), 0
    for span in _sentences(text):
        sentence = text[span.start : span.end]
        count = len(wanted & set(analysis.terms(sentence)))
        if count > best_count:
            best_count = count
            start = span.start + len(sentence) - len(sentence.lstrip())
            best = Span(start, span.start + len(sentence.rstrip()))
    if best.end - best.start <= LONGEST:
        return best
    start = max(best.start, _first(text, best, wanted, analysis) - LONGEST // 4)
    return Span(start, min(best.end, start + LONGEST))


def _sentences(text: str) -> Iterator[Span]:
    start = 0
    for end in _END.finditer(text):
        if end[0] != "." or not _ABBREVIATION.search(text, max(0, end.start() - _LONGEST_ABBREVIATION), end.end()):
            yield Span(start, end.end())
            start = end.end()
    if start < len(text):
        yield Span(start, len(text))


def _first(text: str, span: Span, wanted: set[bytes], analysis: Analysis) -> int:
    """Where the first of the wanted terms occurs; inside a run without blanks, by its pairs of characters."""
    for match in re.finditer(r"\S+", text[span.start : span.end]):
        run = match.group()
        if wanted & set(analysis.terms(run)):
            inside = (i for i in range(len(run) - 1) if wanted & set(analysis.terms(run[i : i + 2])))
            return span.start + match.start() + next(inside, 0)
    return span.start
