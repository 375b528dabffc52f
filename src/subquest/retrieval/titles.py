"""Named articles: what a query calls by its whole title comes first, and then what speaks of it.

*What is the population of Saevebryd?* shares its rare word with Saevebryd Athletic, Saevebryd Airways and everybody who
was born there, and length and frequency decide among them. *Which province does Dovlor Vodatsin govern?* is answered in
the article of the province, which has to be told from those of other Vodatsins. So among the first DEPTH results

    score(i) = score of i + best score · (BONUS · [the query has the title of i, and no longer title around it]
                                          + MENTION · [that is the only title in the query, and the text of i has it])

with the title in the words of the index's analysis and without what stands in brackets at its end, so that namesakes
are equal. DEPTH, BONUS and MENTION were chosen on dev questions (docs/search.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from .analysis import STOP_WORDS, Analysis

DEPTH = 60
BONUS = 0.4
MENTION = 0.3

TITLES = 100_000
"""Titles that an index remembers, about 100 bytes each."""
TEXTS = 10_000
"""Texts that it remembers, about a kilobyte each."""

T = TypeVar("T")

_LETTERS = re.compile(r"\w+")
_SHORTEST = 3
"""Bytes of a title that can be recognised in a text."""


def named(
    query: str,
    titles: Sequence[bytes],
    scores: Sequence[float],
    analysis: Analysis,
    read: Callable[[], Sequence[tuple[str, str]]],
) -> list[tuple[int, float]]:
    """Places in a ranking in their new order, with their scores; titles as `title_words` gives them.

    `read` gives the title and the text at each place and is asked only where one thing is named. Equal ones keep their
    order, and all do where nothing is named.
    """
    text = words(query, analysis)
    found = {title for title in titles if title and title in text and _meant(title, query, analysis)}
    found = {title for title in found if not any(title != other and title in other for other in found)}
    if not found:
        return list(enumerate(scores))
    best = max(scores)
    speak = _speaking(next(iter(found)), titles, read()) if len(found) == 1 else [False] * len(scores)
    new = [
        score + best * (BONUS * (title in found) + MENTION * speaks)
        for score, title, speaks in zip(scores, titles, speak, strict=True)
    ]
    return [(place, new[place]) for place in sorted(range(len(new)), key=lambda place: -new[place])]


def _speaking(asked: bytes, titles: Sequence[bytes], articles: Sequence[tuple[str, str]]) -> list[bool]:
    """Which texts have the title that is asked for, as its articles spell it."""
    names = {_without_brackets(name) for title, (name, _) in zip(titles, articles, strict=True) if title == asked}
    return [any(_speaks_of(text, name) for name in names if name) for _, text in articles]


def _speaks_of(text: str, name: str) -> bool:
    """Whether the name stands in the text and not within longer words."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(name, end)
    return False


def _without_brackets(title: str) -> str:
    """The title without what stands in brackets at its end."""
    text = title.rstrip()
    begin = text.find("(", text.rfind(")", 0, -1) + 1) if text.endswith(")") else -1
    return title if begin < 0 else text[:begin].rstrip()


class Kept(Generic[T]):
    """Something of each document by its number, remembered for one generation of an index."""

    def __init__(self, most: int, missing: T) -> None:
        """At most so many are kept; `missing` stands for documents that have gone in the meantime."""
        self._most, self._missing = most, missing
        self._known: tuple[int, dict[int, T]] = (-1, {})

    def of(
        self, generation: int, numbers: Sequence[int], fetch: Callable[[list[int]], Iterable[tuple[int, T]]]
    ) -> list[T]:
        if self._known[0] != generation or len(self._known[1]) > self._most:
            self._known = (generation, {})
        known = self._known[1]
        if unknown := {number for number in numbers if number not in known}:
            known.update(fetch(sorted(unknown)))
        return [known.get(number, self._missing) for number in numbers]


def _meant(title: bytes, query: str, analysis: Analysis) -> bool:
    """Whether a title of one word is the name in the query: *which film* does not ask for the article Film.

    In a query with capital letters a name has one, apart from the first word, which has one anyhow.
    """
    if title.count(b" ") > 2:
        return True
    rest = query.lstrip()[1:]
    if not any(letter.isupper() for letter in rest):
        return True
    capitals = (word for word in _LETTERS.findall(rest) if word != word.lower())
    return any(title in words(word, analysis) for word in capitals)


def words(text: str, analysis: Analysis) -> bytes:
    """A text in the words of an analysis, each between two spaces."""
    return b" " + b" ".join(analysis.terms(text)) + b" "


@lru_cache(maxsize=1 << 16)
def title_words(title: str, analysis: Analysis) -> bytes:
    """The title as it would stand among `words`; empty where it could not be told from other words."""
    terms = analysis.terms(_without_brackets(title))
    if sum(map(len, terms)) < _SHORTEST or all(term in STOP_WORDS[analysis.language] for term in terms):
        return b""
    return b" " + b" ".join(terms) + b" "
