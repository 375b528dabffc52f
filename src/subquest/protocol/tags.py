"""One tolerant parser for the tags that agents act by.

Two dialects: XML style, `<task>...</task>`, and HiRA's `<|begin_x|>...<|end_x|>`. Models leave tags open, repeat them,
write them in capitals or inside their thinking. The parser never raises and never loses text: it returns the blocks it
can make out, and says in `problems` what was malformed, because format rewards and the trace need to know.

How odd input is read:

- Inside `think` everything up to its closing tag is thought, tags included. A `think` that is never closed ends where
  the first block after it begins that is closed properly.
- A block that is never closed ends at the next tag, or at the end of the text.
- A tag of another kind inside a block is part of its content if the block is closed later; the tag itself is dropped.
- A closing tag without an opening one is a problem and is dropped. Only `</think>` means something: chat templates of
  reasoning models open `think` in the prompt, so all before it is thought, if a block comes after it or, where no tag
  stands before it, anything at all.
- An opening tag written twice is one.
- HiRA's tokens may lack a bar or have a slash too many: `</|end_x|>`, `<|end_x>` and `</|begin_x|>` end the block.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..codec import Record

TAGS: tuple[str, ...] = (
    "think",
    "plan",
    "task",
    "result",
    "search",
    "sql",
    "documents",
    "information",
    "refine",
    "filter",
    "memory",
    "answer",
    "call",
    "tool_call",
    "tool_response",
)
"""XML-style tags that some system of ours acts by; HiRA's dialect is recognised by its form."""

_THINK = re.compile(r"<(/?)think>", re.IGNORECASE)


class Block(Record):
    """A tag and what it holds."""

    tag: str
    """Lower case; HiRA's `<|begin_x|>` gives `x`."""
    content: str
    """Without surrounding white space and without tags nested in it."""
    start: int
    end: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Parsed:
    blocks: tuple[Block, ...]
    problems: tuple[str, ...]
    outside: str
    """Text outside all blocks, stripped."""

    def all(self, *tags: str) -> tuple[Block, ...]:
        return tuple([b for b in self.blocks if b.tag in tags])

    def first(self, *tags: str) -> Block | None:
        for block in self.blocks:
            if block.tag in tags:
                return block
        return None

    def last(self, *tags: str) -> Block | None:
        return next((b for b in reversed(self.blocks) if b.tag in tags), None)

    def text(self, tag: str) -> str:
        """Content of the first block of that tag, empty if there is none."""
        block = self.first(tag)
        return block.content if block else ""


class _Token(NamedTuple):
    tag: str
    opens: bool
    closes: bool
    start: int
    end: int
    tidy: bool


_WITH_BAR = r"(?=[^<>]{0,90}\|)"
_MARKS = r"[\s/|]{0,20}"
"""What stands around the name in HiRA's tokens, and what models write in its place."""


def end_token(name: str) -> str:
    """A pattern of what ends a block of HiRA's, as the parser reads it; `name` is a pattern too."""
    return rf"<{_WITH_BAR}(?:{_MARKS}end|[\s|]{{0,20}}/{_MARKS}begin)_{name}{_MARKS}>"


@functools.lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    names = "|".join(sorted(map(re.escape, tags), key=len, reverse=True))
    xml = rf"<[ \t]*+(?P<slash>/?)[ \t]*(?P<xml>{names})(?P<rest>(?:\s[^<>]{{0,200}})?)(?P<self>/?)>"
    name = r"(?P<edge>begin|end)_(?P<hira>[a-z][a-z_]{0,40})"
    hira = rf"<{_WITH_BAR}(?P<lead>{_MARKS}){name}{_MARKS}>"
    return re.compile(f"{xml}|{hira}", re.IGNORECASE)


def _tokens(text: str, tags: tuple[str, ...]) -> list[_Token]:
    found = []
    for match in _pattern(tags).finditer(text):
        slash, xml, rest, empty, lead, edge, hira = match.groups()
        start, end = match.span()
        if hira:
            begins = edge.lower() == "begin" and "/" not in lead
            tag = hira.lower()
            tidy = match[0] == f"<|{'begin' if begins else 'end'}_{tag}|>"
            found.append(_Token(tag, begins, not begins, start, end, tidy))
        else:
            tag = xml.lower()
            tidy = match[0] == f"<{slash}{tag}>" or bool(rest.strip())
            found.append(_Token(tag, not slash, bool(slash or empty), start, end, tidy))
    return found


def parse(text: str, tags: Iterable[str] = TAGS) -> Parsed:
    """The blocks of a text, in order."""
    names = tuple(tags)
    return _parse_tidy(text, names) or _parse_odd(text, names)


@functools.lru_cache(maxsize=64)
def _tidy_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"<({'|'.join(map(re.escape, tags))})>([^<]*)</\1>")


def _parse_tidy(text: str, tags: tuple[str, ...]) -> Parsed | None:
    """The quick way for what models should write, and mostly do: blocks side by side, each closed, no `<` elsewhere."""
    blocks: list[Block] = []
    outside: list[str] = []
    position = 0
    for match in _tidy_pattern(tags).finditer(text):
        start, end = match.span()
        outside.append(text[position:start])
        position = end
        tag, content = match.groups()
        blocks.append(Block(tag, content.strip(), start, end, True))
    if text.count("<") != 2 * len(blocks):
        return None
    outside.append(text[position:])
    return Parsed(tuple(blocks), (), " ".join(" ".join(outside).split()))


def _parse_odd(text: str, tags: tuple[str, ...]) -> Parsed:
    """Whatever a model may write."""
    tokens = _tokens(text, tags)
    closers: dict[str, list[int]] = {}
    for at, token in enumerate(tokens):
        if token.closes and not token.opens:
            closers.setdefault(token.tag, []).append(at)

    blocks: list[Block] = []
    problems: list[str] = [f"odd spelling of <{t.tag}>" for t in tokens if not t.tidy]
    outside: list[str] = []
    position = at = 0
    if (thought := _thought_before(text, tokens)) is not None:
        position, at = tokens[thought].end, thought + 1
        blocks.append(Block("think", text[: tokens[thought].start].strip(), 0, position, True))
        problems.append("</think> without <think>")
    while at < len(tokens):
        token = tokens[at]
        outside.append(text[position : token.start])
        if not token.opens:
            problems.append(f"</{token.tag}> without <{token.tag}>")
            position, at = token.end, at + 1
            continue
        if token.closes:  # self-closing
            blocks.append(Block(token.tag, "", token.start, token.end, True))
            position, at = token.end, at + 1
            continue
        stop, closed = _find_end(tokens, at, closers)
        end = tokens[stop].start if stop < len(tokens) else len(text)
        inner = tokens[at + 1 : stop]
        raw = text[token.end : end] if token.tag == "think" else _without(text, inner, token.end, end)
        content, over = raw.strip(), tokens[stop].end if closed else end
        again = stop < len(tokens) and tokens[stop].opens and tokens[stop].tag == token.tag
        if closed or content or not again:
            blocks.append(Block(token.tag, content, token.start, over, closed))
        if not closed:
            problems.append(f"<{token.tag}> is not closed")
        elif token.tag != "think":
            problems += [f"<{t.tag}> inside <{token.tag}>" for t in inner if t.opens]
        position, at = over, stop + 1 if closed else stop
    outside.append(text[position:])
    return Parsed(tuple(blocks), tuple(problems), " ".join(" ".join(outside).split()))


def _thought_before(text: str, tokens: Sequence[_Token]) -> int | None:
    """Index of a `</think>` that ends a thought begun before the text: nothing opened it, and something follows."""
    at = next((at for at, token in enumerate(tokens) if token.tag == "think"), None)
    if at is None or tokens[at].opens:
        return None
    follows = any(t.opens for t in tokens[at + 1 :]) if at else bool(text[tokens[at].end :].strip())
    return at if follows else None


def _find_end(tokens: Sequence[_Token], at: int, closers: dict[str, list[int]]) -> tuple[int, bool]:
    """Index of the token that ends the block opened at `at`, and whether that token closes it."""
    tag = tokens[at].tag
    own = closers.get(tag, [])
    place = bisect_right(own, at)
    close = own[place] if place < len(own) else None
    if tag == "think":
        if close is not None:
            return close, True
        for later in range(at + 1, len(tokens)):  # unclosed: up to the first block that is closed properly
            if tokens[later].opens and any(c > later for c in closers.get(tokens[later].tag, ())[-1:]):
                return later, False
        return len(tokens), False
    if close is None:
        return at + 1, False
    for later in range(at + 1, close):
        if tokens[later].opens and tokens[later].tag == tag:
            return later, False
    return close, True


def _without(text: str, inner: Sequence[_Token], start: int, end: int) -> str:
    if not inner:
        return text[start:end]
    kept, position = [], start
    for token in inner:
        kept.append(text[position : token.start])
        position = token.end
    return "".join([*kept, text[position:end]])


def in_thought(text: str) -> bool:
    """Whether a text ends inside a `<think>` that it has not closed."""
    marks = list(_THINK.finditer(text))
    return bool(marks) and not marks[-1][1]


def closing(*tags: str) -> tuple[str, ...]:
    """Stop strings that end a turn at the closing tag of any of these."""
    return tuple(f"</{tag}>" for tag in tags)
