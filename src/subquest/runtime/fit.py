"""Whether an answer fits a question better than what else stands in the documents.

A passage about what was asked holds many names and numbers, and each of them is "stated by a document about the
question". So the answer is compared with its *rivals*: the others of its kind (a date, a year, a number, a code like
NRD-E76, a name of as many words). What counts for either, at the place where it stands:

    3    the share of the question's words that the sentence says, with the title of its document; rare ones weigh more
    2    the share of its names within reach, and 1 for its further words there
    2    the share of its names in the sentence itself, for a sub-task
    2    how near the words stand, and 1 for the nearest; in a row of a table only those of its cell
    1.5  what is asked for (*which river*) stands beside it; 2 in it (the River Tern)
    1.5  for *where*: a word like `in` stands before it; -1 for *who*
    1.5  it begins a span of time (1889 – 1931) and the question asks for a beginning, or both end; -1.5 the opposite
    -2   the question says it itself
    -1.5 it is one word that has a capital letter only where it begins a sentence

For a sub-task names and codes are rivals of each other: which of them is asked for is told by what stands beside them.
Within reach of a sub-task, which asks one thing, is any other sentence with the answer. Within reach of a whole
question is a sentence that leads to it: one of the two mentions what the other's document is about, or both have a name
that is neither the question's nor the answer. There, a name counts half a point less where it stands in the sentence
itself: the answer to *where was the designer of the bridge born* stands beside the designer, not beside the bridge.

The weights are rounded from those that a regression gives on train questions; they, the margins and the least counts
are chosen there (`subquest bench support`).
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..record import Document
from .passages import FUNCTION_TERMS, Passage, passage_of
from .relevance import CALENDAR_TERMS, HOPS, asked_of, is_year
from .spots import Spot, kind_of, spots_of, tokens_of
from .statements import Claim, Sentence, analysed, title_of
from .word_forms import Terms, term_list, terms_of


class _Bar(NamedTuple):
    """What an answer must count: at most `margin` less than its best rival, and `least` in any case."""

    margin: float
    least: float


SUB_TASK, SUB_NUMBER, DIRECT, LED_TO = _Bar(2.0, 2.5), _Bar(1.5, 2.5), _Bar(0.65, 2.6), _Bar(1.3, 1.5)
"""For a sub-task; for one that finds a number or date; for a whole question; and for one whose names stand elsewhere,
in a sentence that leads there."""
REACHED = 0.25
"""Share of a question's words that sentences must say which lead to an answer."""
LEADS = 20
"""Sentences that may lead to others: those that say most of the question."""
_NEAR = 6
"""Words over which nearness falls to a third or so."""
_BESIDE = 3
"""Words between what is asked for and the answer beside it, at most."""
_ASKED_FOR = re.compile(r"\b(?:what|which)\b([^?,.;:]*)", re.IGNORECASE)
_QUESTION_WORD = re.compile(r"\b(?:who|whom|whose|where|what|which|when|how)\b", re.IGNORECASE)
_SPAN = re.compile(r"(\d{4})\s*[–—-]\s*(?:[^\d()]{1,20})?(?:\d{1,2}\s+\w+\s+|\w+\s+\d{1,2},?\s+)?(\d{4})")
_BEGINS, _ENDS = terms_of("born begin start found open"), terms_of("die end close finish")
_PLACED = frozenset(("at", "from", "in", "near", "to"))
_NOT_WHO = frozenset(("at", "from", "in", "near", "the"))


class _Unit(NamedTuple):
    """A sentence of a document."""

    document: Document
    passage: Passage
    at: int
    own: Terms
    said: Terms
    """Its own words and those of the title."""


class _Lead(NamedTuple):
    unit: _Unit
    link: Terms
    """The name that both sentences have; nothing for an earlier sentence of the same document."""


class _Reach(NamedTuple):
    said: Terms
    link: Terms
    """The words of all names by which its sentences are linked."""


class Fit:
    """A question, or a sub-task, and the documents that were read for it."""

    def __init__(self, question: str, documents: Sequence[Document], *, one_step: bool) -> None:
        self._asked = asked_of(question)
        self._one_step = one_step
        found = _QUESTION_WORD.search(question)
        self._word = found[0].lower() if found else ""
        self._head = _asked_for(question)
        self._units = [unit for document in documents for unit in _units(document)]
        self._at = {(id(u.document), analysed(u.document.text).sentences[u.at].start): u for u in self._units}
        counts = Counter(term for unit in self._units for term in unit.said & self._asked.words)
        size = len(self._units) + 1
        self._weights = {word: math.log(1 + size / (counts[word] + 0.5)) for word in self._asked.words}
        saying = [unit for unit in self._units if unit.own & self._asked.words]
        saying.sort(key=lambda unit: self._weight(unit.said), reverse=True)
        self._saying = saying[:LEADS]
        self._leads: dict[int, list[_Lead]] = {}
        self._reached: dict[int, _Reach] = {}
        self._positions: dict[int, list[tuple[int, bytes]]] = {}
        self._known: dict[str, bool] = {}
        self._scores: dict[tuple[int, Spot], float] = {}
        self._standing: dict[str, dict[Terms, None]] = {}
        """What the sentences with a name or a number say of the question. Many sentences say the same."""
        if one_step:
            for unit in self._units:
                for spots in spots_of(unit.document.text)[unit.at].values():
                    for spot in spots:
                        self._standing.setdefault(spot.line, {})[self._of_question(unit)] = None

    @functools.cached_property
    def _inside(self) -> frozenset[str]:
        """The words of names that do not only begin a sentence."""
        found = set[str]()
        for unit in self._units:
            words = tokens_of(unit.document.text)[unit.at].words
            for spot in spots_of(unit.document.text)[unit.at]["name"]:
                found.update(words[max(spot.start, 1) : spot.end])
        return frozenset(found)

    def accepts(self, claim: Claim) -> bool:
        """Whether no rival of an answer fits better. An answer that is no name and no number has no rivals."""
        if not claim.needed or not self._asked.words:
            return True
        if claim.line not in self._known:
            rival, said = self._rivals(claim)
            places = self._places(claim.line)
            self._known[claim.line] = not places or any(
                self._score(unit, spot) >= max(rival - bar.margin, bar.least)
                for unit, spot in places
                if (bar := self._bar(unit, claim, said))
            )
        return self._known[claim.line]

    def _bar(self, unit: _Unit, claim: Claim, said: set[Terms]) -> _Bar | None:
        """None for a number if the sentence of a rival says by itself all that is said here and in what leads here."""
        if self._one_step:
            return SUB_NUMBER if claim.numeric else SUB_TASK
        claimed = terms_of(claim.line)
        within = self._reach(unit, claimed)
        first, at = unit.passage.first, unit.at
        missing = [n for n in self._open(claimed)[1] if not all(first.get(term, at + 1) <= at for term in n)]
        if not any(name <= within for name in missing):
            return DIRECT
        outdone = claim.numeric and any(self._asked.words & within <= other for other in said)
        return None if outdone else LED_TO

    def reaches(self, claim: Claim, document: Document, sentence: Sentence) -> bool:
        """Whether a whole question leads to a sentence: a name of it is within reach, and `REACHED` of its words."""
        claimed = terms_of(claim.line)
        words, names = self._open(claimed)
        unit = self._at.get((id(document), sentence.start))
        if self._one_step or unit is None or not words:
            return False
        within = self._reach(unit, claimed)
        return any(name <= within for name in names) and self._share(words, within) >= REACHED

    def _places(self, line: str) -> list[tuple[_Unit, Spot]]:
        """Where an answer stands, or what it is the title of."""
        words = line.split()
        found = []
        for unit in self._units:
            sentence = analysed(unit.document.text).sentences[unit.at]
            if line in sentence.line:
                tokens = sentence.line.split()
                starts = (n for n in range(len(tokens)) if tokens[n : n + len(words)] == words)
                found += [(unit, Spot(line, start, start + len(words))) for start in starts]
            elif line == title_of(unit.document.title).line:
                found.append((unit, Spot(line, -1, -1)))
        self._standing.setdefault(line, dict.fromkeys(self._of_question(unit) for unit, _ in found))
        return found

    def _rivals(self, claim: Claim) -> tuple[float, set[Terms]]:
        """What the best rival counts, and what the sentences with rivals say of the question."""
        kind, words, size = kind_of(claim.line), frozenset(claim.line.split()), len(claim.line.split())
        kinds = ("name", "code") if self._one_step and kind in ("name", "code") else (kind,)
        best, said = -math.inf, set[Terms]()
        for unit in self._units:
            if not unit.said & self._asked.words:
                continue
            spots = spots_of(unit.document.text)[unit.at]
            for spot in (spot for each in kinds for spot in spots[each]):
                rival = spot.line.split()
                longer = kind == "name" and spot in spots["name"] and abs(len(rival) - size) > (size > 2)
                if longer or not words.isdisjoint(rival):
                    continue
                best = max(best, self._score(unit, spot))
                said.add(unit.said & self._asked.words)
        return best, said

    def _open(self, claimed: Terms) -> tuple[Terms, list[Terms]]:
        """The words and names of the question that an answer does not say itself."""
        return self._asked.words - claimed, [name for name in self._asked.names if not name <= claimed]

    def _score(self, unit: _Unit, spot: Spot) -> float:
        """What counts for an answer or a rival at its place; all answers have much the same rivals."""
        key = id(unit), spot
        if key not in self._scores:
            self._scores[key] = self._counted(unit, spot)
        return self._scores[key]

    def _counted(self, unit: _Unit, spot: Spot) -> float:
        line, claimed = spot.line, terms_of(spot.line)
        words, names = self._open(claimed)
        within = self._others(line, words, unit) if self._one_step else self._reach(unit, claimed)
        near, nearest, before, beside = self._nearness(unit, spot, words)
        said = self._share(words, unit.said)
        score = 2 * said + self._share(words, within) + 2 * near + nearest + self._named(names, unit.said, within)
        if self._head:
            score += 1.5 * (not self._head.isdisjoint(beside)) + 2 * (not self._head.isdisjoint(claimed))
        if self._word == "where":
            score += 1.5 * (before in _PLACED)
        elif self._word in ("who", "whom", "whose") and before in _NOT_WHO:
            score -= 1
        if claimed - FUNCTION_TERMS <= self._asked.words:
            score -= 2
        if spot.start == 0 and spot.end == 1 and line.strip() not in self._inside and kind_of(line) == "name":
            score -= 1.5
        return score + 1.5 * self._span(unit, line)

    def _named(self, names: list[Terms], said: Terms, within: Terms) -> float:
        here = 2.0 if self._one_step else -0.5
        if not names:
            return max(2.0, 2.0 + here)
        there, reached = sum(name <= said for name in names), sum(name <= within for name in names)
        return (2 * reached + here * there) / len(names)

    def _nearness(self, unit: _Unit, spot: Spot, words: Terms) -> tuple[float, float, str, Terms]:
        """How near the question's words are, the nearest, the word before the answer, and the words beside it."""
        if spot.start < 0:
            return 0.5 * self._share(words, unit.said), 0.0, "", frozenset()
        tokens, stems, cells = tokens_of(unit.document.text)[unit.at]
        first, last = next((cell for cell in cells if cell[0] <= spot.start < cell[1]), (0, len(stems)))
        near: dict[bytes, float] = {}
        for at, stem in self._asked_at(unit):
            if stem in words and first <= at < last and not spot.start <= at < spot.end:
                distance = spot.start - at if at < spot.start else at - spot.end + 1
                near[stem] = max(near.get(stem, 0.0), math.exp((1 - distance) / _NEAR))
        total = sum(map(self._weights.__getitem__, words)) or 1.0
        share = sum(self._weights[stem] * value for stem, value in near.items()) / total
        beside = stems[max(spot.start - _BESIDE, first) : spot.start] + stems[spot.end : min(spot.end + _BESIDE, last)]
        before = tokens[spot.start - 1] if spot.start else ""
        return share, max(near.values(), default=0.0), before, frozenset(beside)

    def _asked_at(self, unit: _Unit) -> list[tuple[int, bytes]]:
        """Where in a sentence words of the question stand."""
        if id(unit) not in self._positions:
            stems = tokens_of(unit.document.text)[unit.at].stems
            self._positions[id(unit)] = [(at, stem) for at, stem in enumerate(stems) if stem in self._asked.words]
        return self._positions[id(unit)]

    def _span(self, unit: _Unit, line: str) -> int:
        """1 if a year begins or ends a span of time as the question asks, -1 if it does the opposite."""
        begins, ends = not _BEGINS.isdisjoint(self._asked.words), not _ENDS.isdisjoint(self._asked.words)
        year = next((word for word in line.split() if is_year(word)), "")
        if begins == ends or not year:
            return 0
        sentence = analysed(unit.document.text).sentences[unit.at]
        span = _SPAN.search(unit.document.text, sentence.start, sentence.end)
        if span is None or year not in span.groups():
            return 0
        return 1 if (year == span[1]) == begins else -1

    def _others(self, line: str, words: Terms, unit: _Unit) -> Terms:
        """What another sentence with the answer says: the one that says most."""
        said = self._standing.get(line, ())
        return unit.said | max(said, key=lambda terms: self._weight(words & terms - unit.said), default=frozenset())

    def _of_question(self, unit: _Unit) -> Terms:
        return unit.said & (self._asked.words | self._asked.named)

    def _reach(self, unit: _Unit, claimed: Terms) -> Terms:
        """What the sentence says, and those that lead to it one after the other, each with more of the question."""
        if id(unit) not in self._reached:
            self._reached[id(unit)] = self._led(unit, frozenset())
        found = self._reached[id(unit)]
        return (found if found.link.isdisjoint(claimed) else self._led(unit, claimed)).said

    def _led(self, unit: _Unit, claimed: Terms) -> _Reach:
        within, links, last = unit.said, frozenset[bytes](), unit
        for _ in range(HOPS):
            missing = self._asked.words - within
            leads = (lead for lead in self._leading(last) if missing & lead.unit.said)
            allowed = (lead for lead in leads if lead.link.isdisjoint(claimed))
            best = max(allowed, key=lambda lead: self._weight(missing & lead.unit.said), default=None)
            if best is None:
                break
            within, links, last = within | best.unit.said, links | best.link, best.unit
        return _Reach(within, links)

    def _leading(self, unit: _Unit) -> list[_Lead]:
        key = id(unit)
        if key not in self._leads:
            found = ((lead, link) for lead in self._saying if (link := self._link(unit, lead)) is not None)
            self._leads[key] = [_Lead(lead, link) for lead, link in found]
        return self._leads[key]

    def _link(self, unit: _Unit, lead: _Unit) -> Terms | None:
        if lead.document is unit.document:
            return frozenset() if lead.at < unit.at else None
        asked = self._asked.words
        if (title := unit.passage.title) and title <= lead.own and not title <= asked:
            return title
        if lead.passage.title and lead.passage.title <= unit.own:
            return lead.passage.title
        names = (name for name in lead.passage.names[lead.at] if name.isdisjoint(asked) and not name <= CALENDAR_TERMS)
        return next((name for name in names if name <= unit.said), None)

    def _weight(self, terms: Terms) -> float:
        return sum(self._weights[word] for word in terms & self._asked.words)

    def _share(self, words: Terms, terms: Terms) -> float:
        return self._weight(words & terms) / (self._weight(words) or 1.0)


def _asked_for(question: str) -> Terms:
    """The noun after *what* or *which*, with what stands before it: `northern river` of *which northern river*."""
    found = _ASKED_FOR.search(question)
    words: list[bytes] = []
    for word in found[1].split()[:_BESIDE] if found else ():
        stem = term_list(word)
        if not stem or stem[0] in FUNCTION_TERMS:
            break
        words += stem if word[0].islower() else ()
    return frozenset(words)


@functools.lru_cache(maxsize=1024)
def _units_of(title: str, text: str) -> tuple[tuple[Passage, int, Terms, Terms], ...]:
    passage = passage_of(title, text)
    return tuple((passage, at, unit.terms, unit.terms | passage.title) for at, unit in enumerate(passage.sentences))


def _units(document: Document) -> Iterator[_Unit]:
    return (_Unit(document, *unit) for unit in _units_of(document.title, document.text))
