"""Markdown without its markup. Marks are blanked, not removed, so that the rest keeps its place in the file.

`blanked` puts `FILL`, a character that no text has, in place of marks inside a line, and blanks in place of marks that
take a line or its beginning; `unmarked` removes the fillers once a passage is cut. Headings and fences stay as they
are: the splitter needs them. Code stays as it is written.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

FILL = "\ue001"
_HELD = "\ue002"
"""Stands for a character of code, or an escaped one, while the marks around it are found."""
_LONGEST = 8192
"""Characters of a line in which marks are looked for: unclosed ones take time quadratic in its length."""
FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_LINE = re.compile(r"^\s{0,3}(?:([-*_])(?:[ \t]*\1){2,}|=+|\[[^\]]*\]:\s*#.*)\s*$")
"""A rule, the line below a heading, a comment."""
_UNDERLINE = re.compile(r" {0,3}(={2,}|-{2,})[ \t]*[\r\n]*$")
_SIGNATURE = "-- "
"""What stands above the signature of a message."""
_NO_HEADING = re.compile(r" {0,3}(?:#{1,6}\s|[>|<]|[-*+•]\s|\[[^\]]*\]:)| {4}| {0,3}\t")
"""How a line begins that is no heading, whatever stands below it: an item, a quote, a row, a tag, a link, code."""
_HASHED = re.compile(r"#{1,6}\s+\S")
_NUMBERED = re.compile(r"\s*\d{1,9}[.)]\s")
_LONGEST_HEADING = 200
"""Characters of an underlined heading; a longer line above a rule is a paragraph."""
_QUOTE = re.compile(r"^\s{0,3}(?:>\s?)+")
_BULLET = re.compile(r"^(\s*)[*+](?=\s)")
_VERBATIM = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)|\\([!-/:-@\[-`{-~])")
_TARGET = r"\((?:[^()\s<]|<[^>]*>|\([^()\s]*\))*(?:\s+(?:\"[^\"]*\"|'[^']*'))?\)"
_WORDS = r"((?:[^\[\]]|\[[^\[\]]*\])+)"
_MARKS = [
    re.compile(pattern)
    for pattern in (
        r"<!--().*?-->",
        rf"!\[((?:[^\[\]])*)\]{_TARGET}",
        rf"(?<!!)\[{_WORDS}\]{_TARGET}",
        r"\[([^\[\]^]+)\]\[[^\[\]]*\]",
        r"<((?:https?://|mailto:)[^>\s]+|[\w.+-]+@[\w.-]+)>",
        r"</?(?:a|b|i|em|strong|u|s|sub|sup|span|kbd|code|small|font|img)(?:\s[^>]*)?/?>()",
        r"\*\*(?=\S)(.+?)(?<=\S)\*\*",
        r"(?<!\w)__(?=\S)(.+?)(?<=\S)__(?!\w)",
        r"~~(?=\S)(.+?)(?<=\S)~~",
        r"(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])",
        r"(?<![\w_])_(?=[^\s_])(.+?)(?<=[^\s_])_(?![\w_])",
        r"(?<!\S)\*\*(?=\S)()|(?<=\S)\*\*(?!\S)",  # opened in one line, closed in another
    )
]
_BREAK = re.compile(r"</?(?:br|p|div|details|summary|center|hr)(?:\s[^>]*)?/?>|\\$", re.IGNORECASE)
_DELIMITER = re.compile(r"^\s*\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?\s*$")
_BAR = re.compile(r"(?<!\\)\|")


class Line(NamedTuple):
    """A line of a text, a row of a table in it, or a heading with the line below it."""

    text: str
    cells: tuple[str, ...] | None = None
    """None for a line of text; empty for the line below the names of the columns."""
    level: int = 0
    """Of an underlined heading: 1 above `====`, 2 above `----`."""


def blanked(line: str) -> str:
    """A line, of the same length, without its marks."""
    if _LINE.match(line):
        return re.sub(r"[^\r\n]", " ", line)
    if ">" in line and (quote := _QUOTE.match(line)):
        line = " " * quote.end() + line[quote.end() :]
    line = _BULLET.sub(r"\1-", line)
    if len(line) > _LONGEST or not any(mark in line for mark in "*_`[<~\\"):
        return line
    verbatim: list[str] = []

    def hold(found: re.Match[str]) -> str:
        ticks, code, escaped = found.groups()
        verbatim.append(code or escaped)
        side = FILL * len(ticks or "")
        return f"{side}{_HELD * len(code)}{side}" if code else FILL + _HELD

    line = _BREAK.sub(lambda found: " " * len(found[0]), _VERBATIM.sub(hold, line))
    for mark in _MARKS:
        line = mark.sub(_words_alone, line)
    given = iter(verbatim)
    return re.sub(f"{_HELD}+", lambda _: next(given), line)


def _words_alone(found: re.Match[str]) -> str:
    if not found[1]:
        return FILL * len(found[0])
    before, after = found.start(1) - found.start(), found.end() - found.end(1)
    return FILL * before + found[1] + FILL * after


def unmarked(text: str) -> str:
    """The text without fillers and without the lines that fence code."""
    if FILL in text:
        text = text.replace(FILL, "")
    if "```" in text or "~~~" in text:
        text = "\n".join(line for line in text.split("\n") if not FENCE.match(line))
    return text.strip("\n")


class _Signs(NamedTuple):
    """A line, and the signs that it consists of if it may stand below a heading."""

    text: str
    signs: str

    def underlines(self, line: str) -> bool:
        """Whether the line above it is a heading, if a paragraph begins there.

        One with a number may be an item of a list above a rule, so it must be underlined to its end.
        """
        words = line.strip()
        if not self.signs or len(words) > _LONGEST_HEADING or not line.endswith(("\n", "\r")):
            return False
        numbered = _NUMBERED.match(line) is not None and len(self.signs) < len(words)
        return any(map(str.isalnum, words)) and not numbered and _NO_HEADING.match(line) is None


def _signs_of(line: str) -> _Signs:
    under = _UNDERLINE.match(line) if line[:5].lstrip(" ")[:1] in ("=", "-") else None
    return _Signs(line, under[1] if under is not None and line.rstrip("\r\n") != _SIGNATURE else "")


def _with_underlined(lines: Iterable[str]) -> Iterator[Line]:
    """The lines, underlined headings together with the line below them.

    A heading is a paragraph of one line: CommonMark allows several, but then a rule that was set right below a text
    would make all of it a heading. The line of signs that some put above a heading too is blanked.
    """
    rest = map(_signs_of, lines)
    ahead: deque[_Signs] = deque(islice(rest, 3))
    fenced, begins = False, True
    while ahead:
        line, below = ahead[0].text, ahead[1] if len(ahead) > 1 else _Signs("", "")
        taken = 1
        if not fenced and begins and below.underlines(line):
            yield Line(line + below.text, level=1 if below.signs[0] == "=" else 2)
            taken = 2
        elif (
            not fenced
            and len(ahead) > 2
            and ahead[0].signs[:1] == ahead[2].signs[:1]
            and ahead[2].underlines(below.text)
        ):
            yield Line(re.sub(r"[^\r\n]", " ", line))
            begins = True
        else:
            yield Line(line)
            fence = FENCE.match(line) is not None
            fenced ^= fence
            begins = fence or not line.strip() or any(kind.match(line) for kind in (_LINE, _HASHED))
        for _ in range(taken):
            ahead.popleft()
        ahead.extend(islice(rest, taken))


def table_lines(lines: Iterable[str], *, marks: bool) -> Iterator[Line]:
    """The lines, those of tables with their cells, and underlined headings. `marks`: blank markup outside of code."""
    fenced, rows = False, False
    waiting: str | None = None
    for line, _, level in _with_underlined(lines):
        if waiting is not None:
            if rows:
                yield Line(waiting, _cells(waiting))
            elif not fenced and "|" in waiting and "|" in line and _DELIMITER.match(line):
                yield Line(waiting, _cells(waiting))
                yield Line(line, ())
                waiting, rows = None, True
                continue
            else:
                fence = FENCE.match(waiting) is not None
                yield Line(waiting if fenced or fence or not marks else blanked(waiting))
                fenced ^= fence
        if level:
            yield Line(blanked(line) if marks else line, level=level)
            waiting, rows = None, False
            continue
        rows = rows and "|" in line and bool(line.strip())
        waiting = line
    if waiting is not None:
        whole = fenced or not marks or FENCE.match(waiting) is not None
        yield Line(waiting, _cells(waiting)) if rows else Line(waiting if whole else blanked(waiting))


def _cells(line: str) -> tuple[str, ...]:
    inside = line.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith("\\|") else inside
    return tuple(unmarked(blanked(cell)).strip() or "" for cell in _BAR.split(inside)) or ("",)
