"""Gold decompositions as plans a planner could have written.

Data sets store steps as they come: 2Wiki as triples with the answer already filled in ("Mara Quill >> date of birth"),
MuSiQue partly so, partly as questions. A planner writes questions, with `#n` for what it does not know yet. So triples
become questions by rule, and an earlier step's answer becomes its reference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..record import Step
from .answers import answer_tokens, f1, normalize

_QUESTIONS = {
    "director": "Who directed {}?",
    "screenwriter": "Who wrote the screenplay of {}?",
    "producer": "Who produced {}?",
    "performer": "Who performed {}?",
    "composer": "Who composed {}?",
    "author": "Who wrote {}?",
    "creator": "Who created {}?",
    "founded by": "Who founded {}?",
    "publisher": "Who published {}?",
    "father": "Who is the father of {}?",
    "mother": "Who is the mother of {}?",
    "spouse": "Who is the spouse of {}?",
    "child": "Who is a child of {}?",
    "sibling": "Who is a sibling of {}?",
    "date of birth": "When was {} born?",
    "date of death": "When did {} die?",
    "place of birth": "Where was {} born?",
    "place of death": "Where did {} die?",
    "place of burial": "Where is {} buried?",
    "cause of death": "What did {} die of?",
    "publication date": "When was {} released?",
    "inception": "When was {} founded?",
    "country of citizenship": "Which country is {} from?",
    "country of origin": "Which country does {} come from?",
    "country": "Which country is {} in?",
    "continent": "Which continent is {} on?",
    "located in the administrative territorial entity": "Where is {} located?",
    "educated at": "Where was {} educated?",
    "employer": "Who employed {}?",
    "award received": "Which award did {} receive?",
    "capital": "What is the capital of {}?",
}
_ALIKE = 0.7
"""Token F1 from which a subject is taken for an earlier answer written a little differently."""


def natural_plan(steps: Sequence[Step]) -> tuple[str, ...]:
    """The steps as questions with references."""
    plan = []
    for at, step in enumerate(steps):
        subject, arrow, relation = (part.strip() for part in step.question.partition(">>"))
        if arrow:
            subject = _reference(subject, steps[:at])
            plan.append(_asked(relation, subject))
        else:
            text = re.sub(r"\s+\?", "?", step.question.strip())
            plan.append(text if "#" in text else _with_references(text, steps[:at]))
    return tuple(plan)


def _asked(relation: str, subject: str) -> str:
    known = _QUESTIONS.get(relation.lower())
    return known.replace("{}", subject) if known else f"What is the {relation} of {subject}?"


def _reference(subject: str, before: Sequence[Step]) -> str:
    """`#n` where the subject is the answer of an earlier step; the newest such step counts."""
    for at in range(len(before) - 1, -1, -1):
        if before[at].answer and f1(subject, before[at].answer) >= _ALIKE:
            return f"#{at + 1}"
    return subject


def _with_references(text: str, before: Sequence[Step]) -> str:
    """Earlier answers of at least one word that stand in a question, as references."""
    for at in range(len(before) - 1, -1, -1):
        answer = before[at].answer.strip()
        if answer_tokens(answer) and normalize(answer) not in {"yes", "no"}:
            text = re.sub(rf"(?<!\w){re.escape(answer)}(?!\w)", f"#{at + 1}", text)
    return text
