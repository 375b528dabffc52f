"""JSON as models write it: in code fences, with text around it, trailing commas, single quotes, cut off at the end."""

from __future__ import annotations

import ast
import json
import re
from typing import Any

_FENCE = re.compile(r"```(?:json)?\s*(.*?)(?:```|$)", re.DOTALL | re.IGNORECASE)
_TRAILING = re.compile(r",\s*([}\]])")
_COMMENT = re.compile(r"(?<![:\"'])#|(?<!:)//")
_STARTS = 20
"""Positions in a text at which an object is searched for."""


def find_object(text: str) -> dict[str, Any]:
    """The first JSON object that can be recognised in a text; empty if there is none."""
    for candidate in (*(m[1] for m in _FENCE.finditer(text)), text):
        for start in [m.start() for m in re.finditer("{", candidate)][:_STARTS]:
            found = _read(_balanced(candidate[start:]))
            if isinstance(found, dict):
                return found
    return {}


def object_at(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """The JSON object that begins at a position, and where it ends; None if there is none or it is not closed."""
    body = _balanced(text[start:])
    found = _read(body) if text.startswith(body, start) else None
    return (found, start + len(body)) if isinstance(found, dict) else None


def _read(body: str) -> Any:
    for attempt in (
        body,
        _TRAILING.sub(r"\1", "\n".join(map(_uncommented, body.split("\n")))),
        _TRAILING.sub(r"\1", body).replace("\n", "\\n"),
    ):
        try:
            return json.loads(attempt, strict=False)
        except (ValueError, RecursionError):
            continue
    try:
        return ast.literal_eval(_TRAILING.sub(r"\1", body))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None


def _uncommented(line: str) -> str:
    """A line without the comment at its end; a comment has no quotes in it."""
    comment = _COMMENT.search(line, max(line.rfind('"'), line.rfind("'")) + 1)
    return line[: comment.start()] if comment else line


def _balanced(text: str) -> str:
    """The text up to the end of the object it begins with; what was cut off is closed."""
    open_, quoted, escaped = [], False, False
    for at, char in enumerate(text):
        if escaped:
            escaped = False
        elif char == "\\":
            escaped = quoted
        elif char == '"':
            quoted = not quoted
        elif not quoted and char in "{[":
            open_.append("}" if char == "{" else "]")
        elif not quoted and char in "}]" and open_:
            open_.pop()
            if not open_:
                return text[: at + 1]
    return text + ('"' if quoted else "") + "".join(reversed(open_))
