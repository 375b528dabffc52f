"""How a teacher plays CoDA: sub-tasks from the gold plan, results from what was retrieved."""

from __future__ import annotations

from collections.abc import Mapping

from ...record import Question
from ...runtime.statements import analysed
from ...train.facts import Fact, Found, query
from ...train.gold import NOT_FOUND, NOTHING, QUERIES, GoldTeacher, View

LOOK, AGAIN, IN_VAIN = "I look it up.", "I try other words.", "The searches brought nothing."
"""Thoughts of an executor before its first search, before another one, and before it gives up."""
WORDS = 25
"""Longest sentence of a document that is a result as it stands."""


class CoDATeacher(GoldTeacher):
    """With the compact prompts the planner asks for one fact after the other, and of each item of a list at once. Where
    the prompt thinks plainly (the full set) it sends all tasks together that do not depend on each other, and says
    after each turn what is known and what is needed."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        if self.unplanned:
            self.untaught = frozenset({"planner"})
        self._asked = 0
        self._tasks: set[str] = set()
        self._last: list[Fact] = []
        """Facts asked for in the last turn."""

    def reply(self, view: View) -> str:
        if view.role != "planner":
            return self._execute(view)
        return self._plan(view) if view.thinks_plainly else self._plan_compactly(view)

    def _plan(self, view: View) -> str:
        now = [] if self.missing else self.looked_for(self._tasks)
        if not now:
            return f"{view.thought(self._closing())}{self.given()}"
        if view.turn == 0:
            needed = " ".join(self.steps) if len(self.facts) > 1 else "one fact."
            thought = f"Needed: {needed}"
        else:
            needed = " ".join(fact.task for fact in now)
            shared = self.shared(now[0])
            thought = " ".join(filter(None, [f"Known: {self._told(self._last)}.", shared, f"Still needed: {needed}"]))
        self._last = now
        self._tasks |= {fact.task for fact in now}
        return view.thought(thought) + "\n".join(f"<task>{fact.task}</task>" for fact in now)

    def _told(self, facts: list[Fact]) -> str:
        return "; ".join(f"{fact.task} {self._results.get(fact.task, NOT_FOUND)}" for fact in facts)

    def _closing(self) -> str:
        """What is known before the answer; where it follows from several results, all of them."""
        if self.missing:
            return f"Known: {self._told(self._last)}. That cannot be found out."
        told = self._told(self.facts if self.conclusion() else self._last)
        return " ".join(filter(None, [f"Known: {told}. Still needed: nothing.", self.worked_out()]))

    def _plan_compactly(self, view: View) -> str:
        if self._asked == len(self.facts) or self.missing:
            return self.final(view)
        first = self.facts[self._asked]
        now = [fact for fact in self.facts[self._asked :] if fact.about] if first.about else [first]
        starts = view.turn == 0 and len(self.facts) > 1
        self._asked += len(now)
        return view.thought(" ".join(self.steps) if starts else self.shared(first)) + "".join(
            f"<task>{fact.task}</task>" for fact in now
        )

    def _execute(self, view: View) -> str:
        fact = self.fact_for(view.prompt.rpartition("Task: ")[2].partition("<|")[0].strip())
        if view.turn == 0:
            return f"{view.thought(LOOK) if view.thinks_plainly else ''}<search>{query(fact, 0)}</search>"
        plain = view.thinks_plainly
        found = self.found(fact, view.last)
        note = NOTHING if found is None else found.cited if plain else found.note
        refined = f"<refine>{note}</refine>" + "\n" * plain if "<refine>" in view.prompt else view.thought(note)
        if found is not None:  # the full prompt asks for a sentence, the compact one for the fact alone
            return f"{refined}<result>{self._sentence(fact, found) if plain else self.result(fact)}</result>"
        if view.turn >= QUERIES:
            self.not_retrieved()
            nothing = f"{NOT_FOUND.capitalize()}: no document answers the task." if plain else NOT_FOUND
            return f"{refined}{view.thought(IN_VAIN) if plain else ''}<result>{nothing}</result>"
        return f"{refined}{view.thought(AGAIN) if plain else ''}<search>{query(fact, view.turn)}</search>"

    def _sentence(self, fact: Fact, found: Found) -> str:
        """What the document says, if that is a short sentence with the result in it; else the task with its result."""
        result = self.result(fact)
        short = len(found.note.split()) <= WORDS and not any(s.is_row for s in analysed(found.said).sentences)
        return found.note if short and result in found.note else f"{fact.task} {result}"


TEACHERS: Mapping[str, type[GoldTeacher]] = {"coda": CoDATeacher}
