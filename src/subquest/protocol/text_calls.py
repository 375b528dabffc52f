"""Tool calls that a model wrote as text, in the usual forms, because its server did not recognise them as calls.

    <tool_call>{"name": "search", "arguments": {"query": "…"}}</tool_call>      Hermes, Qwen
    ```json {"name": …, "arguments": …} ```                                     the same in a code fence
    {"name": "search", "parameters": {"query": "…"}}                            Llama; also in a list or behind a mark
    <function=search><parameter=query>…</parameter></function>                  Qwen3-Coder; Llama writes JSON inside

An object counts as a call if it names a function that there is. Behind a mark such as `<tool_call>` any name counts: it
was meant as a call, and the model should be told that there is no such function.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NamedTuple

from .loose_json import find_object, object_at
from .tags import in_thought

_FUNCTION = re.compile(r"<function=([\w.-]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=(\w+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
_MARK = re.compile(r"(?:<\|?tool_calls?\|?>|<\|python_tag\|>|\[TOOL_CALLS\]|functools)[\s\[]*\Z")
_OPENING = re.compile(rf"(?:{_MARK.pattern}|```[\w-]*[\s\[]*\Z|\[\s*\Z)")
_CLOSING = re.compile(r"</tool_calls?>|<\|/tool_calls?\|>|```")
_LONGEST_OPENING = 60
_STARTS = 20
"""Positions at which a call is looked for."""


class TextCall(NamedTuple):
    name: str
    arguments: str
    """JSON, as an endpoint gives it."""


class TextCalls(NamedTuple):
    before: str
    """What was said before the first call. What follows the calls is dropped: no result can be known there yet."""
    calls: tuple[TextCall, ...]


def find_calls(text: str, names: Collection[str], *, cut: bool = False) -> TextCalls:
    """The calls in a text outside its thought. Of a text that was `cut` off, an unfinished call is none."""
    if in_thought(text):
        return TextCalls(text, ())
    start = text.rfind("</think>") + 1
    found = _functions(text, start, cut) or _objects(text, start, names, cut)
    if not found:
        return TextCalls(text, ())
    return TextCalls(_without_opening(text[: found[0][0]]), tuple(call for _, call in found))


def _functions(text: str, start: int, cut: bool) -> list[tuple[int, TextCall]]:
    found = []
    for match in _FUNCTION.finditer(text, start):
        if cut and not match[0].endswith("</function>"):
            break
        values: dict[str, Any] = {m[1]: m[2] for m in _PARAMETER.finditer(match[2])} or find_object(match[2])
        found.append((match.start(), TextCall(match[1], json.dumps(values, ensure_ascii=False))))
    return found


def _objects(text: str, start: int, names: Collection[str], cut: bool) -> list[tuple[int, TextCall]]:
    found: list[tuple[int, TextCall]] = []
    outer, inside = start, start  # the last object that is no call itself, and its end
    for _ in range(_STARTS):
        if (start := text.find("{", start)) < 0:
            break
        value, end = object_at(text, start) or ({} if cut else _unclosed(text, start), start + 1)
        call = _call(value)
        if call is not None and (call.name in names or _MARK.search(text[max(0, start - _LONGEST_OPENING) : start])):
            found.append((outer if start < inside else start, call))
            start = end
        else:
            outer, inside = (outer, inside) if start < inside else (start, end)
            start += 1  # a call may be inside it
    return found


def _unclosed(text: str, start: int) -> dict[str, Any]:
    """An object that lacks its last braces, up to the mark that ends the call."""
    closing = _CLOSING.search(text, start)
    return find_object(text[start : closing.start() if closing else len(text)])


def _call(value: dict[str, Any]) -> TextCall | None:
    name, arguments = value.get("name"), value.get("arguments", value.get("parameters"))
    if not isinstance(name, str) or not isinstance(arguments, dict | str):
        return None
    return TextCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False))


def _without_opening(text: str) -> str:
    while True:
        text = text.rstrip()
        tail = text[-_LONGEST_OPENING:]
        if (mark := _OPENING.search(tail)) is None:
            return text
        text = text[: len(text) - len(tail) + mark.start()]
