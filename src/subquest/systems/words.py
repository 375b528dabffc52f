"""Words as code compares them: runs of letters and digits, and each character where a language puts no spaces."""

from __future__ import annotations

import re

_SPACED = re.compile(r"\w+")
_UNSPACED = "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
"""In Chinese and Japanese each character counts as a word."""


def word_pattern(text: str) -> re.Pattern[str]:
    """What a word of this text is."""
    return _SPACED if text.isascii() else _ANY


def folded_words(text: str) -> list[str]:
    """The words of a text in small letters."""
    folded = text.casefold()
    return word_pattern(folded).findall(folded)
