"""How a teacher plays CoDA: sub-tasks from the gold plan, results from what was retrieved."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...readers.columns import same_value
from ...record import Question
from ...runtime.statements import analysed, declines
from ...train.computing import CALCULATION, Computation, computation, needs_computing
from ...train.facts import Fact, Found, query
from ...train.gold import NO_COMPUTING, NOT_FOUND, NOTHING, QUERIES, UNREAD, WRONG, GiveUp, GoldTeacher, View

LOOK, AGAIN, IN_VAIN = "I look it up.", "I try other words.", "The searches brought nothing."
"""Thoughts of an executor before its first search, before another one, and before it gives up."""
IN_OTHER_WORDS = "Known: nothing yet. I ask in other words."
ONE_BY_ONE = "Known: nothing yet. I ask for one fact after the other."
"""The planner's thoughts after a task that found nothing, and after a whole question that did."""
COMPUTE, ALL_ROWS = "Everything is given. I compute it.", "The task is about all rows."
"""Thoughts of an executor before a query without tables, and before one over a table."""
SOMETHING_ELSE = "a query gives something else"
_RESULT = re.compile(r"<result>(.*?)</result>", re.DOTALL)
WORDS = 25
"""Longest sentence of a document that is a result as it stands."""


class CoDATeacher(GoldTeacher):
    """With the compact prompts the planner asks for one fact after the other, and of each item of a list at once. Where
    the prompt thinks plainly (the full set) it sends all tasks together that do not depend on each other, and says
    after each turn what is known and what is needed. A question about one fact is then handed on as it is, and in the
    plan's words if that finds nothing: who learns to word it anew makes every question one of those it knows."""

    computes = True

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._computation: Computation | None = None
        """What the planner has asked an executor to compute."""
        if self.unplanned:
            self.untaught = frozenset({"planner"})
        self._asked = 0
        self._tasks: set[str] = set()
        self._last: list[Fact] = []
        """Facts asked for in the last turn."""
        single = len(facts) == 1 and not question.unanswerable and not needs_computing(question)
        self._as_asked = question.question if single and question.question != facts[0].task else ""
        """The question, where it is the task of its only fact; empty once that has found nothing."""

    def reply(self, view: View) -> str:
        if view.role != "planner":
            return self._execute(view)
        if not view.thinks_plainly:
            self._as_asked = ""
        self._hear(view)
        return self._plan(view) if view.thinks_plainly else self._plan_compactly(view)

    def _hear(self, view: View) -> None:
        """Take in the results that executors sent back. A model may have played them, and nothing is learnt from a
        result that does not hold the sub-answer."""
        asked = [Fact(self._computation.task, self.answer, "")] if self._computation else self._last
        for fact, result in zip(asked, _RESULT.findall(view.last) if view.turn else [], strict=False):
            if fact.task in self._results or self.missing:
                continue
            if self.holds(result, fact):
                self._results[fact.task] = fact.answer
            elif self._as_asked and _found_nothing(result):
                self._as_asked, self._tasks = "", set()
            elif self.question.unanswerable and _found_nothing(result):
                self.missing = True
            else:
                raise GiveUp(WRONG)

    def _plan(self, view: View) -> str:
        if self.hands_on_whole and view.turn == 0:
            return f"{view.thought('Needed: one fact.')}<task>{self.question.question}</task>"
        now = [] if self.missing else self.looked_for(self._tasks)
        if not now and self._computation is None and not self.missing:
            self._computation = computation(self.question, [self.result(fact) for fact in self.facts])
            if self._computation is not None:
                task, known = self._computation.task, self._told([self.facts[n - 1] for n in self._computation.steps])
                return f"{view.thought(f'Known: {known}. Still needed: {task}')}<task>{task}</task>"
        if not now:
            return f"{view.thought(self._closing())}{self.given()}"
        if self._as_asked:
            self._last, self._tasks = now, {fact.task for fact in now}
            return f"{view.thought('Needed: one fact.')}<task>{self._as_asked}</task>"
        if view.turn == int(self.hands_on_whole):
            needed = " ".join(self.steps) if len(self.facts) > 1 else "one fact."
            computed = needs_computing(self.question) and not self.question.unanswerable
            thought = f"Needed: {needed}{' Then I have the answer computed.' if computed else ''}"
            if self.hands_on_whole:
                thought = f"{ONE_BY_ONE} {thought}"
        elif not self._tasks:
            thought = IN_OTHER_WORDS
        else:
            needed = " ".join(fact.task for fact in now)
            shared = self.shared(now[0])
            thought = " ".join(filter(None, [f"Known: {self._told(self._last)}.", shared, f"Still needed: {needed}"]))
        self._last = now
        self._tasks |= {fact.task for fact in now}
        return view.thought(thought) + "\n".join(f"<task>{fact.task}</task>" for fact in now)

    def _told(self, facts: list[Fact]) -> str:
        return "; ".join(f"{self._as_asked or fact.task} {self._results.get(fact.task, NOT_FOUND)}" for fact in facts)

    def _closing(self) -> str:
        """What is known before the answer; where it follows from several results, all of them."""
        if self.missing:
            return f"Known: {self._told(self._last)}. That cannot be found out."
        if self._computation is not None:
            return f"Known: {self._computation.result.rstrip('.')}. Still needed: nothing."
        told = self._told(self.facts if self.conclusion() else self._last)
        return " ".join(filter(None, [f"Known: {told}. Still needed: nothing.", self.worked_out()]))

    def _plan_compactly(self, view: View) -> str:
        if self.question.type == CALCULATION:
            raise GiveUp(NO_COMPUTING)
        if self._asked == len(self.facts) or self.missing:
            return self.final(view)
        first = self.facts[self._asked]
        now = [fact for fact in self.facts[self._asked :] if fact.about] if first.about else [first]
        starts = view.turn == 0 and len(self.facts) > 1
        self._asked += len(now)
        self._last = now
        return view.thought(" ".join(self.steps) if starts else self.shared(first)) + "".join(
            f"<task>{fact.task}</task>" for fact in now
        )

    def _execute(self, view: View) -> str:
        if view.newest.endswith("</result>"):
            raise GiveUp(UNREAD)  # it was sent back
        task = view.task
        if self._computation is not None and task == self._computation.task:
            return self._compute(view, self._computation)
        whole = self.hands_on_whole and task == self.question.question
        fact = Fact(task, "", "") if whole else self.fact_for(task)
        searches = view.turn + view.looked_first
        asked = fact._replace(task=task)
        if not searches:
            return f"{view.thought(LOOK) if view.thinks_plainly else ''}<search>{query(asked, 0)}</search>"
        plain, alone = view.thinks_plainly, view.results_alone
        if fact.query is not None and (turn := self._query(view, fact, *fact.query)):
            return turn
        found = self.found(fact, view.last)
        note = NOTHING if found is None else found.cited if plain else found.note
        refined = self._refined(view, note)
        if found is not None:  # the full prompt with notes asks for a sentence, the others for the fact alone
            told = self._sentence(asked, found) if plain and not alone else self.result(fact)
            return f"{refined}<result>{told}</result>"
        if searches >= QUERIES:
            if task != self._as_asked and not whole:
                self.not_retrieved()
            nothing = f"{NOT_FOUND.capitalize()}: no document answers the task." if plain else NOT_FOUND
            return f"{refined}{view.thought(IN_VAIN) if plain and not alone else ''}<result>{nothing}</result>"
        return f"{refined}{view.thought(AGAIN) if plain else ''}<search>{query(asked, searches)}</search>"

    def _refined(self, view: View, note: str) -> str:
        """What is noted of the documents, as the prompt wants it; nothing where results stand alone."""
        if view.results_alone:
            return ""
        if "<refine>" in view.prompt:
            return f"<refine>{note}</refine>" + "\n" * view.thinks_plainly
        return view.thought(note)

    def _query(self, view: View, fact: Fact, file: str, sql: str) -> str:
        """A query over the table of a file, and then what it brought; empty if the table was not described."""
        table = re.search(rf"^(\w+): ([\d,]+) rows of {re.escape(file)}\b", view.shown, re.MULTILINE)
        if table is None:
            return ""
        if not view.has_queried:
            note = f"The documents show some of the {table[2]} rows of {table[1]}."
            return f"{self._refined(view, note)}{view.thought(ALL_ROWS)}<sql>{sql.replace('{table}', table[1])}</sql>"
        values = [_first_value(row) for row in view.rows]
        wanted = () if "count(*)" in sql and fact.items else fact.items
        if not _are(values, wanted or (fact.answer,)):
            raise GiveUp(SOMETHING_ELSE)
        self._results[fact.task] = ", ".join(values) if wanted else fact.answer
        note = f"The query gives {'; '.join(view.rows)}."
        told = self.result(fact) if view.results_alone else f"{fact.task} {self.result(fact)}"
        return f"{self._refined(view, note)}<result>{told}</result>"

    def _compute(self, view: View, asked: Computation) -> str:
        """A computation by a query without tables, and then what came of it."""
        if view.turn == 0:
            return f"{view.thought(COMPUTE)}<sql>{asked.sql}</sql>"
        values = [_first_value(row) for row in view.rows]
        if not _are(values, (self.answer,)):
            raise GiveUp(SOMETHING_ELSE)
        return f"{self._refined(view, f'The query gives {values[0]}.')}<result>{asked.result}</result>"

    def _sentence(self, fact: Fact, found: Found) -> str:
        """What the document says, if that is a short sentence with the result in it; else the task with its result."""
        result = self.result(fact)
        short = len(found.note.split()) <= WORDS and not any(s.is_row for s in analysed(found.said).sentences)
        return found.note if short and result in found.note else f"{fact.task} {result}"


def _found_nothing(result: str) -> bool:
    return declines(result) or result.lower().startswith(NOT_FOUND)


def _first_value(row: str) -> str:
    """The first value of a row that a query gave: 31 of `people: 31; site: Kelm`."""
    return row.split("; ")[0].rpartition(": ")[2]


def _are(values: Sequence[str], wanted: Sequence[str]) -> bool:
    return len(values) == len(wanted) and all(any(same_value(value, item) for item in wanted) for value in values)


TEACHERS: Mapping[str, type[GoldTeacher]] = {"coda": CoDATeacher}
