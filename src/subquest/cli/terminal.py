"""What commands need of a terminal: styles, lines that do not wrap, and a line that counts up."""

from __future__ import annotations

import json
import os
import shutil
import sys
import textwrap
import time
from typing import Any, TextIO


def is_live(stream: TextIO) -> bool:
    """Whether lines can be drawn anew there: a terminal that moves its cursor, not a pipe or a dumb terminal."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"


class Paint:
    """Puts ANSI styles around text, or leaves it plain (a pipe, NO_COLOR, a dumb terminal)."""

    def __init__(self, stream: TextIO) -> None:
        self._colour = is_live(stream) and not os.environ.get("NO_COLOR")

    def __call__(self, text: str, style: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour and style and text else text


def printable(text: str) -> str:
    """One line without control characters, so that no document can drive the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def json_text(record: Any) -> str:
    """A JSON document on one line: readable where standard output can show it, else with escapes."""
    text = json.dumps(record, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
        return text
    except UnicodeEncodeError:
        return json.dumps(record)


def wrapped(text: str) -> str:
    """A paragraph in the width of the terminal."""
    return "\n".join(textwrap.wrap(text, shutil.get_terminal_size().columns - 1)) or text


def clipped(line: str, columns: int) -> str:
    """A line that does not wrap; styles take no room."""
    out, width, at = "", 0, 0
    while at < len(line):
        if line[at] == "\x1b":
            end = line.index("m", at) + 1
            out += line[at:end]
            at = end
            continue
        if width < columns - 1:
            out += line[at]
        width += 1
        at += 1
    return out


class Counter:
    """How far a long job is: a line that is rewritten, with rate and time left; silent where there is no terminal."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self._what, self._total, self._done = what, total, 0
        self._start = time.monotonic()
        self._shown = 0.0
        self._live = is_live(sys.stderr)

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live and self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def advance(self, more: int) -> None:
        self._done += more
        now = time.monotonic()
        if not self._live or now - self._shown < 0.1:
            return
        self._shown = now
        rate = self._done / max(now - self._start, 1e-9)
        line = f"{self._what}  {self._done:,}" + (f" of {self._total:,}" if self._total else "") + f"  {rate:,.0f}/s"
        if self._total and rate:
            line += f"  {(self._total - self._done) / rate:.0f} s left"
        print(f"\r{clipped(line, shutil.get_terminal_size().columns)}\x1b[K", end="", file=sys.stderr, flush=True)
