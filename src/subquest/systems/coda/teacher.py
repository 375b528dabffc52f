"""How a teacher plays CoDA: sub-tasks from the gold plan, results from what was retrieved."""

from __future__ import annotations

from collections.abc import Mapping

from ...record import Question
from ...train.facts import Fact, query
from ...train.gold import NOT_RETRIEVED, NOTHING, QUERIES, GiveUp, GoldTeacher, View


class CoDATeacher(GoldTeacher):
    """The planner asks one thing a turn, and of each item of a list at once."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._asked = 0

    def reply(self, view: View) -> str:
        return self._plan(view.turn) if view.role == "planner" else self._execute(view)

    def _plan(self, turn: int) -> str:
        if self._asked == len(self.facts):
            return f"{self.conclusion()}<answer>{self.answer}</answer>"
        first = self.facts[self._asked]
        thought = f"<think>{' '.join(self.steps)}</think>" if turn == 0 and len(self.facts) > 1 else self.shared(first)
        now = [first] if not first.about else [f for f in self.facts[self._asked :] if f.about]
        self._asked += len(now)
        return thought + "".join(f"<task>{fact.task}</task>" for fact in now)

    def _execute(self, view: View) -> str:
        fact = self.fact_for(view.prompt.rpartition("Task: ")[2].partition("<|")[0].strip())
        if view.turn == 0:
            return f"<search>{query(fact, 0)}</search>"
        note = self.read(fact, view.last)
        tag = "refine" if "<refine>" in view.prompt else "think"
        if note is not None:
            return f"<{tag}>{note}</{tag}><result>{self.result(fact)}</result>"
        if view.turn >= QUERIES:
            raise GiveUp(NOT_RETRIEVED)
        return f"<{tag}>{NOTHING}</{tag}><search>{query(fact, view.turn)}</search>"


TEACHERS: Mapping[str, type[GoldTeacher]] = {"coda": CoDATeacher}
