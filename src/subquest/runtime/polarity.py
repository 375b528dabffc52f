"""Whether quotes bear a yes or a no to a question.

A clause *repeats* a question if, with the title of its document, it has all its names (numbers aside), half of its
other words and most of all. A yes to a question of one step needs a clause that repeats it and does not negate; a yes
that rests on several sub-results needs all names of the question in the quotes. A no needs quotes about the question,
none of which repeats it without a negation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..record import Evidence
from .normalization import folded_words
from .relevance import ENOUGH, Asked, asked_of
from .statements import MOST, NEARLY_ALL, NEGATIONS
from .word_forms import Terms, terms_of

_CLAUSE = re.compile(r"[,;]\s+|\s+(?:but|while|whereas)\s+|(?<=\s)and\s+")
_SPOKEN = 4
"""Words before an *and* that begins a clause; with fewer, it joins two things."""


def confirms(question: str, quotes: Sequence[Evidence], steps: int) -> bool:
    """Whether quotes bear a yes."""
    asked = asked_of(question)
    if not asked.words:
        return True
    repeated = [negated for negated in _repeats(asked, quotes) if negated is not None]
    if steps <= 1 or not asked.names:
        return False in repeated
    said = frozenset[bytes]().union(*(terms_of(f"{quote.title} {quote.quote}") for quote in quotes))
    return True not in repeated and _spoken(asked.named) <= said


def denies(question: str, quotes: Sequence[Evidence]) -> bool:
    """Whether quotes bear a no."""
    asked = asked_of(question)
    if not asked.words:
        return True
    said = frozenset[bytes]().union(*(terms_of(f"{quote.title} {quote.quote}") for quote in quotes))
    about = any(name <= said for name in asked.names) or len(asked.words & said) >= ENOUGH * len(asked.words)
    return about and False not in _repeats(asked, quotes)


def says(question: str, quotes: Sequence[Evidence], *, yes: bool) -> bool:
    """Whether a clause says yes, or no, in so many words."""
    return (not yes) in _repeats(asked_of(question), quotes)


def _repeats(asked: Asked, quotes: Sequence[Evidence]) -> Iterator[bool | None]:
    """For each clause, whether it negates; None if it does not repeat the question."""
    names, plain = _spoken(asked.named), asked.words - asked.named
    for quote in quotes:
        title = terms_of(quote.title)
        for clause in _clauses(quote.quote):
            own = terms_of(clause)
            said = own | title
            share = len(asked.words & said) / max(len(asked.words), 1)
            if names <= said and 2 * len(plain & own) >= len(plain) and share >= (MOST if names else NEARLY_ALL):
                yield not NEGATIONS.isdisjoint(folded_words(clause))
            else:
                yield None


def _spoken(words: Terms) -> Terms:
    """Names without numbers: whether a bridge is longer than 400 metres, no document says in these words."""
    return frozenset(word for word in words if not word[:1].isdigit())


def _clauses(text: str) -> Iterator[str]:
    start = 0
    for match in _CLAUSE.finditer(text):
        if match[0].startswith("and") and len(text[start : match.start()].split()) < _SPOKEN:
            continue
        yield text[start : match.start()]
        start = match.end()
    yield text[start:]
