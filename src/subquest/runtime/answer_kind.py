"""Whether an answer is of a kind that the question does not ask for: a date for *who*, a name for *how many*.

Only what can be told from the first words of the question and from the form of the answer; anything else may fit.
"""

from __future__ import annotations

import functools
import itertools
import re

from .normalization import CALENDAR, IN_WORDS, is_number
from .statements import Claim

_BEFORE = r"\W*(?:(?:and|at|by|for|from|in|of|on|since|to|until|with)\s+)?"
_PERSON = re.compile(rf"{_BEFORE}(?:who|whom|whose)\b", re.IGNORECASE)
_PLACES = "city|continent|country|county|island|province|region|town|village"
_PLACE = re.compile(rf"{_BEFORE}(?:where|(?:what|which)\s+(?:{_PLACES}))\b", re.IGNORECASE)
_NUMBER = re.compile(rf"{_BEFORE}(?:how\s+(?:many|much|old)|(?:what|which)\s+year)\b", re.IGNORECASE)
_NUMBER_WORDS = frozenset(
    (
        *IN_WORDS,
        *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty", "thirty"),
        *("forty", "fifty", "sixty", "seventy", "eighty", "ninety", "hundred", "thousand", "million", "billion"),
        *("dozen", "half", "quarter", "third", "double", "twice", "once", "no", "none", "nothing", "nobody"),
    )
)
_AND = re.compile(
    r"(?:\band\b|[;?])\W{0,8}(?:(?:at|by|for|from|in|of|on|since|to|until|with)\s+)?"
    r"(?=(?:who|whom|whose|what|which|when|where|why|how)\b)",
    re.IGNORECASE,
)
LONGEST_QUESTION = 2000
"""Characters of a question that are read."""


@functools.lru_cache(maxsize=1024)
def things_asked(question: str) -> tuple[str, ...]:
    """The parts of a question, each with a question word: *Who keeps the vault* and *when was it built?*"""
    question = question[:LONGEST_QUESTION]
    starts = [0, *(match.end() for match in _AND.finditer(question)), len(question)]
    parts = (question[start:end].strip() for start, end in itertools.pairwise(starts))
    return tuple(part for part in parts if part)


def is_misfit(claim: Claim, question: str) -> bool:
    """Whether a short answer cannot be what was asked for, or one of several things that were."""
    return claim.short and all(_is_misfit(claim, asked) for asked in things_asked(question) or (question,))


def _is_misfit(claim: Claim, question: str) -> bool:
    """A name with a number in it (Maroon 5) is a name."""
    names = frozenset(word for word in claim.needed if not is_number(word)) - CALENDAR
    if _PERSON.match(question):
        return claim.numeric and not names
    if _PLACE.match(question):
        return claim.numeric and all(is_number(word) or word in CALENDAR for word in claim.words)
    if _NUMBER.match(question):
        return len(names) > 1 and not claim.numeric and claim.words.isdisjoint(_NUMBER_WORDS)
    return False
