"""How teachers play the baselines that can be fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping

from ...metrics import contains_answer
from ...record import Question
from ...train.facts import Fact, query, titles_in
from ...train.gold import NOT_RETRIEVED, NOTHING, QUERIES, GiveUp, GoldTeacher, View


class SearchAgentTeacher(GoldTeacher):
    """Search-R1 and AutoRefine: one context, one fact after the other."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._at = 0
        self._tries = 0

    def reply(self, view: View) -> str:
        refines = "<refine>" in view.prompt
        note = ""
        if view.turn == 0:
            note = f"<think>{' '.join(self.steps)}</think>"
        else:
            found = self.read(self.facts[self._at], view.last)
            if found is None:
                self._tries += 1
                if self._tries >= QUERIES:
                    raise GiveUp(NOT_RETRIEVED)
                found = NOTHING
            else:
                self._at, self._tries = self._at + 1, 0
            note = f"<refine>{found}</refine>" if refines else f"<think>{found}</think>"
        if self._at == len(self.facts):
            return f"{note}{self.conclusion()}<answer>{self.answer}</answer>"
        fact = self.facts[self._at]
        return f"{note}{'' if self._tries else self.shared(fact)}<search>{query(fact, self._tries)}</search>"


class RAGTeacher(GoldTeacher):
    def reply(self, view: View) -> str:
        stated = contains_answer(view.prompt.partition("Question:")[0], self.question.answers)
        if not stated and not {f.support for f in self.facts} <= titles_in(view.prompt):
            raise GiveUp(NOT_RETRIEVED)
        return f"{self.conclusion()}<answer>{self.answer}</answer>"


class DirectTeacher(GoldTeacher):
    """Knows the answer and nothing of how to find it: fine-tuning without search (the SFT row of CoDA's table 1)."""

    @classmethod
    def refusal(cls, question: Question, facts: list[Fact]) -> str:
        return ""

    def reply(self, view: View) -> str:
        return f"<answer>{self.answer}</answer>"


TEACHERS: Mapping[str, type[GoldTeacher]] = {
    "search-r1": SearchAgentTeacher,
    "autorefine": SearchAgentTeacher,
    "rag": RAGTeacher,
    "direct": DirectTeacher,
}
