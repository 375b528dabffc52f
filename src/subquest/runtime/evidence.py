"""Evidence: the sentences of documents that state what was found, and whether they support the answer.

Quotes are chosen by code from the documents themselves, so a citation can never be invented by a model. A quote states
a *sub-result* (what a role concluded, `Finding`) or the answer, or it leads from the question to the quote that states
the answer (`chain`); others are not shown. What stating means is in `statements`.

An answer is *supported* where

    a document that was read states it, or
    it is a number that follows from numbers of the sub-results in one step (`arithmetic`), all of which are quoted, or
    it is yes or no and a quote says so, or
    it compares two things of the question, and the dates or numbers of the sub-results, or of sentences about the two,
    say the same, or
    it is a sentence whose names and numbers all stand in the quotes or in the question, some of them in the quotes

A yes, a no or a choice that no rule can check has *supported parts* where every sub-task came back with a sub-result
that is quoted, the quotes are about the question and they do not say the opposite.

A few words are stated only by a sentence about what was asked (`relevance`), and only if nothing else there fits the
question better (`fit`). How comparisons are checked is in `comparison` and `quoted_comparison`. A row of a table states
a result only if it has those names of the task (or of the query) that rows of the table have. An answer that only says
that it does not know, or of another kind than what was asked (`answer_kind`), is not supported. The rules cannot check
longer reasoning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import msgspec

from ..citation import place_in
from ..record import Document, Evidence
from .answer_kind import is_misfit
from .answer_list import parts_of
from .chain import chain
from .comparison import decides, is_one_of_several
from .dates import with_years_alone
from .derivation import Step, follows_from, sources_of, stands_in
from .fit import Fit
from .normalization import CALENDAR, is_number
from .polarity import confirms, denies, says
from .quoted_comparison import compared_sentences, decides_quoted
from .relevance import Relevance, asked_of
from .statements import (
    FUNCTION_WORDS,
    Claim,
    Sentence,
    analysed,
    claim_of,
    declines,
    left_to_say,
    restated,
    sentences,
    title_of,
    words_of,
    yes_or_no,
)
from .word_forms import terms_of

_SENTENCES = 50
"""Sentences of a result that are searched for; a longer result is never stated in full."""
_OWN = 1.0
"""What words of the task count in the sentence itself, beyond what they count there and in the title."""
_ABOUT = 0.6
"""Share of the task's words that a sentence needs if only the title of its document states the result."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a role concluded, and the documents it had read by then. Without task, result and notes: documents alone."""

    task: str
    result: str
    notes: str
    """What it wrote about the documents before it concluded (refine, filter)."""
    documents: Sequence[Document]
    trajectory: str = ""
    query: str = ""
    aside: bool = False
    """Said along the way: quoted if a document states it, and otherwise not counted as a sub-result."""

    @property
    def is_result(self) -> bool:
        return not self.aside and bool(self.task or self.result or self.notes)


class Support(NamedTuple):
    evidence: tuple[Evidence, ...]
    supported: bool | None
    """None if there is no answer."""
    parts: bool = False
    """Whether all that the answer was concluded from is quoted, but not the conclusion, which no rule can check."""


def newest(findings: Sequence[Finding]) -> str:
    """The newest result that says something ("not found" does not); empty if none does."""
    results = (finding.result for finding in reversed(findings))
    return next((result for result in results if result and not declines(result)), "")


def support(findings: Iterable[Finding]) -> tuple[Evidence, ...]:
    """For each finding, the sentences that state it, if any; no quote twice."""
    return _unique(quote for finding in findings for quote in _quotes(finding).found)


def is_stated(finding: Finding) -> bool:
    """Whether documents state all of a finding."""
    return _quotes(finding).complete


def support_of(answer: str, question: str, findings: Sequence[Finding], given: Sequence[Evidence] = ()) -> Support:
    """The quotes that support an answer, and whether there are any. `given` are quotes that a system chose itself."""
    if not answer.strip():
        return Support((), None)
    if declines(answer) or is_misfit(claim_of(answer), question):
        return Support((), False)
    found = _support_of_one(answer, question, findings, given)
    if found.supported or found.parts:
        return found
    return _support_of_list(answer, question, findings, given) or found


def _support_of_list(
    answer: str, question: str, findings: Sequence[Finding], given: Sequence[Evidence]
) -> Support | None:
    """The quotes that support all parts of a list, each by the rules for an answer; None if one has none.

    Or the one that has the same list with an *and*.
    """
    parts = parts_of(answer, question)
    joined = f"{', '.join(parts[:-1])} and {parts[-1]}" if parts else ""
    if joined and any(claim_of(joined).line in analysed(d.text).lines for f in findings for d in f.documents):
        whole = _support_of_one(joined, question, findings, given)
        if whole.supported:
            return whole
    found: list[Support] = []
    for part in parts:
        found.append(support_of(part, question, findings, given))
        if not found[-1].supported:
            return None
    quotes = _unique(quote for support in found for quote in support.evidence)
    stating = {(q.id, q.quote) for support in found for q in support.evidence if q.states_answer}
    marked = (msgspec.structs.replace(q, states_answer=(q.id, q.quote) in stating) for q in quotes)
    return Support(tuple(marked), True) if found else None


def _support_of_one(answer: str, question: str, findings: Sequence[Finding], given: Sequence[Evidence]) -> Support:
    quoted = [(finding, _quotes(finding, question)) for finding in findings]
    evidence = _unique([*given, *(quote for _, quotes in quoted for quote in quotes.found)])
    claim, (agrees, _) = claim_of(answer), yes_or_no(answer)
    if claim.line and not agrees:
        own = [each for each in quoted if each[0].task and claim.line == claim_of(each[0].result).line]
        trusted = [each for each in quoted if not _is_overruled(each[0], claim, own)]
        if own and is_one_of_several(question, answer, [(f.task, f.result) for f in findings if f.task]):
            trusted = []
        concluded = [quote for each in trusted for quote in _concluded(answer, question, *each)]
        stating = [quote for quote in (*given, *concluded) if stands_in(claim, [quote])]
        if not stating and not own and (found := _answered(question, answer, findings)) is not None:
            stating = [found]
        if stating:
            return Support(_linked(question, findings, _unique([*evidence, *concluded]), stating[-1]), True)
    results = [(finding, quotes) for finding, quotes in quoted if finding.is_result]
    steps = [Step(f.task, f.result, f.notes, quotes.complete) for f, quotes in results]
    sources = sources_of(steps, question, evidence)
    rests = bool(evidence) and bool(results or given) and sources is not None
    if not rests and (compared := _compared(question, answer, findings)):
        return Support(compared, True)
    if not agrees and not (rests and _is_a_choice(claim, question, evidence)):
        supported = bool(evidence) and follows_from(answer, question, evidence, sources if rests and sources else [])
        return Support(evidence if supported else (), supported)
    decided = decides(question, answer, [(f.task, f.result) for f, _ in results if f.task])
    if decided is None:
        decided = decides_quoted(question, answer, evidence).holds
    if agrees:
        yes = agrees in ("true", "yes")
        rests = rests and (confirms(question, evidence, len(results)) if yes else denies(question, evidence))
        if decided is None and says(question, evidence, yes=yes):
            decided = True
    rests = rests and decided is not False
    return Support(evidence if rests else (), rests and decided is True, rests and decided is None)


def _is_overruled(finding: Finding, claim: Claim, own: Sequence[tuple[Finding, _Quotes]]) -> bool:
    """Whether the answer is what a later sub-task came back with and no document states there: `finding` then says it
    of something else. `own` are the findings that have the answer for their result."""
    if not own or own[-1][1].found:
        return False
    words = asked_of(own[-1][0].task).words - terms_of(claim.line)
    return 2 * len(words & asked_of(finding.task).words) < len(words)


def _compared(question: str, answer: str, findings: Sequence[Finding]) -> tuple[Evidence, ...]:
    """Sentences of the documents that bear the comparison of two things of the question; empty if they do not."""
    reader = {id(d): finding for finding in reversed(findings) if not finding.aside for d in finding.documents}
    documents = list({id(d): d for finding in findings if not finding.aside for d in finding.documents}.values())
    found = compared_sentences(question, documents)
    quotes = _unique(_evidence(_Place(0.0, reader[id(document)], document, sentence)) for document, sentence in found)
    compared = decides_quoted(question, answer, quotes)
    chosen = bool(yes_or_no(answer)[0]) or _is_a_choice(claim_of(answer), question, quotes)
    return compared.quotes if compared.holds and chosen else ()


def _linked(
    question: str, findings: Sequence[Finding], evidence: Sequence[Evidence], stating: Evidence
) -> tuple[Evidence, ...]:
    """The quotes with the one that states the answer marked, and before it those that lead to it."""
    reader = {id(d): finding for finding in reversed(findings) for d in finding.documents}
    documents = list({id(d): d for finding in findings for d in finding.documents}.values())
    end = next((d for d in documents if d.id == stating.id and d.text.startswith(stating.quote, stating.start)), None)
    quotes = list(_unique([*evidence, stating]))
    places = [(quote.id, quote.start) for quote in quotes]
    links = chain(question, documents, end, stating.start, places) if end is not None else ()
    at = next(n for n, quote in enumerate(quotes) if (quote.id, quote.quote) == (stating.id, stating.quote))
    quotes[at] = msgspec.structs.replace(quotes[at], states_answer=True)
    leading = [_evidence(_Place(0.0, reader[id(link.document)], *link)) for link in links]
    return _unique([*quotes[:at], *leading, *quotes[at:]])


def _is_a_choice(claim: Claim, question: str, evidence: Sequence[Evidence]) -> bool:
    """Whether the question names the answer and something else (which is longer: A or B?), and a quote is about it."""
    named = bool(claim.needed) and claim.line in words_of(question).line
    claimed = terms_of(claim.line)
    names = asked_of(question).names
    offered = "or" in words_of(question).words or any(not (name <= claimed or claimed <= name) for name in names)
    return (
        named and offered and any(claim.words <= words_of(f"{quote.title} {quote.quote}").words for quote in evidence)
    )


def _concluded(answer: str, question: str, finding: Finding, quotes: _Quotes) -> tuple[Evidence, ...]:
    """Quotes with the answer, if a role concluded it or said it on the way.

    A result may say more than the answer: then a sentence has to state the answer to the task, or to the question.
    """
    claim = claim_of(answer)
    if claim.line not in words_of(f"{finding.result} {finding.notes}").line:
        return ()
    if not claim.short or claim.line == claim_of(finding.result).line:
        return quotes.found if stands_in(claim, quotes.found) else ()
    alone = _quotes(replace(finding, task=finding.task or question, result=answer, notes="", query=""), question).found
    return (*quotes.found, *alone) if stands_in(claim, alone) else ()


class _Quotes(NamedTuple):
    found: tuple[Evidence, ...] = ()
    complete: bool = False
    """Whether they state all of the finding."""


def _quotes(finding: Finding, question: str = "") -> _Quotes:
    """Quotes that state a finding. A result that no document can state (yes, a computed value) rests on its notes.

    A finding without a task is about the question.
    """
    word, reason = yes_or_no(finding.result)
    if finding.result and not word:
        claim = claim_of(finding.result)
        if (finding.aside and (claim.short or not claim.needed)) or is_misfit(claim, finding.task or question):
            return _Quotes()
        quotes = _stating(finding, finding.result, question)
        if quotes.found or not claim.numeric:
            return quotes
    for text in (reason, finding.notes, finding.task if word in ("true", "yes") else ""):
        if claim_of(text).line:
            return _stating(finding, text, question)
    return _Quotes()


def _stating(finding: Finding, text: str, question: str) -> _Quotes:
    """A quote for each sentence of a text, if there is one."""
    spans = sentences(text)
    claims = [claim for start, end in spans[:_SENTENCES] if (claim := claim_of(text[start:end])).line]
    task = words_of(finding.task).words
    about = task | words_of(finding.notes).words
    asked = [text for text in (finding.task, finding.query) if text] or [question]
    relevant = _About(asked, finding.documents, question)
    best = [_best(finding, claim, task, about, relevant) for claim in claims]
    found = tuple(_evidence(place) for place in best if place is not None)
    return _Quotes(found, bool(found) and len(found) == len(best) and len(spans) <= _SENTENCES)


def _answered(question: str, answer: str, findings: Sequence[Finding]) -> Evidence | None:
    """The sentence among all documents that states the answer best."""
    claim, asked = claim_of(answer), words_of(question).words
    documents = list({id(d): d for finding in findings if not finding.aside for d in finding.documents}.values())
    seen: set[int] = set()
    places = []
    for finding in findings:
        if finding.aside:
            continue
        unseen = [document for document in finding.documents if id(document) not in seen]
        seen.update(map(id, unseen))
        relevant = _About([question, finding.query], documents, question, strict=True)  # nobody concluded it from there
        places.append(_best(replace(finding, documents=unseen), claim, asked, asked, relevant))
    best = max((place for place in places if place is not None), key=lambda place: place.score, default=None)
    return _evidence(best) if best is not None else None


class _About:
    """Whether a sentence that states a claim is about what was asked, and nothing else there fits better."""

    def __init__(
        self, asked: Sequence[str], documents: Sequence[Document], question: str, *, strict: bool = False
    ) -> None:
        self._asked, self._documents, self._one_step = asked[0], documents, asked[0] != question
        self._relevant = Relevance(asked, documents, strict=strict, led_to=lambda *given: self._fit.reaches(*given))

    @functools.cached_property
    def _fit(self) -> Fit:
        """Made only for short answers."""
        read = [document for document in self._documents if "tool" not in document.meta]
        return Fit(self._asked, read, one_step=self._one_step)

    def __call__(self, claim: Claim, document: Document, sentence: Sentence) -> bool:
        if not self._relevant(claim, document, sentence):
            return False
        return not claim.short or "tool" in document.meta or self._fit.accepts(claim)


class _Place(NamedTuple):
    score: float
    finding: Finding
    document: Document
    sentence: Sentence


def _best(
    finding: Finding, claim: Claim, task: frozenset[str], about: frozenset[str], relevant: _About
) -> _Place | None:
    """The sentence that states a claim; of several, the one with the most words of the task and the notes, its own
    before those of its title."""
    size = max(len(about), 1)
    counted = claim.words if claim.short and CALENDAR.isdisjoint(claim.words) else frozenset()
    numbers = frozenset(filter(is_number, counted))
    entries = _entries(finding)
    best: _Place | None = None
    for document in finding.documents:
        title, text = title_of(document.title), analysed(document.text)
        verbatim = claim.line in text.lines
        titled = bool(task) and claim.line == title.line
        left = left_to_say(claim, text, title.words)
        if not (verbatim or titled or left):
            continue
        named = 0.5 * (bool(title.words) and title.words <= task)  # the document about what was asked, no namesake
        from_title = about & title.words
        asked = entries.get(_table(document), ())
        for sentence in text.sentences:
            if sentence.is_row and asked and not any(names <= sentence.words for names in asked):
                continue  # a row about something else
            states = float(verbatim and claim.line in sentence.line)
            if not states and left:
                states = 0.5 * restated(claim, left, sentence)
            if (
                states
                and numbers
                and not numbers - title.words <= _counted(document.text[sentence.start : sentence.end])
            ):
                states = 0.0  # the day of a date is no number
            if not states and not titled:
                continue
            overlap = len(about & sentence.words | from_title) / size
            if not states and overlap < _ABOUT:
                continue
            score = states + overlap + named + _OWN * len(about & sentence.words - FUNCTION_WORDS) / size
            if (best is None or score > best.score) and relevant(claim, document, sentence):
                best = _Place(score, finding, document, sentence)
    return best


@functools.lru_cache(maxsize=4096)
def _counted(text: str) -> frozenset[str]:
    """The numbers of a text, of its dates the years alone."""
    return frozenset(word for word in words_of(with_years_alone(text)).words if is_number(word))


def _entries(finding: Finding) -> dict[str, list[frozenset[str]]]:
    """The names by which the task and the query ask for a row, for each table that has rows with such names.

    Rows look alike: `Phone: ext. 204` in the row of somebody else says nothing about who was asked for.
    """
    rows: dict[str, frozenset[str]] = {}
    for document in finding.documents:
        if words := analysed(document.text).row_words:
            rows[_table(document)] = rows.get(_table(document), frozenset()) | words
    asked = [claim_of(text).needed for text in (finding.task, finding.query)] if rows else []
    return {table: [names & words for names in asked if names & words] for table, words in rows.items()}


def _table(document: Document) -> str:
    """Which table the rows of a document belong to."""
    return "\n".join(str(document.meta.get(field, "")) for field in ("file", "member", "sheet")) + document.title


def _evidence(place: _Place) -> Evidence:
    finding, document = place.finding, place.document
    start, end = place.sentence.start, place.sentence.end
    where = place_in(document.meta, document.text, start, end)
    return Evidence(
        document.id, document.title, document.text[start:end], start, finding.trajectory, finding.query, where
    )


def _unique(quotes: Iterable[Evidence]) -> tuple[Evidence, ...]:
    """Each quote once. Its `start` does not tell: rows of one table may have been read apart (`table_rows.py`)."""
    unique: dict[tuple[str, str], Evidence] = {}
    for quote in quotes:
        unique.setdefault((quote.id, quote.quote), quote)
    return tuple(unique.values())
