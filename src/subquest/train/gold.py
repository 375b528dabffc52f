"""Gold behaviour: what a good model would write for a question whose decomposition is known, system by system.

A teacher sees what the model would see and knows the plan besides.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable

from ..metrics import contains_answer, exact_match
from ..record import Episode, Question
from ..systems.plan import lines_of
from ..systems.rendering import one_line
from .conclusions import conclusion, in_both
from .facts import Fact, facts_of, in_order, needs_lists, plan_of, query, read, titles_in
from .teacher import GiveUp, Teacher, View

QUERIES = 2
"""Queries a teacher tries for one fact."""
NOTHING = "The documents do not say."
STEPS = 5
"""Sub-questions of an APEX plan at most."""
CLOSED = 3
"""Of so many APEX plans of several steps, one ends with the question itself, which the known answers then answer."""


def teacher_for(system: str, question: Question) -> Teacher | str:
    """The teacher of a system for a question; a reason where there is none."""
    kinds: dict[str, Callable[[Question, list[Fact]], Teacher]] = {
        "coda": CodaTeacher,
        "search-r1": AgentTeacher,
        "autorefine": AgentTeacher,
        "decor": DecorTeacher,
        "apex": ApexTeacher,
        "rag": RagTeacher,
    }
    if system not in kinds and system != "direct":
        return f"no teacher for {system}"
    if not question.answers:
        return "no gold answer"
    if system == "direct":
        return DirectTeacher(question.answers[0])
    facts = facts_of(question)
    if not facts or any(not f.answer for f in facts):
        return "no gold plan"
    if system == "apex" and needs_lists(question):
        return "the plan cannot be known beforehand"
    if system == "apex" and len(facts) > STEPS:
        return "plan too long"
    if system == "decor" and len(facts) > 4:
        return "plan too long"
    return kinds[system](question, facts)


class Unaided:
    """Stands by where a model plays every role: then no gold plan is needed, and only the answer is checked."""

    untaught: frozenset[str] = frozenset()

    def reply(self, view: View) -> str:
        raise GiveUp(f"nobody plays {view.role}")

    def objection(self, episode: Episode) -> str:
        return ""


class Reader:
    """What all teachers have: the plan, and what was found of it so far."""

    untaught: frozenset[str] = frozenset()

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        self.question, self.facts = question, facts
        self.answer = question.answers[0]
        plan = plan_of(question) or [fact.task for fact in facts]
        self.steps = [f"{n}. {task}" for n, task in enumerate(plan, 1)]
        self._results: dict[str, str] = {}

    def objection(self, episode: Episode) -> str:
        """Nothing: gold turns state what was read."""
        return ""

    def read(self, fact: Fact, text: str) -> str | None:
        """The note to take of the fact; None where the documents do not show it."""
        found = read(self.question, fact, text)
        if found is None:
            return None
        self._results[fact.task] = found.result
        if fact.items and len({f.about for f in self.facts if f.about} & set(fact.items)) > 1:
            # what is asked of each item is asked in the order in which the list was read
            self.facts.sort(key=lambda f: found.result.index(f.about) if f.about else -1)
        return found.note

    def result(self, fact: Fact) -> str:
        return self._results.get(fact.task, fact.answer)

    def conclusion(self) -> str:
        thought = conclusion(self.question, self.facts, [self.result(fact) for fact in self.facts])
        return f"<think>{thought}</think>" if thought else ""

    def shared(self, fact: Fact) -> str:
        """The thought before asking about the one thing that two lists share."""
        if not fact.about or sum(f.about != "" for f in self.facts) > 1:
            return ""
        first = self.facts[0]
        return f"<think>{in_both(in_order(first.items, self.result(first)), fact.about)}</think>"

    def fact_for(self, task: str) -> Fact:
        """The step a context was opened for."""
        return next((f for f in self.facts if f.task == task), self.facts[-1])


class CodaTeacher(Reader):
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
            raise GiveUp("the fact was not retrieved")
        return f"<{tag}>{NOTHING}</{tag}><search>{query(fact, view.turn)}</search>"


class AgentTeacher(Reader):
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
                    raise GiveUp("the fact was not retrieved")
                found = NOTHING
            else:
                self._at, self._tries = self._at + 1, 0
            note = f"<refine>{found}</refine>" if refines else f"<think>{found}</think>"
        if self._at == len(self.facts):
            return f"{note}{self.conclusion()}<answer>{self.answer}</answer>"
        fact = self.facts[self._at]
        return f"{note}{'' if self._tries else self.shared(fact)}<search>{query(fact, self._tries)}</search>"


class DecorTeacher(Reader):
    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._planned = 0

    def reply(self, view: View) -> str:
        if view.role == "planner":
            at, self._planned = self._planned, self._planned + 1
            if at == len(self.facts):
                return "<search>None</search>"
            return f"<search>{query(self.facts[at], 0)}</search>"
        if view.role == "filter":
            found = self.read(self.facts[self._planned - 1], view.prompt)
            if found is None:
                raise GiveUp("the fact was not retrieved")
            return f"<filter>{found}</filter>"
        return f"{self.conclusion()}<answer>{self.answer}</answer>"


class ApexTeacher(Reader):
    """Both decisions of the sufficiency check are taught: plans that end with the question itself, as planners often
    write them, have a last step that follows from the known answers. Such plans are nothing for a planner to learn."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self.closing = closing_step(question, facts)
        if self.closing:
            self.steps.append(f"{len(self.steps) + 1}. {self.closing}")
            self.untaught = frozenset({"planner"})

    def reply(self, view: View) -> str:
        if view.role == "planner":
            plan = "\n".join(self.steps)
            return f"<plan>\n{plan}\n</plan>"
        if view.role == "synthesizer":
            return f"{self.conclusion()}<answer>{self.answer}</answer>"
        return self._execute(view)

    def objection(self, episode: Episode) -> str:
        """Whether a sub-answer is wrong, where the plan is the gold one: a model may have played its executor."""
        plan = next((e.data["steps"] for e in episode.events if e.kind == "plan"), ())
        if list(plan) != lines_of("\n".join(self.steps)):
            return ""
        gold = [(fact.answer, self.result(fact)) for fact in self.facts] + [self.question.answers] * bool(self.closing)
        given = (t.result for t in episode.by_role("executor"))
        right = all(exact_match(answer, golds) for answer, golds in zip(given, gold, strict=True))
        return "" if right else "wrong sub-answer"

    def _known(self, view: View, task: str) -> str:
        """The answer to a task, where it follows from the known answers that stand in the prompt."""
        listed = view.prompt
        told = [fact for fact in self.facts if f"\n- {one_line(fact.task)} {one_line(self.result(fact))}\n" in listed]
        if task == self.closing and len(told) == len(self.facts):
            return f"{self.conclusion()}<answer>{self.answer}</answer>"
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
            return "retrieve"
        shown = "\n".join(s.text for s in view.segments if s.kind == "env")
        found = self.read(fact, shown)
        asked = view.last
        tried = sum(1 for s in view.segments if s.kind == "agent" and "<search>" in s.text)
        if "more documents" in asked:
            if found is None and tried >= QUERIES:
                raise GiveUp("the fact was not retrieved")
            return "yes" if found is None else "no"
        if "search query" in asked:
            return f"<search>{query(fact, tried)}</search>"
        if found is None:
            raise GiveUp("the fact was not retrieved")
        return f"<answer>{self.result(fact)}</answer>"


def closing_step(question: Question, facts: list[Fact]) -> str:
    """The question as the last step of its own plan, for one plan in `CLOSED`; empty for the others, and where it
    could not be read back as one step."""
    if zlib.crc32(question.id.encode()) % CLOSED or not 1 < len(facts) < STEPS:
        return ""
    text = one_line(question.question)
    return text if lines_of(f"1. {text}") == [text] and not re.search(r"#\d", text) else ""


class DirectTeacher(Unaided):
    """Knows the answer and nothing of how to find it: fine-tuning without search (the SFT row of CoDA's table 1)."""

    def __init__(self, answer: str) -> None:
        self._answer = answer

    def reply(self, view: View) -> str:
        return f"<answer>{self._answer}</answer>"


class RagTeacher(Reader):
    def reply(self, view: View) -> str:
        stated = contains_answer(view.prompt.partition("Question:")[0], self.question.answers)
        if not stated and not {f.support for f in self.facts} <= titles_in(view.prompt):
            raise GiveUp("the fact was not retrieved")
        return f"{self.conclusion()}<answer>{self.answer}</answer>"
