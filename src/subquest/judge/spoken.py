"""Numbers written as words, read as digits: "forty-two" is 42, "1.5 million" is 1500000."""

from __future__ import annotations

import re

_SMALL = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_VALUES = {word: n for n, word in enumerate(_SMALL)} | {word: 10 * n for n, word in enumerate(_TENS, 2)}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = "|".join(sorted((*_VALUES, *_SCALES), key=len, reverse=True))
_DIGITS = r"(?<!\d,)\d[\d,]*(?:\.\d+)?"
_SCALED = rf"{_DIGITS}(?=[\s-]+(?:{'|'.join(_SCALES)})\b)"
_AND = r"(?:(?<=hundred)|(?<=thousand)|(?<=million))\s+and\s+"
_RUN = re.compile(rf"(?<![\w.-])(?:{_WORD}|{_SCALED})(?:(?:[\s-]+|{_AND})(?:{_WORD}))*(?![\w-])", re.IGNORECASE)
"""Number words side by side, after digits where a scale follows them ("1.5 million")."""
_MOST = 1e18
"""Words that name more are read as this: `hundred hundred …` soon names what no float holds."""


def in_digits(text: str) -> str:
    """The text with its number words as digits. Words that do not make up one number stay several."""
    return _RUN.sub(lambda match: " ".join(map(_written, _read(match[0]))), text)


def _read(run: str) -> list[float]:
    """The numbers of a run of number words: a hundred and five is one, one two three are three."""
    found: list[float] = []
    whole = part = 0.0
    room = float("inf")
    """What the next word must be below to belong to the number that is being read."""
    for word in re.split(r"[\s-]+", small_letters(run)):
        if word == "and":
            continue
        if word in _SCALES:
            scale = _SCALES[word]
            if scale <= 100:
                part = min((part or 1) * scale, _MOST)
            else:
                whole, part = min(whole + (part or 1) * scale, _MOST), 0.0
            room = scale
            continue
        value = _VALUES[word] if word in _VALUES else min(float(word.replace(",", "")), _MOST)
        if value >= room:
            found.append(whole + part)
            whole = part = 0.0
        part += value
        room = 10 if 20 <= value < 100 else 1
    return [*found, whole + part]


def small_letters(found: str) -> str:
    """What a pattern that ignores case has found: it also finds a long s, and an i without or with a dot of its own."""
    return found.casefold().replace("ı", "i").replace("\u0307", "")


def _written(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else repr(value)
