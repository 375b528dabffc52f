"""What follows from quoted sub-results: a number, a day, or a longer answer with nothing beyond the quotes.

A sub-result may itself follow from those before it: *14 April 2025* and *30 days* give the day on which an invoice is
due, and that day and *a week* give the day of the reminder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..record import Evidence
from .arithmetic import follows
from .dates import day_follows, unit_asked_for
from .normalization import is_number
from .statements import Claim, claim_of, words_of


class Step(NamedTuple):
    """A sub-task and what it came back with."""

    task: str
    result: str
    notes: str
    quoted: bool
    """Whether documents state all of it."""


def sources_of(steps: Sequence[Step], question: str, evidence: Sequence[Evidence]) -> list[str] | None:
    """Sub-results from which others may follow, without numbers that no quote has. None if one is neither quoted nor
    follows from those before it."""
    quoted, sources = _words_in(evidence), list[str]()
    for step in steps:
        text = f"{step.result} {unit_asked_for(step.task)} {step.notes}"
        if step.quoted:
            words = words_of(text).line.split()
            sources.append(" ".join(word for word in words if not is_number(word) or word in quoted))
        elif sources and _is_computed(step.result, question, evidence, sources):
            sources.append(step.result)
        else:
            return None
    return sources


def _is_computed(text: str, question: str, evidence: Sequence[Evidence], sources: Sequence[str]) -> bool:
    """Whether a few words are a number or a day that no quote has and that follows from sources and the question."""
    claim, known = claim_of(text), [*sources, question]
    if not sources or not claim.short or not claim.line or stands_in(claim, evidence):
        return False
    if day_follows(text, known):
        return True
    numbers = [word for word in claim.needed if is_number(word)]
    asked = words_of(question).words
    if asked.issuperset(numbers) and "or" not in asked:
        return False  # the number of a name in the question, such as Lift 2, is not computed
    missing = claim.needed - asked - _words_in(evidence)
    return bool(numbers) and missing <= frozenset(numbers) and all(follows(n, text, known) for n in numbers)


def _words_in(quotes: Iterable[Evidence]) -> frozenset[str]:
    return frozenset(word for quote in quotes for text in (quote.title, quote.quote) for word in words_of(text).words)


def follows_from(answer: str, question: str, evidence: Sequence[Evidence], sources: Sequence[str]) -> bool:
    """Whether an answer that no sentence states has no name and no number beyond the quotes and the question.

    A number or a day may follow from `sources`.
    """
    claim, asked, quoted = claim_of(answer), words_of(question).words, _words_in(evidence)
    if claim.short:
        return _is_computed(answer, question, evidence, sources)
    missing = claim.needed - asked - quoted
    numbers = frozenset(filter(is_number, missing))
    if numbers:
        return missing <= numbers and all(follows(number, answer, [*sources, question]) for number in numbers)
    return not missing and bool(claim.needed & quoted - asked)


def stands_in(claim: Claim, quotes: Iterable[Evidence]) -> bool:
    return any(claim.line in words_of(quote.quote).line for quote in quotes)
