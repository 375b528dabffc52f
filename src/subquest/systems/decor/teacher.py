"""How a teacher plays DECOR: queries from the gold plan, evidence from what was retrieved."""

from __future__ import annotations

from collections.abc import Mapping

from ...record import Question
from ...train.facts import Fact, query
from ...train.gold import GoldTeacher, View


class DECORTeacher(GoldTeacher):
    longest = 4

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._planned = 0

    def reply(self, view: View) -> str:
        if view.role == "planner":
            at, self._planned = self._planned, self._planned + 1
            if at == len(self.facts) or self.missing:
                return "<search>None</search>"
            return f"<search>{query(self.facts[at], 0)}</search>"
        if view.role == "filter":
            found = self.read(self.facts[self._planned - 1], view.prompt)
            if found is None:
                self.not_retrieved()
            return f"<filter>{found}</filter>"
        return self.final(view)


TEACHERS: Mapping[str, type[GoldTeacher]] = {"decor": DECORTeacher}
