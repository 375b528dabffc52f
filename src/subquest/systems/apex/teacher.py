"""How a teacher plays APEX-Searcher: the gold plan, then each sub-question from what was retrieved or is known."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping

from ...metrics import exact_match
from ...record import Episode, Question
from ...runtime.rendering import one_line
from ...train.facts import Fact, needs_lists, query
from ...train.gold import NOT_FOUND, NOT_RETRIEVED, QUERIES, WRONG, GiveUp, GoldTeacher, View
from .plan import lines_of

STEPS = 5
"""Sub-questions of a plan at most."""
CLOSED = 3
"""One plan of several steps in this many ends with the question itself, which the known answers then answer."""


class APEXTeacher(GoldTeacher):
    """Teaches both decisions of the sufficiency check: plans that end with the question itself, as planners often write
    them, have a last step that follows from the known answers. Planners should not learn such plans."""

    longest = STEPS

    @classmethod
    def refusal(cls, question: Question, facts: list[Fact]) -> str:
        reason = super().refusal(question, facts)
        if reason != "no gold plan" and needs_lists(question):
            return "the plan cannot be known beforehand"
        return reason

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self.closing = closing_step(question, facts)
        if self.closing:
            self.steps.append(f"{len(self.steps) + 1}. {self.closing}")
        if self.closing or self.unplanned:
            self.untaught = frozenset({"planner"})

    def reply(self, view: View) -> str:
        if view.role == "planner":
            plan = "\n".join(self.steps)
            return f"<plan>\n{plan}\n</plan>"
        if view.role == "synthesizer":
            return self.final(view)
        return self._execute(view)

    def objection(self, episode: Episode) -> str:
        """Whether a sub-answer is wrong, where the plan is the gold one: a model may have played its executor."""
        plan = next((e.data["steps"] for e in episode.events if e.kind == "plan"), ())
        if self.missing or list(plan) != lines_of("\n".join(self.steps)):
            return ""
        gold = [(fact.answer, self.result(fact)) for fact in self.facts] + [self.question.answers] * bool(self.closing)
        given = (t.result for t in episode.by_role("executor"))
        right = all(exact_match(answer, golds) for answer, golds in zip(given, gold, strict=True))
        return "" if right else WRONG

    def _known(self, view: View, task: str) -> str:
        """The answer to a task, where it follows from the known answers that stand in the prompt."""
        listed = view.prompt
        told = [fact for fact in self.facts if f"\n- {one_line(fact.task)} {one_line(self.result(fact))}\n" in listed]
        if task == self.closing and len(told) == len(self.facts):
            thought = self.closing_thought() if view.examples else self.conclusion()
            return f"{view.thought(thought)}<answer>{self.answer}</answer>"
        return next((f"<answer>{self.result(fact)}</answer>" for fact in told if fact.task == task), "")

    def _execute(self, view: View) -> str:
        task = view.prompt.rpartition("Sub-question: ")[2].partition("\n")[0].strip()
        known = self._known(view, task)
        if known or task == self.closing:
            if not known:
                raise GiveUp("the known answers do not suffice")
            return known if view.turn else "answer"
        fact = self.fact_for(task)
        if view.turn == 0:
            if self.missing:  # this step may ask about what was not found
                raise GiveUp(NOT_RETRIEVED)
            return "retrieve"
        shown = "\n".join(s.text for s in view.segments if s.kind == "env")
        found = self.read(fact, shown, cites=view.thinks_plainly)
        asked = view.last
        tried = sum(1 for s in view.segments if s.kind == "agent" and "<search>" in s.text)
        if "one word: yes or no" in asked:
            if found is None and tried >= QUERIES:
                self.not_retrieved()
            return "yes" if found is None and not self.missing else "no"
        if "search query" in asked:
            return f"<search>{query(fact, tried)}</search>"
        if found is None:
            self.not_retrieved()
            return f"<answer>{NOT_FOUND}</answer>"
        return f"{view.thought(found) if view.thinks_plainly else ''}<answer>{self.result(fact)}</answer>"


def closing_step(question: Question, facts: list[Fact]) -> str:
    """The question as the last step of its own plan, for one plan in `CLOSED`; empty for the others, and where it
    could not be read back as one step."""
    if question.unanswerable or zlib.crc32(question.id.encode()) % CLOSED or not 1 < len(facts) < STEPS:
        return ""
    text = one_line(question.question)
    return text if lines_of(f"1. {text}") == [text] and not re.search(r"#\d", text) else ""


TEACHERS: Mapping[str, type[GoldTeacher]] = {"apex": APEXTeacher}
