"""Markdown without its markup. Marks are blanked, not removed, so that the rest keeps its place in the file.

`blanked` puts `FILL`, a character that no text has, in place of marks inside a line, and blanks in place of marks that
take a line or its beginning; `unmarked` removes the fillers once a passage is cut. Headings and fences stay as they
are: the splitter needs them. Code stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

FILL = "\ue001"
_HELD = "\ue002"
"""Stands for a character of code, or an escaped one, while the marks around it are found."""
_LONGEST = 8192
"""Characters of a line in which marks are looked for: unclosed ones take time quadratic in its length."""
FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_LINE = re.compile(r"^\s{0,3}(?:([-*_])(?:[ \t]*\1){2,}|=+|\[[^\]]*\]:\s*#.*)\s*$")
"""A rule, the line below a heading, a comment."""
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
    """A line of a text, or a row of a table in it."""

    text: str
    cells: tuple[str, ...] | None = None
    """None for a line of text; empty for the line below the names of the columns."""


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


def table_lines(lines: Iterable[str], *, marks: bool) -> Iterator[Line]:
    """The lines, those of tables with their cells. `marks`: blank markup outside of code."""
    fenced, rows = False, False
    waiting: str | None = None
    for line in lines:
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
        rows = rows and "|" in line and bool(line.strip())
        waiting = line
    if waiting is not None:
        whole = fenced or not marks or FENCE.match(waiting) is not None
        yield Line(waiting, _cells(waiting)) if rows else Line(waiting if whole else blanked(waiting))


def _cells(line: str) -> tuple[str, ...]:
    inside = line.strip().removeprefix("|")
    inside = inside[:-1] if inside.endswith("|") and not inside.endswith("\\|") else inside
    return tuple(unmarked(blanked(cell)).strip() or "" for cell in _BAR.split(inside)) or ("",)
