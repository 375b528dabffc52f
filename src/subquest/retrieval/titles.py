"""Ranking by titles: what a query names, and what other results name, comes first.

*Named first* (mode auto). *What is the population of Saevebryd?* shares its rare word with Saevebryd Athletic,
Saevebryd Airways and everybody who was born there, and length and frequency decide among them. *Which province does
Dovlor Vodatsin govern?* is answered in the article of the province. So among the first NAMED_DEPTH results

    score(i) = score of i + best score · (BONUS · [the query has the title of i, and no longer title around it]
                                          + MENTION · [that is the only title in the query, and the text of i has it])

*Linked first* (mode linked). A question of several hops names the first thing and not the second: *where was the
designer of the Orvane Bridge born?* finds the bridge, and only the bridge's passage says who designed it. So among the
first LINKED_DEPTH results

    score(i) = rank score (0 to 1) + IN_QUESTION · [the question has the title of i]
                                   + VOUCHED · [it does not] · the best such score of a result whose text has that title

Titles are compared in the terms of the index's analysis and without a final part in brackets, so namesakes are equal.
All constants were chosen on dev questions (docs/search.md). It takes no model and a few milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from ..record import Hit
from .analysis import STOP_WORDS, Analysis

NAMED_DEPTH = 60
BONUS = 0.4
MENTION = 0.3
LINKED_DEPTH = 100
IN_QUESTION = 0.7
VOUCHED = 0.6

TITLES = 100_000
"""Titles that an index keeps in memory, about 100 bytes each."""
TEXTS = 10_000
"""Texts that it keeps in memory, about a kilobyte each."""

T = TypeVar("T")

_LETTERS = re.compile(r"\w+")
_SHORTEST = 3
"""Bytes of a title that can be recognised in a text."""


def named_first(
    query: str,
    titles: Sequence[bytes],
    scores: Sequence[float],
    analysis: Analysis,
    read: Callable[[], Sequence[tuple[str, str]]],
) -> list[tuple[int, float]]:
    """The positions of a ranking in their new order, with their scores; titles as `title_words` gives them.

    `read` returns the title and the text at each position and is called only where one title is named. Equal scores
    keep their order, and so do all where nothing is named.
    """
    text = words(query, analysis)
    found = {title for title in titles if title and title in text and _meant(title, query, analysis)}
    found = {title for title in found if not any(title != other and title in other for other in found)}
    if not found:
        return list(enumerate(scores))
    best = max(scores)
    mentions = _mentions(next(iter(found)), titles, read()) if len(found) == 1 else [False] * len(scores)
    new = [
        score + best * (BONUS * (title in found) + MENTION * mentioned)
        for score, title, mentioned in zip(scores, titles, mentions, strict=True)
    ]
    return [(i, new[i]) for i in sorted(range(len(new)), key=lambda i: -new[i])]


def linked_first(query: str, hits: Sequence[Hit], analysis: Analysis) -> list[Hit]:
    """The hits in a new order, with new scores; equal ones keep their order."""
    if not hits:
        return []
    scores = [hit.score for hit in hits]
    low, span = min(scores), (max(scores) - min(scores)) or 1.0
    titles = [title_words(hit.document.title, analysis) for hit in hits]
    texts = [words(hit.document.text, analysis) for hit in hits]
    question = words(query, analysis)
    asked = [bool(title) and title in question for title in titles]
    own = [(score - low) / span + IN_QUESTION * named for score, named in zip(scores, asked, strict=True)]
    new = []
    for title, named, score in zip(titles, asked, own, strict=True):
        best = 0.0
        if title and not named:
            for other, text, vouching in zip(titles, texts, own, strict=True):
                if vouching > best and other != title and title in text:
                    best = vouching
        new.append(score + VOUCHED * min(1.0, best))
    return [Hit(hits[i].document, new[i]) for i in sorted(range(len(hits)), key=lambda i: -new[i])]


def words(text: str, analysis: Analysis) -> bytes:
    """A text as the terms of an analysis, each between two spaces."""
    return b" " + b" ".join(analysis.terms(text)) + b" "


@lru_cache(maxsize=1 << 16)
def title_words(title: str, analysis: Analysis) -> bytes:
    """The title as it would occur among `words`; empty where it could not be told from other words."""
    terms = analysis.terms(_without_brackets(title))
    if sum(map(len, terms)) < _SHORTEST or all(term in STOP_WORDS[analysis.language] for term in terms):
        return b""
    return b" " + b" ".join(terms) + b" "


class DocumentCache(Generic[T]):
    """A value for each document number, kept for one generation of an index."""

    def __init__(self, most: int, missing: T) -> None:
        """Keeps at most `most` values; `missing` stands for documents that were removed in the meantime."""
        self._most, self._missing = most, missing
        self._known: tuple[int, dict[int, T]] = (-1, {})

    def get(
        self, generation: int, numbers: Sequence[int], fetch: Callable[[list[int]], Iterable[tuple[int, T]]]
    ) -> list[T]:
        if self._known[0] != generation or len(self._known[1]) > self._most:
            self._known = (generation, {})
        known = self._known[1]
        if unknown := {number for number in numbers if number not in known}:
            known.update(fetch(sorted(unknown)))
        return [known.get(number, self._missing) for number in numbers]


def _meant(title: bytes, query: str, analysis: Analysis) -> bool:
    """Whether a title of one word is a name in the query: *which film* does not ask for the article Film.

    In a query with capital letters a name has one; the first letter of the query does not count.
    """
    if title.count(b" ") > 2:
        return True
    rest = query.lstrip()[1:]
    if not any(letter.isupper() for letter in rest):
        return True
    capitals = (word for word in _LETTERS.findall(rest) if word != word.lower())
    return any(title in words(word, analysis) for word in capitals)


def _mentions(asked: bytes, titles: Sequence[bytes], articles: Sequence[tuple[str, str]]) -> list[bool]:
    """Which texts mention the title that is asked for, as its articles spell it."""
    names = {_without_brackets(name) for title, (name, _) in zip(titles, articles, strict=True) if title == asked}
    return [any(_contains(text, name) for name in names if name) for _, text in articles]


def _contains(text: str, name: str) -> bool:
    """Whether the text has the name, not as a part of longer words."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(name, end)
    return False


def _without_brackets(title: str) -> str:
    """The title without a final part in brackets."""
    text = title.rstrip()
    begin = text.find("(", text.rfind(")", 0, -1) + 1) if text.endswith(")") else -1
    return title if begin < 0 else text[:begin].rstrip()
