"""How a teacher plays DECOR: queries from the gold plan, evidence from what was retrieved."""

from __future__ import annotations

from collections.abc import Mapping

from ...record import Question
from ...train.facts import Fact, query, titles_in
from ...train.gold import GoldTeacher, View


class DECORTeacher(GoldTeacher):
    """With the full prompts the first query is the question, and filters keep all that its documents state of the plan;
    with the compact ones each query asks for one fact, and nobody thinks."""

    longest = 4

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._planned = 0

    def reply(self, view: View) -> str:
        if view.role == "planner":
            return self._plan(view) if view.examples else self._plan_plainly()
        if view.role == "filter":
            return self._filter(view) if view.examples else self._filter_plainly(view)
        return self.final(view)

    def _plan(self, view: View) -> str:
        at, self._planned = self._planned, self._planned + 1
        if at == 0:
            begin = "Known: nothing yet, and no query was sent, so my first query is the whole question."
            return f"{view.thought(begin)}<search>{self.first_query()}</search>"
        known = f"Known: {self.known() or 'nothing yet.'}"
        if not self.looked_for():
            return f"{view.thought(f'{known} Missing: nothing.')}<search>None</search>"
        fact, text = self.next_query()
        missing = f"Missing: {fact.task}" if text else f"The searches did not bring it: {fact.task}"
        return f"{view.thought(f'{known} {missing}')}<search>{text or 'None'}</search>"

    def _filter(self, view: View) -> str:
        shown = view.last
        found = self.read_all(shown)
        kept = {note.number for note in found}
        seen = [
            f"Doc {n} is about {title}: {'kept' if n in kept else 'left out'}."
            for n, title in enumerate(titles_in(shown), 1)
        ]
        paragraph = " ".join(dict.fromkeys(note.note for note in found)) or "None"
        return f"{view.thought(' '.join(seen) or 'There are no documents.')}<filter>{paragraph}</filter>"

    def _plan_plainly(self) -> str:
        at, self._planned = self._planned, self._planned + 1
        if at == len(self.facts) or self.missing:
            return "<search>None</search>"
        return f"<search>{query(self.facts[at], 0)}</search>"

    def _filter_plainly(self, view: View) -> str:
        found = self.read(self.facts[self._planned - 1], view.prompt)
        if found is None:
            self.not_retrieved()
        return f"<filter>{found}</filter>"


TEACHERS: Mapping[str, type[GoldTeacher]] = {"decor": DECORTeacher}
