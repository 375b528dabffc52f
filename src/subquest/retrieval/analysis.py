"""Analysis: from text to terms, the same for documents and queries, recorded in the index.

Two stages. `fold` makes bytes in which only `a-z A-Z 0-9` and bytes above 127 belong to words: Unicode is normalised
(NFKC), case and Latin accents are folded, punctuation becomes blanks, and text of scripts without blanks between words
(Chinese, Japanese, Korean, Thai, ...) becomes overlapping pairs of characters; documents get the single characters as
well, so that a query of one character finds them. `terms` splits the bytes into words, drops a possessive *'s*,
lowercases ASCII and stems. ASCII text needs no folding, so the C kernel takes it as it is; the second stage exists here
and in the kernel, and a property test compares the two.

Stop words stay in the index and are dropped from queries, unless a query has nothing else, such as *to be or not to
be*.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from ..errors import UsageError
from .porter import stem

Language = Literal["english", "any"]

MAX_TERM = 64
"""Bytes of a term; longer ones are cut, so that a base64 blob cannot fill the dictionary."""

STOP_WORDS: Mapping[str, frozenset[bytes]] = {
    "english": frozenset(
        b"a about am an and any are as at be been being but by can could did do does doing for from had has have "
        b"having he her hers him his how i if in into is it its me my no nor not of on or our ours s she should so "
        b"such t than that the their theirs them then there these they this those to too us was we were what when "
        b"where which who whom whose why will with would you your yours".split()
    ),
    "any": frozenset(),
}

_WORD = re.compile(rb"([0-9a-z\x80-\xff]+)(?:'s(?![0-9a-z\x80-\xff]))?")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i", "ħ": "h"})
_APOSTROPHES = str.maketrans(dict.fromkeys("‘’ʼ＇", "'"))
# Scripts written without blanks: Hiragana to Katakana, CJK ideographs (with extensions), Hangul.
_CJK = re.compile(
    "[\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f々〆]+"
)
_UNSPACED = re.compile(f"{_CJK.pattern}|[\u0e01-\u0e4e\u0e81-\u0ece\u1000-\u103f\u1780-\u17d3]+")
"""These, and Thai, Lao, Burmese and Khmer with their vowel signs; a run ends where the script changes."""
# The letters among these, which stay as they are: everything in common text, without the middle dot and the like.
_PLAIN_CJK = re.compile(
    "[\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9ffc\uac00-\ud7a3々〆]+"
)
_SHORT = 32
"""Longest run whose folding is cached: words repeat, whole paragraphs of Chinese do not."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """How an index turns text into terms."""

    language: Language = "english"
    """english: Porter stems, English stop words dropped from queries; any: neither."""
    title_weight: int = 4
    """A title counts as if it were repeated this often; chosen on dev and train questions, see docs/search.md."""
    signs: bool = True
    """Whether single Chinese, Japanese and Korean characters of documents are terms, beside pairs of them."""
    thai: bool = True
    """Whether Thai, Lao, Burmese and Khmer, also without blanks between words, become pairs of characters too."""

    def __post_init__(self) -> None:
        if self.title_weight < 0:
            raise UsageError(f"the title's weight is {self.title_weight}; it must be 0 or more")
        if self.language not in STOP_WORDS:
            raise UsageError(f"unknown language {self.language!r}; choose one of {', '.join(STOP_WORDS)}")

    @classmethod
    def recorded(cls, record: Mapping[str, Any]) -> Analysis:
        """The analysis of an index from its settings; older indexes lack the newer fields."""
        return cls(**{"signs": False, "thai": False, **record})

    @property
    def stems(self) -> bool:
        return self.language == "english"

    def terms(self, text: str) -> list[bytes]:
        """The terms of a text in order: the reference for the kernel."""
        return self.folded_terms(fold(text, self.signs, self.thai))

    def document(self, title: str, text: str) -> bytes:
        """A document's title and text, weighted and folded, ready for `folded_terms` or the kernel."""
        heading = fold(title, self.signs, self.thai) + b"\n"
        return heading * self.title_weight + fold(text, self.signs, self.thai)

    def folded_terms(self, folded: bytes) -> list[bytes]:
        """The terms of folded text in order."""
        words = (word[:MAX_TERM] for word in _WORD.findall(folded.lower()))
        return [_stem(word) for word in words] if self.stems else list(words)

    def query_terms(self, text: str) -> list[bytes]:
        """The terms a query is searched by: stop words dropped unless there is nothing else."""
        words = [word[:MAX_TERM] for word in _WORD.findall(fold(text, thai=self.thai).lower())]
        stop = STOP_WORDS[self.language]
        words = [word for word in words if word not in stop] or words
        return [_stem(word) for word in words] if self.stems else words


_stem = lru_cache(maxsize=1 << 17)(stem)


def fold(text: str, signs: bool = False, thai: bool = True) -> bytes:
    """The text as bytes of words and separators; ASCII passes through unchanged."""
    if text.isascii():
        return text.encode()
    return _NOT_ASCII.sub(_folding(signs, thai), text).encode()


@lru_cache
def _folding(signs: bool, thai: bool) -> Callable[[re.Match[str]], str]:
    def folding(match: re.Match[str]) -> str:
        run = match.group()
        return _fold_word(run, signs, thai) if len(run) <= _SHORT else _fold_run(run, signs, thai)

    return folding


def _fold_run(run: str, signs: bool, thai: bool) -> str:
    """A run of non-ASCII characters, folded; the result does not depend on the text around it."""
    plain = unicodedata.normalize("NFKC", run.translate(_APOSTROPHES)).casefold()
    pieces, end = [], 0
    for match in (_UNSPACED if thai else _CJK).finditer(plain):
        pieces.append(_fold_letters(plain[end : match.start()]))
        terms = _pairs_and_signs(match) if signs else _pairs(match)
        pieces.append(terms if _PLAIN_CJK.fullmatch(match.group()) else _fold_letters(terms))
        end = match.end()
    return "".join([*pieces, _fold_letters(plain[end:])])


_fold_word = lru_cache(maxsize=1 << 15)(_fold_run)


def _fold_letters(letters: str) -> str:
    return "".join(map(_fold_character, letters)).translate(_LETTERS)


def _pairs(match: re.Match[str]) -> str:
    signs = match.group()
    return " " + " ".join(signs[i : i + 2] for i in range(max(1, len(signs) - 1))) + " "


def _pairs_and_signs(match: re.Match[str]) -> str:
    signs = match.group()
    return f"{_pairs(match)}{' '.join(signs)} " if len(signs) > 1 else _pairs(match)


@lru_cache(maxsize=1 << 14)
def _fold_character(character: str) -> str:
    if character.isascii():
        return character.lower()
    if "\u0300" <= character <= "\u036f":  # combining accents
        return ""
    base = unicodedata.normalize("NFD", character)[0]
    if base.isascii() and base.isalpha():
        return base
    if unicodedata.category(character)[0] in "LNM":
        return character
    return " "
