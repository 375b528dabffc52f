"""Words in the form in which they are compared: letters and digits; single characters in languages without spaces.

`folded_words` is for runs of words (`barrier`). `compared_words` is for what a text states (`evidence`): there a number
is one word, the same however it is written.
"""

from __future__ import annotations

import re

from ..english import MONTHS, WEEKDAYS

CALENDAR = frozenset(name.casefold() for name in (*MONTHS, *WEEKDAYS))
"""Months and days, which look like names."""
IN_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SPACED = re.compile(r"\w+")
_UNSPACED = "\u3005-\u3007\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_ANY = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
"""In Chinese and Japanese each character counts as a word."""

_GAPS = "\u00a0\u2009\u202f"
"""Non-breaking spaces: 3 200 with one of them is one number."""
_SIGN = r"(?:(?<![^\s(\[])[-\u2212](?=\d))?"
_INSIDE = rf"(?<=\d)[.,'\u2019{_GAPS}](?=\d)"
_SPACED_WITH_NUMBERS = rf"{_SIGN}\w+(?:{_INSIDE}\w+)*|%"
_ANY_WITH_NUMBERS = rf"[{_UNSPACED}]|{_SIGN}[^\W{_UNSPACED}]+(?:{_INSIDE}[^\W{_UNSPACED}]+)*|%"
_ISO_DATE = r"(?<![\w-])\d{4}-\d\d-\d\d(?![\w-])"
_NUMERIC = re.compile(r"[\d%]")
_COMPARED = re.compile(f"{_ISO_DATE}|{_SPACED_WITH_NUMBERS}")
_COMPARED_ANY = re.compile(f"{_ISO_DATE}|{_ANY_WITH_NUMBERS}")

_GROUPED = re.compile(rf"\d{{1,3}}(?:([,'\u2019{_GAPS}])\d{{3}})(?:\1\d{{3}})*(?:\.\d+)?")
_GROUPED_BY_DOTS = re.compile(r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}")
_DECIMAL = re.compile(r"\d+\.\d+|\d+,\d\d?")
_DATE = re.compile(r"(\d\d\d\d)-(\d\d)-(\d\d)|(\d\d?)\.(\d\d?)\.(\d{4})")
_GROUPING = re.compile(rf"[,'\u2019{_GAPS}]")


def word_pattern(text: str) -> re.Pattern[str]:
    """The pattern of a word in this text."""
    return _SPACED if text.isascii() else _ANY


def folded_words(text: str) -> list[str]:
    """The words of a text in lower case."""
    folded = text.casefold()
    return word_pattern(folded).findall(folded)


def raw_words(text: str) -> list[str]:
    """The words of a text as they are written, each number with its sign, its groups and its decimals."""
    return (_COMPARED if text.isascii() else _COMPARED_ANY).findall(text)


def compared_words(text: str) -> list[str]:
    """The words of a text in lower case, each number in one form: 3,200 is `3200`, 2.50 is `2.5`, 10% `10 percent`.

    A date in digits is its year, month and day, of which only the year is found by itself: `2024 -05 -17`.
    """
    if _NUMERIC.search(text) is None:
        return folded_words(text)
    found: list[str] = []
    for word in raw_words(text.casefold()):
        if word.isalpha() or word.isdigit():
            found.append(word)
        else:
            found += _in_one_form(word)
    return found


def is_number(word: str) -> bool:
    """Whether one of `compared_words` begins like a number: 3200, -5, 10km."""
    return word[0].isdigit() or (word[0] == "-" and len(word) > 1)


def _in_one_form(word: str) -> list[str]:
    if word.isdigit():
        return [word]
    if word == "%":
        return ["percent"]
    sign = "-" if word[0] in "-\u2212" else ""
    word = word[len(sign) :]
    if _GROUPED.fullmatch(word):
        return [sign + _decimal(_GROUPING.sub("", word))]
    if _GROUPED_BY_DOTS.fullmatch(word):
        return [sign + _decimal(word.replace(".", "").replace(",", "."))]
    if _DECIMAL.fullmatch(word):
        return [sign + _decimal(word.replace(",", "."))]
    if date := _date(word):
        return date
    first, *more = _GROUPING.split(word)
    return [sign + first] if not more else [part for piece in (sign + first, *more) for part in _in_one_form(piece)]


def _decimal(number: str) -> str:
    """A number without trailing zeros. Three decimals are kept: they may be thousands, as in 3.200."""
    whole, _, decimals = number.partition(".")
    kept = decimals if len(decimals) == 3 else decimals.rstrip("0")
    return f"{whole}.{kept}" if kept else whole


def _date(word: str) -> list[str]:
    match = _DATE.fullmatch(word)
    if match is None:
        return []
    year, month, day = (match[1], match[2], match[3]) if match[1] else (match[6], match[5], match[4])
    real = 1 <= int(month) <= 12 and 1 <= int(day) <= 31
    return [year, f"-{month:0>2}", f"-{day:0>2}"] if real else word.replace(".", "-").split("-")
