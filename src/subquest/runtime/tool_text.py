"""How results, names and code are put in words: for a model to read, or as models write them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from ..engine import Engine
from ..record import Document, Hit
from .rendering import cut_to_tokens
from .window import Groups, Shown

QUOTES = " \t\n<>[]\"'`"
"""What models put around the name of a file."""
RESULT_TOKENS = 256
"""About what one result of a list takes."""

T = TypeVar("T")


class Opened(NamedTuple):
    """A page as a model reads it."""

    text: str
    """Title, address and one part of the text, or why it did not open."""
    links: str = ""
    """The links of this part, numbered as in the text."""
    failed: bool = False

    @property
    def told(self) -> str:
        return f"{self.text}\nLinks:\n{self.links}" if self.links else self.text


def render(hits: Sequence[Hit]) -> str:
    """Search results as a numbered list of title, address and text."""
    return listed([hit.document for hit in hits]) or "No results were found."


def listed(documents: Sequence[Document], characters: int = 800) -> str:
    lines = [
        f"[{n}] {_line(document.title)} ({document.id})\n{_line(document.text)[:characters]}"
        for n, document in enumerate(documents, 1)
    ]
    return "\n".join(lines)


def shown_results(hits: Sequence[Hit], tokens: int, engine: Engine, worded: Callable[[str], T]) -> Shown[T]:
    """Search results as a list of at most so many tokens, put in words; from a full window the lowest ranked leave."""
    kept: list[Document] = []
    used = 0
    for hit in hits:
        if used >= tokens:
            break
        kept.append(hit.document)
        used += engine.count_tokens(listed([hit.document]))

    def render(groups: Groups, nothing: str) -> T:
        return worded(cut_to_tokens(listed(groups[0]) or nothing, tokens, engine))

    return Shown([kept], render, RESULT_TOKENS)


def interleaved(found: Sequence[Sequence[Hit]]) -> list[Hit]:
    """Results of several searches, the first of each, then the second of each; no document twice.

    A list that is cut at a length then holds something of every search.
    """
    rounds = (hit for hits in zip_longest(*found) for hit in hits if hit is not None)
    kept: dict[str, Hit] = {}
    for hit in rounds:
        kept.setdefault(hit.document.id, hit)
    return list(kept.values())


def today() -> str:
    """The date, for prompts of roles that search: "this year" means nothing to a model without it."""
    return datetime.date.today().isoformat()


def plain_name(name: str) -> str:
    """The name of a file that code chose, as one that is safe to write and to print."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("/", "_")
    return "".join(c if c.isprintable() else "_" for c in text)[-60:]


def with_part(reference: str) -> tuple[str, int]:
    """`http://… part 2` as the reference and the number of the part."""
    head, word, number = reference.strip().rpartition(" part ")
    counts = bool(word) and number.strip().isdecimal() and len(number.strip()) < 7
    return (head.strip().rstrip(","), int(number)) if counts else (reference.strip(), 1)


def bare_code(source: str) -> str:
    """Code without the fence or the word `python` that models put around it."""
    text = source.strip()
    if text.startswith("```"):
        text = text.removeprefix("```").removesuffix("```")
    first, newline, rest = text.partition("\n")
    return rest if newline and first.strip().lower() in ("python", "py", "") else text


def _line(text: str) -> str:
    return " ".join(text.split())
