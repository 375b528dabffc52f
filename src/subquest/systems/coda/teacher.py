"""How a teacher plays CoDA: sub-tasks from the gold plan, results from what was retrieved."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...record import Question
from ...train.facts import Fact, query
from ...train.gold import NOT_FOUND, NOTHING, QUERIES, GoldTeacher, View

_REFERENCE = re.compile(r"#(\d+)")


class CoDATeacher(GoldTeacher):
    """The planner asks of each item of a list at once. Where the prompt thinks plainly (the full set) it also sends
    tasks that do not depend on each other together, and says after each turn what is known and what is needed."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._asked = 0
        self._before = 0
        """Facts asked for before the last turn."""

    def reply(self, view: View) -> str:
        return self._plan(view) if view.role == "planner" else self._execute(view)

    def _plan(self, view: View) -> str:
        if self._asked == len(self.facts) or self.missing:
            return f"{'' if self.conclusion() and not self.missing else self._known(view)}{self.final(view)}"
        first = self.facts[self._asked]
        now = self._next(plainly=view.thinks_plainly)
        if view.turn == 0 and len(self.facts) > 1:
            needed = " ".join(self.steps)
            thought = view.thought(f"Needed: {needed}" if view.thinks_plainly else needed)
        else:
            thought = self._known(view, now) or view.thought(self.shared(first))
        self._before, self._asked = self._asked, self._asked + len(now)
        return thought + ("\n" if view.thinks_plainly else "").join(f"<task>{fact.task}</task>" for fact in now)

    def _next(self, *, plainly: bool) -> list[Fact]:
        """The facts to ask for now."""
        first = self.facts[self._asked]
        if first.about:
            return [fact for fact in self.facts[self._asked :] if fact.about]
        now = [first]
        for n in range(self._asked + 2, len(self.facts) + 1) if plainly else ():
            if self.facts[n - 1].about or self._needs(n) > self._asked:
                break
            now.append(self.facts[n - 1])
        return now

    def _needs(self, n: int) -> int:
        """The last step that the n-th one refers to; 0 for none."""
        steps = self.question.decomposition
        return max(map(int, _REFERENCE.findall(steps[n - 1].question)), default=0) if n <= len(steps) else 0

    def _known(self, view: View, now: list[Fact] | None = None) -> str:
        """What the last results say, and what is still needed."""
        if not view.thinks_plainly or not view.turn:
            return ""
        asked = self.facts[self._before : self._asked]
        found = "; ".join(f"{fact.task} {self._results.get(fact.task, NOT_FOUND)}" for fact in asked)
        needed = " ".join(fact.task for fact in now) if now else "nothing."
        if self.missing:
            needed = "what was not found."
        return view.thought(f"Known: {found}. Still needed: {needed}")

    def _execute(self, view: View) -> str:
        fact = self.fact_for(view.prompt.rpartition("Task: ")[2].partition("<|")[0].strip())
        if view.turn == 0:
            return f"<search>{query(fact, 0)}</search>"
        note = self.read(fact, view.last)
        tag = "refine" if "<refine>" in view.prompt else "think"
        line = "\n" if view.thinks_plainly else ""
        if note is not None:
            return f"<{tag}>{note}</{tag}>{line}<result>{self.result(fact)}</result>"
        if view.turn >= QUERIES:
            self.not_retrieved()
            return f"<{tag}>{NOTHING}</{tag}>{line}<result>{NOT_FOUND}</result>"
        return f"<{tag}>{NOTHING}</{tag}>{line}<search>{query(fact, view.turn)}</search>"


TEACHERS: Mapping[str, type[GoldTeacher]] = {"coda": CoDATeacher}
