"""Questions, what is known about their answers, and the documents that they are asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..codec import Record
from ..errors import UsageError

MAX_QUESTION = 32_768
"""Characters; a longer question is a document and belongs in an index."""


class Document(Record):
    """A passage that search can return."""

    id: str
    title: str
    text: str
    meta: Mapping[str, Any] = {}
    """Where it came from, if known: file, page, url, position, language, ..."""


class Hit(Record):
    """A document found by a search, with the score it was ranked by."""

    document: Document
    score: float


class Step(Record):
    """One step of a gold decomposition; `#n` in the question stands for the answer of step n (from 1)."""

    question: str
    answer: str = ""
    support: str = ""
    """Title or id of the document that answers it, if known."""


PUBLIC_FILES = "public_files"
"""Key in a question's `meta`: whether its files are published (as in GAIA), so not private documents."""


UNKNOWN = "unknown"
"""The answer of an agent that abstains, and the gold answer of questions that the documents cannot answer."""


class Question(Record):
    """A question with what is known about its answer."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    dataset: str = ""
    split: str = ""
    hops: int | None = None
    type: str = ""
    supporting_titles: tuple[str, ...] = ()
    supporting_ids: tuple[str, ...] = ()
    context_ids: tuple[str, ...] = ()
    decomposition: tuple[Step, ...] = ()
    level: str = ""
    files: tuple[str, ...] = ()
    """Paths of attached files (GAIA)."""
    meta: Mapping[str, Any] = {}

    @property
    def unanswerable(self) -> bool:
        """Whether the documents lack the answer, so that `unknown` is the right one."""
        return self.answers == (UNKNOWN,)


def checked_question(question: str | Question, number: int = 0) -> Question:
    """The question as a record; refuses an empty or absurdly long one."""
    record = question if isinstance(question, Question) else Question(f"q{number}", question)
    given: Any = record.question
    if not isinstance(given, str):
        raise UsageError(f"a question is a text or a Question, not {given!r}")
    text = given.strip()
    if not text.isprintable() and any("\ud800" <= c <= "\udfff" for c in text):
        raise UsageError("the question is not valid UTF-8 text")
    if not text:
        raise UsageError("the question is empty")
    if len(text) > MAX_QUESTION:
        raise UsageError(
            f"the question has {len(text):,} characters, at most {MAX_QUESTION:,} are accepted; "
            "put long texts into an index (subquest index build) and ask about them"
        )
    return record
