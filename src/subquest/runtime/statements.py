"""Whether a sentence of a document states something, decided by words alone.

    a result of a few words   stands in the sentence word for word; with a number in it, its words in any order
    a result of five or more  its names and numbers all stand there, and most of its other words; both or neither negate

Names are words with a capital letter. Function words (the, of, was, ...) count in word-for-word matches alone.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..retrieval.analysis import STOP_WORDS
from .normalization import compared_words, folded_words, is_number, raw_words
from .table_rows import is_row

LONGEST_QUOTE = 1000
"""Characters of a quote."""
_WORD = 50
"""A quote is cut at a space if there is one this near."""
SHORT = 5
"""A result with this many words or more is read as a sentence."""
MOST = 0.6
"""Share of a sentence's words that must occur where it is stated, besides all its names and numbers."""
NEARLY_ALL = 0.8
"""The same for a sentence without names and numbers."""
FUNCTION_WORDS = frozenset(word.decode() for word in STOP_WORDS["english"])
NEGATIONS = frozenset(("cannot", "neither", "never", "no", "none", "nor", "not", "without"))
_OPENERS = frozenset(
    (
        *("according", "after", "all", "also", "although", "because", "before", "both", "during", "each", "every"),
        *("however", "overall", "since", "some", "through", "until", "while", "within", "yet"),
    )
)
"""Words that are no names although sentences begin with them."""
_ARTICLES = frozenset(("a", "an", "the"))
_YES_NO = re.compile(r"\W{0,8}\b(yes|no|true|false)(?:\W*\Z|[,;:!]|\.(?!\s*\d)|\s+[-\u2013\u2014]\s)", re.IGNORECASE)
"""Not the beginning of a name: No Country for Old Men, No. 5."""
_DECLINES = frozenset(
    {
        *("cannot be determined", "i do not know", "i don t know", "n a", "no answer", "no information was found"),
        *("no result", "no result was found", "not found", "not known", "nothing was found", "unknown"),
    }
)
_LINE = re.compile(r"[^\n]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[\w])|(?<=[。！？])[」』”’）]*\s*")
_ITEM = re.compile(r"(?:\d{1,3}|[a-z])\.")
"""The number of an item in a list."""
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Jr|Sr|vs|No|c|ca|e\.g|i\.e)\.$")


class Claim(NamedTuple):
    """What a document may state: a result, or a sentence that a role wrote."""

    line: str
    """Its words, each with a space on both sides; empty if it has none."""
    words: frozenset[str]
    """Without function words."""
    needed: frozenset[str]
    """Its names and numbers."""
    numeric: bool
    short: bool
    negated: bool


class Left(NamedTuple):
    """The part of a claim that the title of a document does not say."""

    needed: frozenset[str]
    words: frozenset[str]


class Sentence(NamedTuple):
    start: int
    end: int
    line: str
    words: frozenset[str]
    is_row: bool = False
    """Whether it is a row of a table."""


class Words(NamedTuple):
    """A short text: a title, a task, a quote."""

    line: str
    words: frozenset[str]


class Text(NamedTuple):
    """A document as it is searched for statements."""

    lines: str
    """The lines of all sentences, one below the other."""
    words: frozenset[str]
    sentences: tuple[Sentence, ...]
    row_words: frozenset[str] = frozenset()
    """Of all rows of tables."""


@functools.lru_cache(maxsize=1024)
def claim_of(text: str) -> Claim:
    words = compared_words(text)
    if len(words) > 1 and words[0] in _ARTICLES:
        del words[0]
    marked = (word for word in raw_words(text) if word != word.lower() or not word.isalpha())
    needed = frozenset(part for word in marked for part in compared_words(word)) - FUNCTION_WORDS - _OPENERS
    kept = frozenset(words)
    return Claim(
        line=line_of(words),
        words=kept - FUNCTION_WORDS,
        needed=needed,
        numeric=any(map(is_number, kept)),
        short=len(words) < SHORT,
        negated=not kept.isdisjoint(NEGATIONS),
    )


def declines(text: str) -> bool:
    """Whether a result only says that the answer is not known, or also, after a colon, what is not."""
    said, _, missing = text.partition(":")
    return " ".join(folded_words(said if missing.lstrip()[:1].islower() else text)) in _DECLINES


def yes_or_no(text: str) -> tuple[str, str]:
    """The yes or no that a result begins with, and the text after it."""
    match = _YES_NO.match(text)
    return (match[1].casefold(), text[match.end() :]) if match else ("", "")


def restated(claim: Claim, left: Left, sentence: Sentence) -> bool:
    """Whether a sentence, with the title of its document, says the same as a claim in other words or order."""
    if not left.needed <= sentence.words:
        return False
    missing = len(left.words - sentence.words)
    if claim.short:
        return not missing
    share = 1 - missing / max(len(claim.words), 1)
    negated = not sentence.words.isdisjoint(NEGATIONS)
    return claim.negated == negated and share >= (MOST if claim.needed else NEARLY_ALL)


def left_to_say(claim: Claim, text: Text, title: frozenset[str]) -> Left | None:
    """What a sentence has to say that says the same in other words; None if none can.

    A name of a few words has no other words.
    """
    if claim.short and not claim.numeric:
        return None
    needed = claim.needed - title
    return Left(needed, claim.words - title) if needed <= text.words else None


def line_of(words: Sequence[str]) -> str:
    return f" {' '.join(words)} " if words else ""


@functools.lru_cache(maxsize=4096)
def words_of(text: str) -> Words:
    words = compared_words(text)
    return Words(line_of(words), frozenset(words))


@functools.lru_cache(maxsize=4096)
def title_of(text: str) -> Words:
    """A title; a note in brackets at its end distinguishes namesakes and is not part of the name."""
    name = text.rpartition("(")[0] if text.endswith(")") else text
    return Words(words_of(name).line, words_of(text).words)


@functools.lru_cache(maxsize=4096)
def analysed(text: str) -> Text:
    found = []
    for start, end in sentences(text):
        row = is_row(text[start:end])
        for first, last in _stretches(text, start, end):
            words = compared_words(text[first:last])
            if words:
                found.append(Sentence(first, last, line_of(words), frozenset(words), row))
    lines = "\n".join(s.line for s in found)
    rows = frozenset().union(*(s.words for s in found if s.is_row))
    return Text(lines, frozenset().union(*(s.words for s in found)), tuple(found), rows)


def _stretches(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """A sentence; an extremely long one (a text without full stops) as parts that overlap by half."""
    if end - start <= LONGEST_QUOTE:
        yield start, end
        return
    for at in range(start, end - LONGEST_QUOTE // 2, LONGEST_QUOTE // 2):
        first, last = at, min(end, at + LONGEST_QUOTE)
        if first > start and (blank := text.find(" ", first, first + _WORD)) >= 0:
            first = blank + 1
        if last < end and (blank := text.rfind(" ", last - _WORD, last)) >= 0:
            last = blank
        yield first, last


def sentences(text: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, without the number of a list's item.

    An initial or a common abbreviation does not end one. A table's row is one.
    """
    spans: list[tuple[int, int]] = []
    for line in _LINE.finditer(text):
        start, last = line.span()
        for match in () if is_row(line[0]) else _SENTENCE_END.finditer(text, start, last):
            if _ABBREVIATION.search(text[max(start, match.start() - 6) : match.start()]):
                continue
            before = text[start : match.start()].strip()
            if before and not (start == line.start() and _ITEM.fullmatch(before)):
                spans.append((start, match.start()))
            start = match.end()
        if rest := text[start:last].rstrip():
            spans.append((start, start + len(rest)))
    return spans
