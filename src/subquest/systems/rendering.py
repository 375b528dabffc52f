"""How documents are written: into a context as text, and into an event as what a reader may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..citation import cite, place_of
from ..engine import Engine
from ..record import Document, Hit


def render_documents(documents: Sequence[Document], tokens: int, engine: Engine) -> str:
    """Documents as Search-R1's checkpoints know them, one a line."""
    return "".join(
        f"Doc {number}(Title: {one_line(document.title)}) {cut_to_tokens(one_line(document.text), tokens, engine)}\n"
        for number, document in enumerate(documents, 1)
    )


def one_line(text: str) -> str:
    """The text without line breaks, so that no document can begin a line that looks like another document."""
    if text.isprintable() and "  " not in text:  # of all white space, only single blanks
        return text.strip()
    return " ".join(text.split())


def cut_to_tokens(text: str, tokens: int, engine: Engine) -> str:
    """The text, cut at a word boundary to about `tokens`; counted only where it could be too long."""
    if len(text) <= tokens:
        return text
    count = engine.count_tokens(text)
    if count <= tokens:
        return text
    kept = text[: len(text) * tokens // count]
    words = kept.rsplit(None, 1)  # none of white space alone
    return f"{words[0]} …" if words and " " in kept else f"{kept}…"


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit as events tell it; with the page and the words to cite it by where it comes from a file."""
    document = hit.document
    told = {"id": document.id, "title": document.title, "text": document.text, "score": round(hit.score, 6)}
    if document.meta and (place := place_of(document.meta)):
        told["source"] = cite(place)
        if "page" in place:
            told["page"] = place["page"]
    return told
