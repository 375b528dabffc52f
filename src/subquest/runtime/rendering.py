"""How documents and search results are written: as text for a context, and as data for an event."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import Any, TypeVar

from ..citation import cite, place_of
from ..engine import Engine
from ..record import Document, Hit
from .window import Groups, Shown

RESULT_TOKENS = 256
"""About the size of one result in a list."""

T = TypeVar("T")


def render_documents(documents: Sequence[Document], tokens: int, engine: Engine) -> str:
    """Documents as Search-R1's checkpoints know them, one per line."""
    return "".join(
        f"Doc {number}(Title: {one_line(document.title)}) {cut_to_tokens(one_line(document.text), tokens, engine)}\n"
        for number, document in enumerate(documents, 1)
    )


def one_line(text: str) -> str:
    """The text without line breaks, so that no document can begin a line that looks like another document."""
    if text.isprintable() and "  " not in text:  # single spaces only
        return text.strip()
    return " ".join(text.split())


def cut_to_tokens(text: str, tokens: int, engine: Engine) -> str:
    """The text, cut at a word boundary to about `tokens`; tokens are counted only if it could be too long."""
    if len(text) <= tokens:
        return text
    count = engine.count_tokens(text)
    if count <= tokens:
        return text
    kept = text[: len(text) * tokens // count]
    words = kept.rsplit(None, 1)  # none of white space alone
    return f"{words[0]} …" if words and " " in kept else f"{kept}…"


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit as data for an event; with the page and a citation if it comes from a file."""
    document = hit.document
    data = {"id": document.id, "title": document.title, "text": document.text, "score": round(hit.score, 6)}
    if document.meta and (place := place_of(document.meta)):
        data["source"] = cite(place)
        if "page" in place:
            data["page"] = place["page"]
    return data


def render_results(hits: Sequence[Hit]) -> str:
    """Search results as a numbered list of title, address and text."""
    return list_documents([hit.document for hit in hits]) or "No results were found."


def list_documents(documents: Sequence[Document], characters: int = 800) -> str:
    lines = [
        f"[{n}] {one_line(document.title)} ({document.id})\n{one_line(document.text)[:characters]}"
        for n, document in enumerate(documents, 1)
    ]
    return "\n".join(lines)


def show_results(hits: Sequence[Hit], tokens: int, engine: Engine, wording: Callable[[str], T]) -> Shown[T]:
    """Search results as a list of at most `tokens`; if the window is full, the lowest ranked are removed."""
    kept: list[Document] = []
    used = 0
    for hit in hits:
        if used >= tokens:
            break
        kept.append(hit.document)
        used += engine.count_tokens(list_documents([hit.document]))

    def render(groups: Groups, nothing: str) -> T:
        return wording(cut_to_tokens(list_documents(groups[0]) or nothing, tokens, engine))

    return Shown([kept], render, RESULT_TOKENS)


def interleave(found: Sequence[Sequence[Hit]]) -> list[Hit]:
    """The results of several searches in turns: the first of each, then the second of each; no document twice.

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
