"""Splitting long texts at sentence ends into passages of about 100 words.

A passage is what search finds and what a citation points to, so it keeps its offset in the text and the Markdown
headings above it. Sentences are never divided, unless one alone is longer than twice the aim; paragraphs are not joined
across headings. A `Splitter` takes text line by line and holds at most HOLD characters of the part between two
headings, so a file of any size is split in bounded memory; the result does not depend on how the text is fed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..errors import UsageError
from ..readers.markdown import FENCE, FILL

HOLD = 1 << 16
"""Characters that are collected before complete passages are yielded."""

_HEADING = re.compile(r"^(#{1,6})\s+(?=\S)")
_END = re.compile(rf"[.!?؟۔।॥][\"'”’)\]{FILL}]*(?=\s)|[。！？]|\n(?=\s*\n)|\n(?=[ \t]*(?:[-*+•▪◦]|\d{{1,3}}[.)])[ \t])")
"""The end of a sentence, a paragraph or an item of a list."""
_BEGIN = re.compile(r"\S")
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}]{{1,200}}")
_TOKEN = re.compile(rf"[{_CJK}]|[^\W_{_CJK}]{{1,7}}|[^\w\s]+|_")


@dataclass(frozen=True, slots=True)
class Size:
    """How long a passage should be."""

    aim: int = 100
    unit: Literal["words", "tokens"] = "words"
    """words: divided by blanks, each Chinese, Japanese or Korean character is one; tokens: an estimate of what
    language models count, seven letters or a run of punctuation to a token."""

    def __post_init__(self) -> None:
        if not 10 <= self.aim <= 10_000:
            raise UsageError(f"passages of {self.aim} {self.unit}: choose from 10 to 10,000")

    def count(self, text: str) -> int:
        if self.unit == "words" and text.isascii():
            words = text.split()
            if len(text) <= 200 or max(map(len, words), default=0) <= 200:
                return len(words)
        return len((_WORD if self.unit == "words" else _TOKEN).findall(text))

    def __str__(self) -> str:
        return f"{self.aim} {self.unit}"


class Passage(NamedTuple):
    text: str
    start: int
    """Offset of its first character in the whole text."""
    heading: str
    """The Markdown heading above it, empty for none."""
    section: tuple[str, ...] = ()
    """The headings above it, outermost first."""
    line: int = 1
    """The line of its first character, from 1."""


def split(text: str, size: Size | None = None) -> Iterator[Passage]:
    """The passages of a text, in order."""
    splitter = Splitter(size or Size())
    for line in text.splitlines(keepends=True):
        yield from splitter.line(line)
    yield from splitter.end()


class Splitter:
    """Splits a text that comes line by line."""

    def __init__(self, size: Size, *, markdown: bool = True) -> None:
        self._size = size
        self._markdown = markdown
        self._levels: list[tuple[int, str]] = []
        self._fenced = False
        self._held: list[str] = []
        self._length = 0
        self._limit = HOLD
        self._inside = False
        """Whether the held text begins inside an overlong sentence."""
        self._start = 0
        self._line = 1
        self._fresh = True
        """Whether the next piece starts a line."""
        self._bare = False
        """Whether there is no text under the last heading so far."""
        self._place = (0, 1)
        """Offset and line of the last heading."""

    def line(self, line: str) -> Iterator[Passage]:
        """Add a line with its end, or a part of an overlong one; yields the passages that are complete by then."""
        if self._markdown and self._fresh:
            if FENCE.match(line):
                self._fenced = not self._fenced
            elif not self._fenced and (found := _HEADING.match(line)):
                yield from self.heading(len(found.group(1)), _heading_words(line[found.end() :]), line)
                return
        self._fresh = line.endswith(("\n", "\r"))
        self._bare = self._bare and not line.strip()
        self._held.append(line)
        self._length += len(line)
        if self._length >= self._limit:
            yield from self._give(last=False)

    @property
    def section(self) -> tuple[str, ...]:
        """The headings above the next line, outermost first."""
        return tuple(heading for _, heading in self._levels)

    @property
    def next_line(self) -> int:
        """The number of the next line, if nothing is held."""
        return self._line

    def skip(self, line: str) -> Iterator[Passage]:
        """Leave out a line that is read elsewhere, such as a row of a table; no passage spans it."""
        self._bare = False
        yield from self._give(last=True)
        self._advance(line)

    def end(self) -> Iterator[Passage]:
        """The passages of the held text; a heading without text is one as well."""
        if self._bare:
            yield from self._alone()
        yield from self._give(last=True)

    def heading(self, level: int, words: str, line: str) -> Iterator[Passage]:
        """Add a heading; `line` is what stands in the text, which may be two lines."""
        if self._bare and level <= self._levels[-1][0]:
            yield from self._alone()
        yield from self._give(last=True)
        self._levels = [*((n, text) for n, text in self._levels if n < level), (level, words)]
        self._bare = True
        self._place = self._start, self._line
        self._advance(line)

    def _alone(self) -> Iterator[Passage]:
        self._bare = False
        section = self.section
        yield Passage(section[-1], self._place[0], section[-1], section, self._place[1])

    def _give(self, *, last: bool) -> Iterator[Passage]:
        text = "".join(self._held)
        section = self.section
        spans = list(_spans(text, self._size, self._inside))
        given = spans if last else spans[:-1]
        done = 0
        for begin, end, _ in given:
            self._advance(text[done:begin])
            yield Passage(text[begin:end], self._start, section[-1] if section else "", section, self._line)
            done = begin
        keep = len(text) if last or not spans else spans[-1][0]
        self._advance(text[done:keep])
        self._held, self._length = [text[keep:]], len(text) - keep
        self._limit = max(HOLD, 2 * self._length)
        self._inside = not last and bool(spans) and spans[-1][2]

    def _advance(self, text: str) -> None:
        self._start += len(text)
        self._line += text.count("\n")


def _heading_words(rest: str) -> str:
    """A heading without the marks that may close it; if it has nothing else, its first mark."""
    words = rest.rstrip()
    return words.rstrip("#").rstrip() or words[:1]


def _spans(text: str, size: Size, inside: bool) -> Iterator[tuple[int, int, bool]]:
    """Begin and end of the passages of a text without headings, and whether they begin inside a sentence.

    Whether a sentence belongs to a passage does not depend on what follows it, so all but the last passage stay the
    same when more text is added.
    """
    begin = end = -1
    held, within = 0, False
    for first, last, count, goes_on in _pieces(text, size, inside):
        if begin >= 0 and held + count > size.aim * 1.25:
            yield begin, end, within
            begin, held = -1, 0
        if begin < 0:
            begin, within = first, goes_on
        end = last
        held += count
        if held >= size.aim:
            yield begin, end, within
            begin, held = -1, 0
    if begin >= 0:
        yield begin, end, within


def _pieces(text: str, size: Size, inside: bool) -> Iterator[tuple[int, int, int, bool]]:
    """Begin, end and length of sentences, overlong ones in pieces of the aimed length; whether a piece continues one.

    `inside`: the text begins in the middle of an overlong sentence.
    """
    for start, sentence in _sentences(text):
        count = size.count(sentence)
        if count <= 2 * size.aim and not inside:
            yield start, start + len(sentence), count, False
            continue
        words = [(word.start(), word.end(), size.count(word.group())) for word in _WORD.finditer(sentence)]
        first, held = 0, 0
        for i, (_, end, more) in enumerate(words):
            held += more
            if held >= size.aim or i == len(words) - 1:
                yield start + words[first][0], start + end, held, inside or first > 0
                first, held = i + 1, 0
        inside = False


def _sentences(text: str) -> Iterator[tuple[int, str]]:
    """Offset and text of each sentence."""
    end = 0
    while begin := _BEGIN.search(text, end):
        start = begin.start()
        found = _END.search(text, start + 1)
        end = found.end() if found else len(text)
        yield start, text[start:end].rstrip()


_BULLET = re.compile(
    r"\s*(?:[-*+•▪◦]\s|\(?(?:\d{1,3}|[A-Za-z])[.)]\s|[|>#]|\s{4}|\t|```|~~~|$|(?:From|To|Cc|Date|Sent|Subject):\s)"
)
"""How a line begins that does not continue the one before: an item of a list, a row, code, a field of a message."""


def unwrapped(text: str, width: int = 45) -> str:
    """Hard-wrapped prose as running text: a line of at least `width` characters continues in the next one.

    So does a shorter first line, of which a passage may have only the end, where a sentence begins in it and continues
    with a small letter. Lists, tables, code, quotes and short lines keep their line ends. Sentences can then be read,
    and quoted, as one.
    """
    return "".join(f"{gap}{line}" for gap, line in joined_lines(text, width)) if "\n" in text else text


def joined_lines(text: str, width: int = 45) -> list[tuple[str, str]]:
    """The lines of a text, each with what stands before it in the running text: a blank or a line end."""
    out: list[tuple[str, str]] = []
    fenced = joins = False
    before = ""
    for number, line in enumerate(text.splitlines()):
        fence = FENCE.match(line) is not None
        plain = not (fenced or fence) and not _BULLET.match(line)
        if plain and (joins or (number == 1 and _goes_on(before, line))):
            if before[-1:].isspace():
                out[-1] = out[-1][0], out[-1][1].rstrip()
            out.append((" ", line.lstrip()))
        else:
            out.append(("\n" if out else "", line))
        before = line
        fenced ^= fence
        joins = not (fenced or fence) and len(line) >= width and not line.startswith(("|", "    ", "\t"))
    return out


def _goes_on(first: str, second: str) -> bool:
    begins = first[:1].isupper() and " " in first and first.rstrip()[-1:] not in ".!?:;"
    return begins and second.lstrip()[:1].islower() and not _BULLET.match(first)
