"""The information barrier: what keeps documents out of shielded contexts (CoDA 3.2, DECOR 4.2, APEX).

A shielded context is never shown documents. That alone is no barrier, because a role that reads them can copy them into
its report. So verbatim passages of `VERBATIM_WORDS` words or more are cut from what a shielded context is told. Names,
dates and sentences pass; documents do not.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..record import Document
from .normalization import folded_words, word_pattern

VERBATIM_WORDS = 50
"""Words of one document in a row from which on a passage is cut."""
_PASSAGE = 2000
"""Longest text, in characters, whose word sequences are cached: other episodes read the same passages. They take fifty
times the memory of their text, so those of whole files are not kept."""


class BarrierError(AssertionError):
    """A system tried to show documents to a shielded context, which is a bug in the system."""


class Barrier:
    """Finds and cuts verbatim passages. What the question itself quotes may pass."""

    def __init__(self, question: str) -> None:
        self._asked = _sequences(question)
        self._read: set[str] = set()
        """Ids of the documents that are in `_sequences`."""
        self._sequences: set[str] = set()

    def cut(self, text: str, documents: Mapping[str, Document]) -> str:
        """The text, with verbatim passages of the documents cut to fewer than `VERBATIM_WORDS` words."""
        if not documents or len(text) < (
            2 * VERBATIM_WORDS - 1 if text.isascii() else VERBATIM_WORDS
        ):  # too short for that many words
            return text
        words = list(word_pattern(text).finditer(text))
        if len(words) < VERBATIM_WORDS:
            return text
        for identifier, document in documents.items():
            if identifier not in self._read:
                self._read.add(identifier)
                self._sequences |= _sequences(document.text) - self._asked
        folded = [word[0].casefold() for word in words]
        kept, position, previous = "", 0, -2
        for at in range(len(words) - VERBATIM_WORDS + 1):
            run = " ".join(folded[at : at + VERBATIM_WORDS])
            if run in self._sequences:
                excess = words[at + VERBATIM_WORDS - 1]
                kept += "" if at == previous + 1 else text[position : excess.start()] + "…"
                position, previous = excess.end(), at
        return kept + text[position:]


def _sequences(text: str) -> frozenset[str]:
    """Every sequence of `VERBATIM_WORDS` words of a text, in lower case: capitals do not hide a copy."""
    return _cached_sequences(text) if len(text) <= _PASSAGE else _find_sequences(text)


def _find_sequences(text: str) -> frozenset[str]:
    words = folded_words(text)
    return frozenset(" ".join(words[i : i + VERBATIM_WORDS]) for i in range(len(words) - VERBATIM_WORDS + 1))


_cached_sequences = functools.lru_cache(maxsize=1024)(_find_sequences)
