"""How teachers play the baselines that can be fine-tuned."""

from __future__ import annotations

from collections.abc import Mapping

from ...metrics import contains_answer
from ...record import Question
from ...train.facts import Fact, query, titles_in
from ...train.gold import NOTHING, QUERIES, GoldTeacher, View


class SearchAgentTeacher(GoldTeacher):
    """Search-R1 and AutoRefine: one context. The full prompts say that the question itself is searched first, so
    everything that its documents state is read before the next fact is looked for; with the compact ones it is one
    fact after the other."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._at = 0
        self._tries = 0

    def reply(self, view: View) -> str:
        refines = "<refine>" in view.prompt
        if view.examples:
            return self._begin(view) if view.turn == 0 else self._go_on(view, refines)
        note = ""
        if view.turn == 0:
            note = f"<think>{' '.join(self.steps)}</think>"
        else:
            found = self.read(self.facts[self._at], view.last)
            if found is None:
                self._tries += 1
                if self._tries >= QUERIES:
                    self.not_retrieved()
                found = NOTHING
            else:
                self._at, self._tries = self._at + 1, 0
            note = f"<refine>{found}</refine>" if refines else f"<think>{found}</think>"
        if self._at == len(self.facts) or self.missing:
            return f"{note}{self.final(view)}"
        fact = self.facts[self._at]
        shared = "" if self._tries else view.thought(self.shared(fact))
        return f"{note}{shared}<search>{query(fact, self._tries)}</search>"

    def _begin(self, view: View) -> str:
        needed = f"I need: {' '.join(self.steps)} " if len(self.facts) > 1 else ""
        return f"{view.thought(f'{needed}I begin with the question.')}<search>{self.first_query()}</search>"

    def _go_on(self, view: View, refines: bool) -> str:
        read = " ".join(dict.fromkeys(found.cited for found in self.read_all(view.last))) or NOTHING
        next_step, action = self._next()
        if refines:
            return f"<refine>{read}</refine>\n{view.thought(next_step)}{action}"
        return f"{view.thought(f'{read} {next_step}'.strip())}{action}"

    def _next(self) -> tuple[str, str]:
        """What is thought before the next action, and the action."""
        if self.looked_for():
            fact, text = self.next_query()
            if text:
                return " ".join(filter(None, [self.shared(fact), f"Missing: {fact.task}"])), f"<search>{text}</search>"
            return f"The searches did not bring it: {fact.task}", self.given()
        return self.worked_out() or "Nothing is missing.", self.given()


class RAGTeacher(GoldTeacher):
    def reply(self, view: View) -> str:
        shown = view.last.rpartition("Question:")[0]
        stated = not self.question.unanswerable and contains_answer(shown, self.question.answers)
        if not stated and not {f.support for f in self.facts} <= set(titles_in(shown)):
            self.not_retrieved()
        return self.given() if view.examples else self.final(view)


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
