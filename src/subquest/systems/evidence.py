"""Evidence: which sentence of which document that was read supports what was found.

Quotes are chosen by code from the documents themselves, so a citation can never be invented by a model.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..places import place_of
from ..record import Document, Evidence
from .words import folded_words

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[\w])|\n+|(?<=[。！？])[」』”’）]*\s*")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|No|c|ca|e\.g|i\.e)\.$")

LONGEST_QUOTE = 1000
"""Characters of a quote."""
_WORD = 50
"""A quote is cut at a blank where there is one so near."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a role concluded, and the documents it had read by then."""

    task: str
    result: str
    notes: str
    """What it wrote about the documents before it concluded (refine, filter)."""
    documents: Sequence[Document]
    trajectory: str = ""
    query: str = ""


def newest(findings: Sequence[Finding]) -> str:
    """The newest result that says something; empty where none does."""
    return next((finding.result for finding in reversed(findings) if finding.result), "")


def support(findings: Sequence[Finding]) -> tuple[Evidence, ...]:
    """For each finding the sentence that supports it best, where there is one; no quote twice."""
    quotes: dict[tuple[str, int], Evidence] = {}
    for finding in findings:
        evidence = _best(finding)
        if evidence is not None:
            quotes.setdefault((evidence.id, evidence.start), evidence)
    return tuple(quotes.values())


def _best(finding: Finding) -> Evidence | None:
    result = folded_words(finding.result)
    task = frozenset(folded_words(finding.task))
    about = task.union(folded_words(finding.notes))
    wanted = f" {' '.join(result)} " if result else ""
    size = max(len(about), 1)
    enough = 0.6 * size
    best: tuple[float, Document, _Sentence] | None = None
    for document in finding.documents:
        title = _title(document.title)
        from_title = about & title
        named = 0.5 * (bool(title) and title <= task)  # the document about what was asked, not about a namesake
        text = _analysed(document.text)
        stated = bool(wanted) and wanted in text.lines
        if not stated and text.longest + len(from_title) < enough:
            continue
        for sentence in text.sentences:
            states = stated and wanted in sentence.line
            if not states and len(sentence.words) + len(from_title) < enough:
                continue
            shared = about & sentence.words
            overlap = len(shared | from_title if from_title else shared) / size
            if (states or overlap >= 0.6) and (best is None or states + overlap + named > best[0]):
                best = (states + overlap + named, document, sentence)
    if best is None:
        return None
    _, document, sentence = best
    start, end = _stretch(document.text, sentence, finding.result)
    place = place_of(document.meta)
    return Evidence(
        document.id, document.title, document.text[start:end], start, finding.trajectory, finding.query, place
    )


def _stretch(text: str, sentence: _Sentence, result: str) -> tuple[int, int]:
    """What is quoted: the sentence; of one beyond all measure (a text without full stops) the part with the result."""
    start, end = sentence.start, sentence.end
    if end - start <= LONGEST_QUOTE:
        return start, end
    found = re.compile(re.escape(result.strip()), re.IGNORECASE).search(text, start, end)
    first = max(start, found.start() - LONGEST_QUOTE // 2) if found else start
    last = min(end, first + LONGEST_QUOTE)
    if first > start and (blank := text.find(" ", first, first + _WORD)) >= 0:
        first = blank + 1
    if last < end and (blank := text.rfind(" ", last - _WORD, last)) >= 0:
        last = blank
    return first, last


class _Sentence(NamedTuple):
    start: int
    end: int
    line: str
    """Its words, each with a blank on both sides."""
    words: frozenset[str]


class _Text(NamedTuple):
    lines: str
    """The lines of all sentences, one below the other."""
    longest: int
    """Distinct words of the sentence that has most."""
    sentences: tuple[_Sentence, ...]


@functools.lru_cache(maxsize=4096)
def _title(text: str) -> frozenset[str]:
    return frozenset(folded_words(text))


@functools.lru_cache(maxsize=4096)
def _analysed(text: str) -> _Text:
    found = []
    for start, end in sentences(text):
        words = folded_words(text[start:end])
        if words:
            found.append(_Sentence(start, end, f" {' '.join(words)} ", frozenset(words)))
    return _Text("\n".join(s.line for s in found), max((len(s.words) for s in found), default=0), tuple(found))


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence; an initial or a common abbreviation does not end one."""
    spans: list[tuple[int, int]] = []
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if "\n" not in match[0] and _ABBREVIATION.search(text[max(start, match.start() - 6) : match.start()]):
            continue
        if text[start : match.start()].strip():
            spans.append((start, match.start()))
        start = match.end()
    if text[start:].strip():
        spans.append((start, len(text.rstrip())))
    return spans
