"""Whether a number that a sentence says can be the count that a question asks for.

*How many vessels came from Gdynia?* is answered by `4 vessels came from Gdynia` and by `Port: Gdynia; Vessels: 4`. In a
table of the vessels themselves each row is one of them, and none of its numbers says how many there are. A number is no
count

    as part of a name, a code, a date or a time                 Celandine 4, DH-14, no. 4, 4 May 2025, 7:04
    in a row with a column for what is counted, outside it      Vessels: 12; Tonnes: 4
    as the number of one of the things that are counted         Vessel: 4

What is counted is told by the words after *how many*.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from .answer_kind import LONGEST_QUESTION, things_asked
from .dates import DATE, value_of
from .normalization import CALENDAR, compared_words, folded_words, is_number
from .passages import FUNCTION_TERMS, cells_of
from .statements import FUNCTION_WORDS
from .word_forms import Terms, terms_of

_HOW_MANY = re.compile(
    r"\b(how\s+many|(?:the|total)\s+number\s+of)\s+(?:of\s+)?(?:(?:the|these|those|its|their|all)\s+)*", re.IGNORECASE
)
_RUN = 4
"""Words after *how many* among which is the noun."""
_IRREGULAR = frozenset(("children", "feet", "men", "mice", "people", "teeth", "women"))
_NOT_PLURAL = ("ss", "us", "is")
_QUANTITY = frozenset(("amount", "count", "quantity", "sum", "total"))
"""A column with one of these counts things: Room count."""
_ABOUT = frozenset(
    (
        *("about", "almost", "another", "approx", "approximately", "around", "circa", "exactly", "just", "nearly"),
        *("only", "over", "roughly", "some", "than", "to", "under"),
    )
)
"""Words before a number that are no part of a name, though a capital letter begins them: Over 40."""
_CODE = re.compile(r"(?<!\w)[^\W\d_]+[-_]\d+(?!\w)|#\s?\d+|\b(?:no|nr)\.?\s?\d+\b|\d+:\d\d", re.IGNORECASE)
"""A code, the number of a thing, a time."""
_NAMED = re.compile(r"(?<!\w)([^\W\d_a-z][^\W\d_]*(?:['’-][^\W\d_]+)*)\s+(\d{1,4})(?![\w.,:'’]*\d)\b")
"""A word with a capital letter and the number after it."""
_CURRENCY = re.compile(r"[A-Z]{3}")
_YEAR = re.compile(r"\b(?:in|since|until)\s+((?:1\d|20)\d\d)\b(?![.,]\d)", re.IGNORECASE)
_FOLLOWING = re.compile(r"\s+([\w'’-]+)")
_RATE = re.compile(
    r"(?<![\d.,])([€£$]?\d[\d.,]*)(?:\s*[^\W\d_]+)?(?:\s+(?:an?|per|each|every)\s+|\s*/\s*)([^\W\d_]+)", re.IGNORECASE
)


class Counted(NamedTuple):
    """What a question counts."""

    noun: Terms
    """Its stem; nothing if it cannot be told."""
    plural: str
    """As the question writes it."""
    names: frozenset[str]
    """Names with a number that the question says: `apollo 11`."""


@functools.lru_cache(maxsize=1024)
def counted_in(question: str) -> Counted | None:
    """None if the question asks for no count, or for other things as well."""
    found = _HOW_MANY.search(question[:LONGEST_QUESTION])
    if found is None or len(things_asked(question)) > 1:
        return None
    run = []
    for word in re.split(r"[^\w'’-]+", question[found.end() : LONGEST_QUESTION])[:_RUN]:
        if not word or word.lower() in FUNCTION_WORDS:
            break
        run.append(word.lower())
    plural = next((word for word in run if _is_plural(word)), "")
    if not plural and not found[1].lower().startswith("how"):
        return None  # the number of a room
    names = frozenset(f"{match[1]} {match[2]}".lower() for match in _NAMED.finditer(question[:LONGEST_QUESTION]))
    return Counted(terms_of(plural) - FUNCTION_TERMS, plural, names)


def _is_plural(word: str) -> bool:
    return word in _IRREGULAR or (len(word) > 3 and word.endswith("s") and not word.endswith(_NOT_PLURAL))


def is_count(number: str, text: str, counted: Counted, *, is_row: bool) -> bool:
    """Whether a sentence or a row says a number (one of `compared_words`) as a count of what is counted."""
    if not is_row:
        return number in _amounts(text, counted, opened=True)
    cells = cells_of(text)
    columned = bool(counted.noun) and any(counted.noun <= terms_of(column) for column, _ in cells)
    for column, value in cells:
        if number not in _amounts(value, counted, opened=False):
            continue
        if not columned or counted.noun <= terms_of(value):
            return True
        if counted.noun <= terms_of(column) and not _is_one(column, counted):
            return True
    return False


def is_rate(number: str, text: str, words: Terms) -> bool:
    """Whether a sentence says a number only for each of something that a question does not name: 61 euros a night."""
    said = [match for match in _RATE.finditer(text) if number in compared_words(match[1])]
    return bool(said) and all(terms_of(match[2]).isdisjoint(words) for match in said)


def _is_one(column: str, counted: Counted) -> bool:
    """Whether a column says which of the things that are counted a row is: Room, or Room number, for *how many rooms*.

    A unit may be singular: Fee (florin).
    """
    words = folded_words(column)
    if counted.plural in words or not _QUANTITY.isdisjoint(words):
        return False
    return len(words) == 1 or not terms_of(words[-1]) <= counted.noun


def _amounts(text: str, counted: Counted, *, opened: bool) -> frozenset[str]:
    """The numbers of a text that may count something. `opened`: its first word has a capital letter in any case."""
    text = DATE.sub(lambda match: " ; " if value_of(match)[1] else match[0], text)
    text = _NAMED.sub(lambda match: " ; " if _is_named(match, counted, opened=opened) else match[0], text)
    text = _YEAR.sub(lambda match: match[0] if _is_followed(match, counted) else " ; ", text)
    return frozenset(filter(is_number, compared_words(_CODE.sub(" ; ", text))))


def _is_named(match: re.Match[str], counted: Counted, *, opened: bool) -> bool:
    word, before = match[1].lower(), match.string[: match.start()]
    if word in FUNCTION_WORDS | _ABOUT | _QUANTITY | CALENDAR or word == counted.plural:
        return False
    if f"{word} {match[2]}" in counted.names or (counted.noun and terms_of(word) == counted.noun):
        return True
    if _CURRENCY.fullmatch(match[1]) or (opened and not before.strip()):
        return False
    return not _is_followed(match, counted)


def _is_followed(match: re.Match[str], counted: Counted) -> bool:
    """Whether what is counted stands right after a number."""
    following = _FOLLOWING.match(match.string, match.end())
    return bool(counted.noun) and following is not None and counted.noun <= terms_of(following[1])
