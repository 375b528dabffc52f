"""Text for a terminal: styles, lines that do not wrap, and nothing that could control the terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from typing import Any, TextIO


def is_live(stream: TextIO) -> bool:
    """Whether lines can be redrawn there: a terminal that moves its cursor, not a pipe or a dumb terminal."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Paint:
    """Puts ANSI styles around text, or leaves it plain (a pipe, NO_COLOR, a dumb terminal)."""

    def __init__(self, stream: TextIO) -> None:
        self._colour = is_live(stream) and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style and text else text


def printable(text: str) -> str:
    """One line without control characters, so that no document can control the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def json_text(record: Any) -> str:
    """A JSON document on one line: readable where standard output can show it, else with escapes."""
    text = json.dumps(record, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        return text
    except UnicodeEncodeError:
        return json.dumps(record)


def wrapped(text: str, indent: str = "") -> str:
    """A paragraph wrapped to the width of the terminal, with `indent` before all lines but the first."""
    return textwrap.fill(text, shutil.get_terminal_size().columns - 1, subsequent_indent=indent) or text


def clipped(line: str, columns: int) -> str:
    """A line cut so that it does not wrap; styles take no width."""
    out, width = "", 0
    for part in re.findall(r"\x1b\[[\d;]*m|.", line, re.DOTALL):
        width += not part.startswith("\x1b")
        if part.startswith("\x1b") or width < columns:
            out += part
    return out
