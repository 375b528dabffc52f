"""A teacher without a model: it rewords questions and notes by rules, and answers from articles.

It replaces the large model of APEX's pipeline where there is none: on a laptop, in tests, on a machine without a
network. Its output goes through the same filters and the same validation as a model's.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from ..data.self_instruct import ANSWER, REWRITE
from ..engine.interface import Generation, Message, Mode, Sampling
from ..metrics import contains_answer
from ..record import Question, Segment
from .facts import facts_of

OPENINGS = (
    "please find out: {}",
    "I would like to know: {}",
    "could you tell me this: {}",
    "here is what we need: {}",
    "find the answer to this: {}",
    "{} That is the question.",
)
QUESTION_WORDS = frozenset(
    {"who", "whom", "whose", "what", "which", "when", "where", "how", "is", "was", "are", "were", "did", "does", "the"}
)
NOTED = ("the documents state: {}", "found: {}", "from what was found: {}")


class RuleTeacher:
    """An engine for the pipeline's three requests: rewrite a plan, answer from an article, reword a turn."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self.name = "rules"
        self.context_window: int | None = None
        self._answers: dict[tuple[str, str], str] = {}
        for question in questions:
            for fact in facts_of(question):
                self._answers[fact.support, fact.task] = fact.answer

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> RuleSession:
        return RuleSession(self, messages[0].content, messages[-1].content)

    def count_tokens(self, text: str) -> int:
        return len(text.split())

    async def close(self) -> None:
        """Nothing to close."""

    def reply(self, system: str, user: str) -> str:
        if system == REWRITE:
            return _rewritten(user)
        if system == ANSWER:
            return f"<answer>{self._answer(user)}</answer>"
        turn = user.rpartition("The turn:\n")[2]
        return re.sub(r"<(refine|search)>(.*?)</\1>", _reword, turn, flags=re.DOTALL)

    def _answer(self, user: str) -> str:
        """The gold answer of a step, if the article contains it."""
        head, _, asked = user.rpartition("\nQuestion: ")
        title, _, text = head.removeprefix("Article: ").partition("\n")
        gold = self._answers.get((title, _stripped(asked)), "")
        if not gold:
            gold = next((a for (_, task), a in self._answers.items() if task == asked and contains_answer(text, a)), "")
        return gold if gold and contains_answer(text, gold) else "None"


class RuleSession:
    def __init__(self, teacher: RuleTeacher, system: str, user: str) -> None:
        self._teacher, self._system, self._user = teacher, system, user
        self.segments: tuple[Segment, ...] = ()
        self.context_tokens = 0

    async def generate(self, sampling: Sampling) -> Generation:
        return Generation(self._teacher.reply(self._system, self._user), "end")

    async def append(self, text: str) -> None:
        self._user = text

    def fork(self) -> RuleSession:
        return RuleSession(self._teacher, self._system, self._user)

    async def close(self) -> None:
        """Nothing to close."""


def _rewritten(user: str) -> str:
    question, _, plan = user.removeprefix("Question: ").partition("\nPlan:\n")
    steps = (line.partition(". ")[2] for line in plan.splitlines())
    worded = "\n".join(f"{n}. {_worded(step)}" for n, step in enumerate(steps, 1))
    return f"<question>{_worded(question)}</question>\n<plan>\n{worded}\n</plan>"


def _worded(text: str) -> str:
    made = _chosen(OPENINGS, text).format(text)
    return made[0].upper() + made[1:]


def _stripped(text: str) -> str:
    """A question without the opening it was given."""
    for opening in OPENINGS:
        before, after = (part.casefold() for part in opening.split("{}"))
        folded = text.casefold()
        if (before or after) and folded.startswith(before) and folded.endswith(after):
            return text[len(before) : len(text) - len(after)]
    return text


def _reword(match: re.Match[str]) -> str:
    """A note with another opening, or a query as keywords."""
    tag, text = match[1], match[2]
    if tag == "search":
        kept = [word for word in text.rstrip("?").split() if word.casefold() not in QUESTION_WORDS]
        return f"<search>{' '.join(kept) or text}</search>"
    note = _chosen(NOTED, text).format(text)
    return f"<refine>{note[0].upper()}{note[1:]}</refine>"


def _chosen(forms: Sequence[str], text: str) -> str:
    """One of the forms; always the same one for a text."""
    return forms[hashlib.blake2b(text.encode(), digest_size=2).digest()[0] % len(forms)]
