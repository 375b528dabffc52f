"""Answers written in sentences, with the quotes that support them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ..citation import place_in
from ..codec import Record
from ..errors import DataError
from .question import Document

Style = Literal["short", "sentence", "report"]
"""How an answer is written: a few words, one or two sentences, a report with sections."""
STYLES: tuple[Style, ...] = get_args(Style)


class Evidence(Record):
    """A quote from a document; `from_document` checks that the document contains it."""

    id: str
    title: str
    quote: str
    start: int = 0
    """Position of the quote in the document's text, of which the role that read it may have been shown only parts."""
    trajectory: str = ""
    """Id of the trajectory that read the document."""
    query: str = ""
    place: Mapping[str, Any] = {}
    """Where the quote is: file, page, slide, sheet, row, line, section, url, as far as known (`citation`)."""
    states_answer: bool = False
    """Whether it is the quote that states the answer; the others state sub-results or lead to it."""

    @classmethod
    def from_document(cls, document: Document, quote: str, *, trajectory: str = "", query: str = "") -> Evidence:
        start = document.text.find(quote)
        if start < 0 or not quote:
            raise DataError(f"the quote is not in document {document.id!r}: {quote[:80]!r}")
        place = place_in(document.meta, document.text, start, start + len(quote))
        return cls(document.id, document.title, quote, start, trajectory, query, place)


class Sentence(Record):
    """A sentence of a written answer, with the quotes that support it."""

    text: str
    sources: tuple[int, ...] = ()
    """Numbers of the episode's `evidence`, counted from 1."""


class Section(Record):
    """A section of a report: a sub-task of its outline and what was written about it."""

    title: str
    task: str
    sentences: tuple[Sentence, ...] = ()
    missing: str = ""
    """Why it has no sentences: not found in the documents, or what failed."""


class Report(Record):
    """An answer in sentences. Every sentence is supported by the quotes it cites; others were dropped."""

    style: Style
    title: str = ""
    sections: tuple[Section, ...] = ()
    short: str = ""
    """The answer in a few words (style `sentence`)."""
    dropped: int = 0
    """Sentences that the model wrote and no quote supports."""
