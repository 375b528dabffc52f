"""The information barrier: what keeps documents out of shielded contexts (CoDA 3.2, DECOR 4.2, APEX).

A shielded context is never shown documents. That alone is no barrier, for a role that reads them may copy them into
what it reports. So what a shielded context is told loses every verbatim stretch of a document from `RAW_RUN` words on.
Names, dates and sentences pass; documents do not.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..record import Document
from .normalization import folded_words, word_pattern

RAW_RUN = 50
"""Longest run of words of one document that may stand verbatim in what a shielded context is told, plus one."""
_PASSAGE = 2000
"""Characters of a text whose runs are remembered: other episodes read the same passages. Runs take fifty times the
memory of their text, so those of whole files are not kept."""


class BarrierError(AssertionError):
    """A system tried to show documents to a shielded context: a defect of the system."""


class Barrier:
    """Finds and cuts verbatim stretches. What the question itself quotes may pass."""

    def __init__(self, question: str) -> None:
        self._asked = _runs(question)
        self._read: set[str] = set()
        """Ids of documents whose runs are among `_raw`."""
        self._raw: set[str] = set()

    def cut(self, text: str, documents: Mapping[str, Document]) -> str:
        """The text with verbatim stretches of the documents cut to below `RAW_RUN` words."""
        if not documents or len(text) < (2 * RAW_RUN - 1 if text.isascii() else RAW_RUN):  # too short for so many words
            return text
        words = list(word_pattern(text).finditer(text))
        if len(words) < RAW_RUN:
            return text
        for identifier, document in documents.items():
            if identifier not in self._read:
                self._read.add(identifier)
                self._raw |= _runs(document.text) - self._asked
        folded = [word[0].casefold() for word in words]
        kept, position, previous = "", 0, -2
        for at in range(len(words) - RAW_RUN + 1):
            run = " ".join(folded[at : at + RAW_RUN])
            if run in self._raw:
                excess = words[at + RAW_RUN - 1]
                kept += "" if at == previous + 1 else text[position : excess.start()] + "…"
                position, previous = excess.end(), at
        return kept + text[position:]


def _runs(text: str) -> frozenset[str]:
    """Every run of `RAW_RUN` words of a text, in small letters: capitals do not hide a copy."""
    return _remembered(text) if len(text) <= _PASSAGE else _runs_of(text)


def _runs_of(text: str) -> frozenset[str]:
    words = folded_words(text)
    return frozenset(" ".join(words[i : i + RAW_RUN]) for i in range(len(words) - RAW_RUN + 1))


_remembered = functools.lru_cache(maxsize=1024)(_runs_of)
