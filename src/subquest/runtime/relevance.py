"""Whether a sentence that states a result is about what was asked.

A longer result says much by itself: the sentence, its title or the passage before it only needs one word of the task.

A number, a date, a name or a common word stands in many sentences; it answers a task only where the sentence

    names what was asked      a name of the task stands in it, in the title, or earlier in the passage; a task without
                              names shares two fifths of its words with the sentence, the one before it and the title,
                              of which one at least is not repeated by the result (`14 pounds per hour`)
                              (a row of a table may do that as well: `evidence` checks its names)
    and is not outdone        no other sentence says all that it says of the task and more, with another value of the
                              same kind (a year, a number, a name, a month or day of the week); for a name, it must say
                              every word of the task that is none

or where it is reached over other sentences: one of them has a name and a word of the task and mentions the document,
or is about the task and has a name that this sentence has too, which says more of the task.
A row is no total if another row of its table says as much of what was asked, and no amount if another one has all that
was asked beside another number. A number that counts nothing is no count (`counts`), and a rate (61 euros a night) no
total.
Numbers are compared clause by clause (`412 metres long and 18 metres wide`) and cell by cell. Words are compared by
their stems.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from ..record import Document
from .counts import counted_in, is_count, is_rate
from .normalization import CALENDAR, compared_words, is_number
from .passages import FUNCTION_TERMS, Passage, Unit, cells_of, column_words, names_in, passage_of, row_values
from .statements import Claim, Sentence, analysed, words_of
from .word_forms import Terms, terms_of

ENOUGH = 0.4
"""Share of the words of a task without names."""
SHARED = 3
"""One in so many words of a question besides its names, where a role did not conclude the answer from the sentence."""
LONGEST_TASK = 2000
"""Characters of a task that are compared."""
HOPS = 4
"""Sentences over which a document may be reached."""
_ASKING = terms_of("many much name")
_TOTAL = terms_of("altogether average combined sum total")
_SUMMED = re.compile(r"\badd(?:s|ed)?\s+up\b|\bin\s+all\b|\ball\s+together\b", re.IGNORECASE)
_AMOUNT = re.compile(r"\bhow\s+(?:many|much)\b", re.IGNORECASE)
CALENDAR_TERMS = terms_of(" ".join(CALENDAR))


class Asked(NamedTuple):
    """A task or a question as it is compared."""

    words: Terms
    """Stems without function words."""
    names: tuple[Terms, ...]
    named: Terms
    """The words of all names."""
    total: bool
    """Whether it asks for a sum or a mean, which a single row of a table is only a part of."""
    amount: bool
    """Whether it asks how many or how much."""


class _Lead(NamedTuple):
    """The sentences that say the same of a task."""

    said: Terms
    names: Mapping[bytes, list[Terms]]
    """Their names, each under its rarest word: a sentence is compared with those alone that it can have."""


@functools.lru_cache(maxsize=1024)
def asked_of(text: str) -> Asked:
    text = text[:LONGEST_TASK]
    names = tuple(terms for run in names_in(text) if (terms := terms_of(run)) - FUNCTION_TERMS)
    words = terms_of(text) - FUNCTION_TERMS - _ASKING
    total = not words.isdisjoint(_TOTAL) or _SUMMED.search(text) is not None
    return Asked(words, names, frozenset[bytes]().union(*names), total, _AMOUNT.search(text) is not None)


class Relevance:
    """What sentences of some documents say about what was asked."""

    def __init__(
        self,
        asked: Sequence[str],
        documents: Sequence[Document],
        *,
        strict: bool = False,
        led_to: Callable[[Claim, Document, Sentence], bool] = lambda claim, document, sentence: False,
    ) -> None:
        """`strict`: besides a name, the sentence or its title has one in `SHARED` of the task's other words.

        `led_to` knows further sentences to which others lead.
        """
        self._strict = strict
        self._led_to = led_to
        self._asked = [task for text in dict.fromkeys(asked) if (task := asked_of(text)).words]
        self._documents = documents
        self._known: dict[tuple[object, ...], bool] = {}
        self._leads: dict[Asked, list[_Lead]] = {}
        self._counted = [counted for text in dict.fromkeys(asked) if (counted := counted_in(text)) is not None]
        self._tables: dict[Terms, list[str]] = {}

    def __call__(self, claim: Claim, document: Document, sentence: Sentence) -> bool:
        """Whether a sentence that states a claim is about one of the tasks. What a tool returned always is."""
        if not self._asked or "tool" in document.meta:
            return True
        passage = passage_of(document.title, document.text)
        at = passage.places[sentence.start]
        if not claim.short:
            return any(passage.first.get(word, at + 1) <= at for asked in self._asked for word in asked.words)
        claimed = terms_of(claim.line)
        if sentence.is_row and not claimed.isdisjoint(column_words(document.text[sentence.start : sentence.end])):
            return False  # the name of a column is no value
        if claim.numeric and not self._is_whole(claim, document, sentence, passage, at):
            return False
        about = any(self._is_about(asked, claim, claimed, passage, at, sentence.is_row) for asked in self._asked)
        return about or (not self._named(claimed, passage, at) and self._led_to(claim, document, sentence))

    def _named(self, claimed: Terms, passage: Passage, at: int) -> bool:
        """Whether a sentence, or its title, has a name of a task."""
        here = passage.sentences[at].terms | passage.title
        return any(name <= here and not name <= claimed for asked in self._asked for name in asked.names)

    def _is_about(self, asked: Asked, claim: Claim, claimed: Terms, passage: Passage, at: int, is_row: bool) -> bool:
        words = asked.words - claimed
        if not words:
            return True
        names = [name for name in asked.names if not name <= claimed]
        last = len(passage.sentences) if claimed <= passage.title else at  # all of it is about its title
        direct = any(all(passage.first.get(term, last + 1) <= last for term in name) for name in names)
        plain = words - asked.named
        if self._strict and len(plain & (passage.sentences[at].terms | passage.title)) < len(plain) // SHARED:
            direct = False
        if not names or is_row:
            near = frozenset[bytes]().union(
                passage.title, *(s.terms for s in passage.sentences[max(at - 1, 0) : at + 1])
            )
            direct = direct or len(words & near) >= ENOUGH * len(words)
            direct = direct or (bool(words & near) and len(asked.words & near) > ENOUGH * len(asked.words))
        if not (direct or (names and self._reached(asked, words, passage, at)) or self._linked(asked, passage, at)):
            return False
        return any(not self._outdone(asked, words, claim, claimed, passage, unit) for unit in _with(claim, passage, at))

    def _outdone(self, asked: Asked, words: Terms, claim: Claim, claimed: Terms, passage: Passage, unit: Unit) -> bool:
        """Whether another unit says more of what was asked, and another value of the same kind."""
        if not claim.needed:
            return False
        said = _said(asked, words, passage, unit)
        key = (asked, claim, said)
        if key not in self._known:
            self._known[key] = self._has_rival(asked, words, claim, claimed, said)
        return self._known[key]

    def _has_rival(self, asked: Asked, words: Terms, claim: Claim, claimed: Terms, said: Terms) -> bool:
        wanted = frozenset[bytes]() if claim.numeric else words - asked.named
        for document in self._documents:
            other = passage_of(document.title, document.text)
            if claimed <= other.title:
                continue
            for at, sentence in enumerate(other.sentences):
                about = words & (sentence.terms | other.title)
                if not (said < about and wanted <= about):
                    continue
                for rival in other.parts[at] if claim.numeric else (sentence,):
                    if said < _said(asked, words, other, rival) and _has_other_value(claim, claimed, asked, rival):
                        return True
        return False

    def _reached(self, asked: Asked, words: Terms, passage: Passage, at: int) -> bool:
        """Whether sentences lead from a name of the task to the document: each has a further word of the task."""
        plain = words - asked.named
        if not passage.title or not plain & (passage.sentences[at].terms | passage.title):
            return False
        key = (asked, words, passage.title)
        if key not in self._known:
            self._known[key] = self._leads_to(asked, plain, passage.title)
        return self._known[key]

    def _linked(self, asked: Asked, passage: Passage, at: int) -> bool:
        """Whether a sentence about the task has a name that this one has too, and this one says more of the task."""
        here = passage.sentences[at].terms | passage.title
        return any(
            any(name <= here for term in here for name in names.get(term, ()))
            for about, names in self._leading(asked)
            if not asked.words & here <= about
        )

    def _leading(self, asked: Asked) -> list[_Lead]:
        """The sentences about a task; none says less of it than another."""
        if asked not in self._leads:
            found: dict[Terms, dict[Terms, None]] = {}
            for document in self._documents:
                passage = passage_of(document.title, document.text)
                for sentence, names in zip(passage.sentences, passage.names, strict=True):
                    said = asked.words & (sentence.terms | passage.title)
                    if asked.names:
                        about = any(name <= said for name in asked.names) and not said <= asked.named
                    else:
                        about = len(said) >= ENOUGH * len(asked.words)
                    if about:
                        linking = (name for name in names if name.isdisjoint(asked.words | CALENDAR_TERMS))
                        found.setdefault(said, {}).update(dict.fromkeys(linking))
            self._leads[asked] = [
                _Lead(said, _by_rarest(names)) for said, names in found.items() if not any(said < s for s in found)
            ]
        return self._leads[asked]

    def _is_whole(self, claim: Claim, document: Document, sentence: Sentence, passage: Passage, at: int) -> bool:
        """Whether the numbers of a claim can be the count or the total that a task asks for."""
        text = document.text[sentence.start : sentence.end]
        numbers = [word for word in claim.words if is_number(word)]
        if any(not is_count(n, text, counted, is_row=sentence.is_row) for counted in self._counted for n in numbers):
            return False
        if not sentence.is_row:
            return not any(asked.total and is_rate(n, text, asked.words) for asked in self._asked for n in numbers)
        return not any(
            (asked.total and self._has_equals(asked.words - terms_of(claim.line), passage, at))
            or (asked.amount and self._is_part(asked, claim, text, passage))
            for asked in self._asked
        )

    def _has_equals(self, words: Terms, passage: Passage, at: int) -> bool:
        """Whether another row of the table says as much of what was asked: each is a part of the total."""
        said = words & passage.sentences[at].terms
        rows = (
            sentence
            for document in self._documents
            if (other := passage_of(document.title, document.text)).title == passage.title
            for sentence in other.sentences
        )
        return any(said <= row.terms and row != passage.sentences[at] for row in rows)

    def _is_part(self, asked: Asked, claim: Claim, row: str, passage: Passage) -> bool:
        """Whether several rows have all the values by which a task asks for a row, and different numbers there."""
        values, columns = (
            row_values(row),
            [column for column, value in cells_of(row) if claim.line in words_of(value).line],
        )
        said = asked.words & values - terms_of(claim.line)
        if not said or not columns or not all(name <= values | passage.title for name in asked.names):
            return False
        key = (asked, claim, said, tuple(columns), passage.title)
        if key not in self._known:
            self._known[key] = any(
                column in columns and bool(value.strip()) and claim.line not in words_of(value).line
                for other in self._rows(passage.title)
                if said <= row_values(other)
                for column, value in cells_of(other)
            )
        return self._known[key]

    def _rows(self, title: Terms) -> list[str]:
        """The rows of the tables with a title."""
        if title not in self._tables:
            self._tables[title] = [
                document.text[sentence.start : sentence.end]
                for document in self._documents
                if terms_of(document.title) == title
                for sentence in analysed(document.text).sentences
                if sentence.is_row
            ]
        return self._tables[title]

    def _leads_to(self, asked: Asked, plain: Terms, title: Terms) -> bool:
        passages = [passage_of(document.title, document.text) for document in self._documents]
        reached: list[Terms] = []
        found = set[int]()
        for _ in range(HOPS):
            mentioned = {n for n, p in enumerate(passages) if p.title and any(p.title <= terms for terms in reached)}
            fresh = [
                sentence.terms
                for n, p in enumerate(passages)
                if n not in found and (n in mentioned or not reached)
                for sentence in p.sentences
                if plain & sentence.terms
                and (n in mentioned or any(name <= sentence.terms | p.title for name in asked.names))
            ]
            if not fresh:
                return False
            if any(title <= terms for terms in fresh):
                return True
            found |= mentioned
            reached = fresh
        return False


def _by_rarest(names: Collection[Terms]) -> dict[bytes, list[Terms]]:
    counts = Counter(term for name in names for term in name)
    found: dict[bytes, list[Terms]] = {}
    for name in names:
        found.setdefault(min(name, key=counts.__getitem__), []).append(name)
    return found


def stems(text: str) -> Terms:
    """The stems of a text's words, function words left out."""
    return asked_of(text).words


def misplaces_numbers(sentence: str, title: str, quote: str) -> bool:
    """Whether a quote says a number of a sentence about something else: in another clause than the sentence's words.

    A clause may take up words of an earlier one, not of a later one, and another number must not fit better.
    """
    passage = passage_of(title, quote)
    numbers = frozenset(filter(is_number, compared_words(sentence)))
    words = frozenset(word for word in stems(sentence) - passage.title if not word[:1].isdigit())
    for row, parts in zip(analysed(quote).sentences, passage.parts, strict=True):
        if row.is_row or len(parts) < 2:
            continue
        others = [bool(part.numbers) and numbers.isdisjoint(part.numbers) for part in parts]
        for at, part in enumerate(parts):
            if numbers.isdisjoint(part.numbers):
                continue
            mine = (p.terms for n, p in enumerate(parts) if n <= at or not others[n])
            later = (p.terms for n, p in enumerate(parts) if n > at and others[n])
            if words & frozenset[bytes]().union(*later) - frozenset[bytes]().union(*mine):
                return True
            if any(words & part.terms < words & p.terms for p, other in zip(parts, others, strict=True) if other):
                return True
    return False


def _said(asked: Asked, words: Terms, passage: Passage, unit: Unit) -> Terms:
    return words & (unit.terms | passage.title) | words & asked.named & unit.before


def _has_other_value(claim: Claim, claimed: Terms, asked: Asked, unit: Unit) -> bool:
    if claim.line in unit.line:
        return False
    if claim.numeric:
        years = {is_year(word) for word in claim.words if is_number(word)}
        return any(is_year(word) in years and word not in claim.words for word in unit.numbers)
    others = unit.names - asked.words - claimed
    return bool(others & CALENDAR_TERMS if claimed & CALENDAR_TERMS else others - CALENDAR_TERMS)


def is_year(word: str) -> bool:
    return len(word) == 4 and word.isdigit() and "1000" <= word <= "2100"


def _with(claim: Claim, passage: Passage, at: int) -> Sequence[Unit]:
    """The parts of a sentence that contain a number that is claimed; the sentence, if none does alone."""
    if claim.numeric:
        found = [unit for unit in passage.parts[at] if claim.line in unit.line]
        if found:
            return found
    return (passage.sentences[at],)
