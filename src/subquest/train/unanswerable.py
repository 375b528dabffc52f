"""Questions that the documents cannot answer: their supporting passages are taken out of what is searched.

`unknown` is then the right answer. A question is chosen only if no passage that stays states its answer beside a name
that the question or its plan mentions, and if nothing that another question rests on is taken from it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..metrics import contains_answer, is_yes_no
from ..record import UNKNOWN, Document, Question
from .facts import names_in

TYPE = "unanswerable"


class Withheld(NamedTuple):
    questions: list[Question]
    """All questions; the chosen ones have the gold answer `unknown` and the type `unanswerable`."""
    passages: frozenset[str]
    """Ids of the passages that must not be searched."""


def as_unknown(question: Question) -> Question:
    """The question with the gold answer `unknown`."""
    return replace(question, answers=(UNKNOWN,), type=TYPE)


def withhold(
    questions: Sequence[Question],
    documents: Iterable[Document],
    share: float,
    *,
    seed: int,
    keep: Collection[str] = (),
) -> Withheld:
    """Make a share of the questions unanswerable; fewer where not enough can be. Passages in `keep` stay.

    Of every second chain of steps only the last passage is taken out, so that the first step still succeeds.
    """
    wanted = round(share * len(questions))
    if not wanted:
        return Withheld(list(questions), frozenset())
    passages = {document.id: f"{document.title} {document.text}" for document in documents}
    uses = Counter(id for question in questions for id in set(question.supporting_ids))
    uses.update(keep)
    gone: dict[str, frozenset[str]] = {}
    order = list(questions)
    random.Random(f"{seed}/unanswerable").shuffle(order)
    for question in order:
        if len(gone) == wanted:
            break
        supports = [id for id in question.supporting_ids if id in passages]
        if not supports or any(uses[id] > 1 for id in supports):
            continue
        chain = len(question.decomposition) > 1 and not is_yes_no(question.answers)
        out = frozenset(supports[-1:] if chain and len(gone) % 2 else supports)
        if not _stated(question, (text for id, text in passages.items() if id not in out)):
            gone[question.id] = out
    found = [as_unknown(q) if q.id in gone else q for q in questions]
    return Withheld(found, frozenset(id for out in gone.values() for id in out))


def _stated(question: Question, texts: Iterable[str]) -> bool:
    """Whether a passage states the answer beside a name of the question or its plan."""
    if is_yes_no(question.answers):  # no passage states yes or no, and without its facts nothing can be compared
        return False
    steps = [text for step in question.decomposition for text in (step.question, step.answer)]
    named = {name for text in (question.question, *steps) for name in names_in(text)} - set(question.answers)
    named |= set(question.supporting_titles)
    answer = question.answers[0].casefold()
    return any(
        answer in text.casefold() and contains_answer(text, question.answers) and any(name in text for name in named)
        for text in texts
    )
