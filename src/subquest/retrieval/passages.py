"""Passages: long texts cut at sentence ends into pieces of about 100 words.

A piece is what search finds and what a citation points to, so it keeps its place in the text and the Markdown heading
it stands under. Sentences are never cut, unless one alone is longer than twice the aim; paragraphs are not joined
across headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

AIM = 100
"""Words of a passage."""

_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$")
_SENTENCE = re.compile(r"\S.*?(?:[.!?][\"'”’)\]]*(?=\s)|[。！？]|(?=\n\s*\n)|\Z)", re.DOTALL)
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\s\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")


class Passage(NamedTuple):
    text: str
    start: int
    """Place of its first character in the whole text."""
    heading: str
    """The Markdown heading it stands under, empty for none."""


def cut(text: str, aim: int = AIM) -> Iterator[Passage]:
    """The passages of a text, in order."""
    for start, section, heading in _sections(text):
        begin = end = -1
        words = 0
        for match in _pieces(section, aim):
            count = len(_WORD.findall(match[0]))
            if begin >= 0 and words + count > aim * 1.25:
                yield Passage(section[begin:end], start + begin, heading)
                begin, words = -1, 0
            if begin < 0:
                begin = match[1]
            end = match[1] + len(match[0])
            words += count
            if words >= aim:
                yield Passage(section[begin:end], start + begin, heading)
                begin, words = -1, 0
        if begin >= 0:
            yield Passage(section[begin:end], start + begin, heading)


def _pieces(section: str, aim: int) -> Iterator[tuple[str, int]]:
    """Sentences, and of overlong ones pieces of `aim` words, each with its place."""
    for match in _SENTENCE.finditer(section):
        sentence = match.group().rstrip()
        words = list(_WORD.finditer(sentence))
        if len(words) <= 2 * aim:
            yield sentence, match.start()
            continue
        for i in range(0, len(words), aim):
            first, last = words[i].start(), words[min(i + aim, len(words)) - 1].end()
            yield sentence[first:last], match.start() + first


def _sections(text: str) -> Iterator[tuple[int, str, str]]:
    """Place, text and heading of the stretches between Markdown headings."""
    heading, begin, place = "", 0, 0
    for line in text.splitlines(keepends=True):
        if found := _HEADING.match(line):
            if text[begin:place].strip():
                yield begin, text[begin:place], heading
            heading, begin = found.group(1), place + len(line)
        place += len(line)
    if text[begin:].strip():
        yield begin, text[begin:], heading
