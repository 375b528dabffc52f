"""Questions that the documents cannot answer: their supporting passages are taken out of what is searched.

`unknown` is then the right answer. A question is chosen only if no passage that stays states its answer beside a name
that the question or its plan mentions. All questions that rest on the same passage are chosen together or not at all.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ..metrics import contains_answer, is_yes_no
from ..record import UNKNOWN, Document, Question
from .facts import facts_of, names_in

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
    """Make a share of the questions unanswerable, at least one; fewer where not enough can be. Passages in `keep` stay.

    Of every second chain of steps only the last passage is taken out, so that the first step still succeeds.
    """
    wanted = max(1, round(share * len(questions))) if share else 0
    passages = {d.id: _Passage(text := f"{d.title} {d.text}", text.casefold()) for d in documents}
    resting: defaultdict[str, list[Question]] = defaultdict(list)
    for question in questions:
        for id in set(question.supporting_ids):
            resting[id].append(question)
    gone: dict[str, frozenset[str]] = {}
    tried: set[frozenset[str]] = set()
    order = list(questions)
    random.Random(f"{seed}/unanswerable").shuffle(order)
    for question in order:
        if len(gone) >= wanted:
            break
        supports = [id for id in question.supporting_ids if id in passages]
        if not supports or question.id in gone or any(id in keep for id in supports):
            continue
        chain = len(question.decomposition) > 1 and not is_yes_no(question.answers)
        out = frozenset(supports[-1:] if chain and len(gone) % 2 else supports)
        group = {q.id: q for id in out for q in resting[id] if q.id not in gone}
        if out in tried or len(gone) + len(group) > wanted:
            continue
        tried.add(out)
        left = [passage for id, passage in passages.items() if id not in out]
        if not any(_answered(q, out, left) for q in group.values()):
            gone |= dict.fromkeys(group, out)
    found = [as_unknown(q) if q.id in gone else q for q in questions]
    return Withheld(found, frozenset(id for out in gone.values() for id in out))


class _Passage(NamedTuple):
    text: str
    folded: str


def _answered(question: Question, out: Collection[str], left: Iterable[_Passage]) -> bool:
    """Whether the passages that stay answer a question. Where its last one stays, an earlier step decides."""
    if question.supporting_ids[-1] in out:
        return _stated(question, left)
    facts = facts_of(question)
    if len(facts) != len(question.supporting_ids):  # nothing says which step has lost its passage
        return True
    lost = [fact for fact, id in zip(facts, question.supporting_ids, strict=True) if id in out]
    asked = [Question("", fact.task, (fact.answer,), supporting_titles=(fact.support,)) for fact in lost]
    return all(_stated(step, left) for step in asked)


def _stated(question: Question, left: Iterable[_Passage]) -> bool:
    """Whether a passage states the answer beside a name of the question or its plan."""
    if is_yes_no(question.answers):  # no passage states yes or no, and without its facts nothing can be compared
        return False
    steps = [text for step in question.decomposition for text in (step.question, step.answer)]
    named = {name for text in (question.question, *steps) for name in names_in(text)} - set(question.answers)
    named |= set(question.supporting_titles)
    answer = question.answers[0].casefold()
    return any(
        answer in folded and contains_answer(text, question.answers) and any(name in text for name in named)
        for text, folded in left
    )
