"""Whether quotes bear a comparison where nobody wrote down the two values: after notes, or in one go.

*Which film came out first, A or B?* is decided by the dates in the sentences about A and in those about B, if each date
of the one is earlier than each of the other, whichever of them was meant. A sentence is about the thing that its title
names or, failing that, its words. Who was born or died first is decided by the dates of lives (`(1931 – 1990)`,
`born 3 May 1931`); a thing has those of a person whom a sentence about it names (the director of A).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..record import Document, Evidence
from .comparison import ORDERED, direction, number_of, order
from .dates import DATE, Value, dates_in
from .normalization import folded_words, is_number
from .passages import names_in
from .statements import Sentence, analysed, claim_of, title_of, words_of, yes_or_no
from .word_forms import terms_of

_BIRTH = frozenset(("birth", "born", "older", "oldest", "younger", "youngest"))
_DEATH = frozenset(("dead", "death", "die", "died"))
_LIVES = frozenset(("birth", "born", *_DEATH))
"""A bridge may be older than another; it is not born."""
_BORN = re.compile(r"\b(?:born|b\.)[^.;)]*", re.IGNORECASE)
_DIED = re.compile(r"\b(?:died|d\.)[^.;)]*|†[^.;)]*", re.IGNORECASE)
_LIFE = re.compile(r"\(([^()]*)\)")


class Compared(NamedTuple):
    holds: bool | None = None
    """None if the quotes do not tell."""
    quotes: tuple[Evidence, ...] = ()
    """Those that tell."""


class _Thing(NamedTuple):
    """One of the things that are compared: dates or numbers that are said of it, and where."""

    line: str
    values: frozenset[Value]
    quotes: tuple[Evidence, ...]


def decides_quoted(question: str, answer: str, quotes: Sequence[Evidence]) -> Compared:
    """Whether quotes bear an answer that compares things of the question, or bear another one."""
    asked = frozenset(folded_words(question))
    things = [_thing(line, asked, own, quotes) for line, own in _by_thing(question, quotes).items()]
    found = [thing for thing in things if thing.values]
    word, _ = yes_or_no(answer)
    if len(found) != 2 or (word and not asked & ORDERED):
        return Compared()
    line = claim_of(answer).line
    first = 0 if word else next((n for n, thing in enumerate(found) if thing.line in line or line in thing.line), None)
    if first is None:
        return Compared()
    mine, other = found[first].values, found[1 - first].values
    sizes = {len(value) for value in mine | other}
    sign = direction(question, dates=sizes != {1})
    orders = {sign * order(a, b) for a in mine for b in other}
    if orders not in ({1}, {-1}) or len(sizes) != 1:  # dates are compared with dates, numbers with numbers
        return Compared()
    return Compared((orders == {1}) is (word not in ("false", "no")), (*found[0].quotes, *found[1].quotes))


def compared_sentences(question: str, documents: Sequence[Document]) -> Iterator[tuple[Document, Sentence]]:
    """For a comparison, of each document the sentence with a date or a number that says most of what was asked."""
    asked = terms_of(question)
    compares = direction(question, dates=True) or direction(question, dates=False)
    for document in documents if compares else ():
        valued = [s for s in analysed(document.text).sentences if any(map(is_number, s.words))]
        if valued:
            yield document, max(valued, key=lambda s: len(asked & terms_of(s.line)))


def _by_thing(question: str, quotes: Sequence[Evidence]) -> Mapping[str, list[Evidence]]:
    """The quotes about each thing that the question names, in its order."""
    line = words_of(question).line
    titles = {title for quote in quotes if (title := title_of(quote.title).line) and title in line}
    names = {name for text in names_in(question) if (name := words_of(text).line)}
    names = {name for name in names if not any(name in title for title in titles)}
    own: dict[str, list[Evidence]] = {}
    for quote in quotes:
        title, said = title_of(quote.title).line, words_of(f"{quote.title} {quote.quote}").line
        about = [title] if title in titles else [name for name in names if name in said]
        if len(about) == 1:
            own.setdefault(about[0], []).append(quote)
    return dict(sorted(own.items(), key=lambda item: line.find(item[0])))


def _thing(line: str, asked: Collection[str], own: Sequence[Evidence], quotes: Sequence[Evidence]) -> _Thing:
    """A thing with the dates or numbers that quotes about it say, whichever the question asks for."""
    begins = not _BIRTH.isdisjoint(asked)
    if begins or not _DEATH.isdisjoint(asked):
        named = " ".join(words_of(quote.quote).line for quote in own)
        others = [(title_of(quote.title).line, quote) for quote in quotes if quote not in own]
        linked = [quote for title, quote in others if title and title in named]
        for some, used in ((own, own), (linked, [*own, *linked])):
            if lives := frozenset(date for quote in some for date in _life(quote.quote, begins)):
                return _Thing(line, lives, tuple(used))
        if linked or not _LIVES.isdisjoint(asked):
            return _Thing(line, frozenset(), ())
    values = frozenset(date for quote in own for date in dates_in(quote.quote))
    if not values or not direction(" ".join(asked), dates=True):
        words = (word for quote in own for word in words_of(DATE.sub(" ", quote.quote)).words)
        values = frozenset(value for word in words if is_number(word) and (value := number_of(word)))
    return _Thing(line, values, tuple(own))


def _life(text: str, begins: bool) -> list[Value]:
    """When somebody was born, or died, as a sentence says it."""
    said = [date for match in (_BORN if begins else _DIED).finditer(text) for date in dates_in(match[0])[:1]]
    if said:
        return said[:1]
    for match in _LIFE.finditer(text):
        dates = dates_in(match[1])
        if len(dates) == 2:
            return [dates[0] if begins else dates[1]]
    return []
