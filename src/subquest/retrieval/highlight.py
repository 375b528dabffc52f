"""Highlighting: which part of a passage answers to a query."""

from __future__ import annotations

import re
from typing import NamedTuple

from .analysis import Analysis

_SENTENCE = re.compile(r"[^.!?。！？\n]*(?:[.!?。！？]+[\"'”’)\]]*|\n|$)\s*")


class Span(NamedTuple):
    """A part of a text, from `start` to before `end`."""

    start: int
    end: int


def highlight(text: str, query: str, analysis: Analysis, *, longest: int = 300) -> Span:
    """The sentence that has most of the query's terms (each counted once, the first of equals), cut to `longest`.

    An empty span at 0 where no sentence has any.
    """
    wanted = set(analysis.query_terms(query))
    best, best_count = Span(0, 0), 0
    for match in _SENTENCE.finditer(text):
        sentence = match.group()
        count = len(wanted & set(analysis.terms(sentence)))
        if count > best_count:
            best_count = count
            start = match.start() + len(sentence) - len(sentence.lstrip())
            best = Span(start, match.start() + len(sentence.rstrip()))
    if best.end - best.start <= longest:
        return best
    for match in re.finditer(r"\S+", text[best.start : best.end]):
        if wanted & set(analysis.terms(match.group())):
            start = max(best.start, best.start + match.start() - longest // 4)
            return Span(start, min(best.end, start + longest))
    return Span(best.start, best.start + longest)
