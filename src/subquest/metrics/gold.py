"""Gold decompositions as plans a planner could have written.

Data sets store steps as they come: 2Wiki as triples with the answer already filled in ("Mara Quill >> date of birth"),
MuSiQue partly so, partly as questions. A planner writes questions, with `#n` for what it does not know yet. So triples
become questions by rule, and an earlier step's answer becomes its reference. Steps of a world that ask about items of
a list which an earlier step finds ask about that step instead, and once for all items: no planner knows their names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..record import Question, Step
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
_ITEM = re.compile(r"#(\d+)\.(\d+)")
_SHARED = re.compile(r"#(\d+)&(\d+)")
_ALIKE = 0.7
"""Token F1 from which a subject is taken for an earlier answer written a little differently."""


def gold_plan(question: Question) -> tuple[str, ...]:
    """The question's decomposition as a planner could have written it before anything was found."""
    given = enumerate(question.decomposition, 1)
    steps = [Step(with_unknown_items(question, n, step.question), step.answer, step.support) for n, step in given]
    return tuple(text for n, text in enumerate(natural_plan(steps), 1) if not repeats(question, n))


def with_unknown_items(question: Question, n: int, text: str) -> str:
    """The n-th step's text, an item of a list that an earlier step finds as that step's number."""
    item = item_of(question, n)
    if not item:
        return text
    subject = _subject(question, n)
    one, both = _ITEM.fullmatch(subject), _SHARED.fullmatch(subject)
    return text.replace(item, f"#{one[1]}" if one else f"the one in #{both[1]} and #{both[2]}" if both else item)


def repeats(question: Question, n: int) -> bool:
    """Whether the n-th step asks of a further item what one before it asks of the first."""
    one, item = _ITEM.fullmatch(_subject(question, n)), item_of(question, n)
    return one is not None and one[2] != "0" and bool(item) and item in question.decomposition[n - 1].question


def items_of(question: Question, n: int) -> tuple[str, ...]:
    """The list that the n-th step finds or counts, where it does and its items are known."""
    return tuple(question.meta.get("items", {}).get(str(n), ()))


def item_of(question: Question, n: int) -> str:
    """The item of an earlier list that the n-th step asks about; empty where it does not."""
    subject = _subject(question, n)
    if one := _ITEM.fullmatch(subject):
        items = items_of(question, int(one[1]))
        return items[int(one[2])] if int(one[2]) < len(items) else ""
    if both := _SHARED.fullmatch(subject):
        shared = set(items_of(question, int(both[1]))) & set(items_of(question, int(both[2])))
        return shared.pop() if len(shared) == 1 else ""
    return ""


def _subject(question: Question, n: int) -> str:
    """What the n-th row of a world's program asks about; empty where there is no program."""
    program = question.meta.get("program", ())
    return str(program[n - 1][1]) if n <= len(program) else ""


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
