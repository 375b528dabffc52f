"""Gold behaviour: what a good model would write for a question whose decomposition is known.

A teacher sees what the model would see, and knows the plan as well. How it plays a system is declared with the system.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple, Protocol

from ..data.gold_plans import REFERENCE
from ..errors import EngineRefused
from ..metrics import contains_answer
from ..record import Episode, Question, Segment
from ..runtime.dates import date_of, dates_in
from ..systems import registry
from .computing import CALCULATION
from .conclusions import conclusion, in_both, worked_out
from .facts import Fact, Found, facts_of, foreseeable, in_order, plan_of, query, read

_ROWS = re.compile(r"<documents>(.*?)</documents>", re.DOTALL)
QUERIES = 2
"""Queries a teacher tries for one fact."""
NOTHING = "The documents do not say."
NOT_RETRIEVED = "the fact was not retrieved"
NOT_FOUND = "not found"
"""The result of a task that the documents do not answer."""
NO_COMPUTING = "nothing here computes"
UNREAD = "a result has a number that stands in no document"
WRONG = "wrong sub-answer"
"""Of a model that played a role."""
STILL_ANSWERED = "the documents answer it although they should not"


class View(NamedTuple):
    """What a teacher sees: exactly what the model in its place would see."""

    role: str
    segments: tuple[Segment, ...]

    @property
    def turn(self) -> int:
        """Turns written so far in this context."""
        return sum(1 for s in self.segments if s.kind == "agent")

    @property
    def last(self) -> str:
        """The newest text that did not come from the model."""
        return next((s.text for s in reversed(self.segments) if s.kind != "agent"), "")

    @property
    def looked_first(self) -> bool:
        """Whether the context begins with the documents of a search that its role did not write."""
        last = next((s.text for s in reversed(self.segments) if s.kind == "prompt"), "")
        return "<documents>" in last

    @property
    def shown(self) -> str:
        """All that came back so far."""
        first = [s for s in self.segments if s.kind == "prompt"][-1:] if self.looked_first else []
        return "\n".join(s.text for s in (*first, *self.segments) if s in first or s.kind == "env")

    @property
    def newest(self) -> str:
        """The newest turn; empty before the first."""
        return next((s.text for s in reversed(self.segments) if s.kind == "agent"), "")

    @property
    def has_queried(self) -> bool:
        """Whether the newest turn is an SQL query."""
        return self.newest.endswith("</sql>")

    @property
    def rows(self) -> list[str]:
        """The rows that a query brought, as they stand there."""
        return _ROWS.findall(self.last)[-1].split("\n") if _ROWS.search(self.last) else []

    @property
    def prompt(self) -> str:
        return "\n".join(s.text for s in self.segments if s.kind == "prompt")

    @property
    def task(self) -> str:
        """The task that a context was opened for, from the last message that has one and no documents."""
        prompt = (s.text for s in self.segments if s.kind == "prompt")
        asked = [text for text in prompt if "Task: " in text and "<documents>" not in text]
        return asked[-1].rpartition("Task: ")[2].partition("<|")[0].partition("\n")[0].strip() if asked else ""

    @property
    def examples(self) -> list[str]:
        """The replies of the prompt's worked examples. The full prompts have them, the compact ones do not."""
        replies = [s.text for s in self.segments if s.kind == "prompt" and s.role == "assistant"]
        return replies[:-1] if self.looked_first else replies

    @property
    def thinks_plainly(self) -> bool:
        """Whether the worked examples of the prompt think without tags. Prompts without examples do not."""
        return bool(self.examples) and not any("<think>" in text for text in self.examples)

    @property
    def results_alone(self) -> bool:
        """Whether the worked examples write results with nothing before them but what stands before every turn."""
        before = [text.partition("<result>")[0] for text in self.examples if "<result>" in text]
        same = len(before) < len(self.examples) and len(set(before)) == 1
        return same and all(text.startswith(before[0]) for text in self.examples)

    def thought(self, text: str) -> str:
        """A thought as the prompt shows it; empty without one."""
        line = "\n" if self.examples else ""
        return text and (f"{text}{line}" if self.thinks_plainly else f"<think>{text}</think>{line}")


class Teacher(Protocol):
    """Knows how one question is answered."""

    @property
    def untaught(self) -> frozenset[str]:
        """Roles whose turns a trace needs but nobody should learn."""
        ...

    def reply(self, view: View) -> str:
        """What a good model would write next. Raises GiveUp if it cannot know."""
        ...

    def objection(self, episode: Episode) -> str:
        """What is wrong on the way to a right answer; empty if nothing is."""
        ...


class GiveUp(EngineRefused):
    """The teacher cannot go on: the fact was not found. The trace is left out, and the reason counted."""


def teacher_for(system: str, question: Question) -> Teacher | str:
    """The teacher of a system for a question; if there is none, the reason."""
    kinds: dict[str, type[GoldTeacher]] = registry.declared("teacher", "TEACHERS", system)
    if system not in kinds:
        return f"no teacher for {system}"
    if not question.answers:
        return "no gold answer"
    facts = facts_of(question)
    return kinds[system].refusal(question, facts) or kinds[system](question, facts)


class Unaided:
    """Stands by where a model plays every role: no gold plan is needed, and only the answer is checked."""

    untaught: frozenset[str] = frozenset()

    def reply(self, view: View) -> str:
        raise GiveUp(f"nobody plays {view.role}")

    def objection(self, episode: Episode) -> str:
        return ""


class GoldTeacher:
    """What the teachers of systems share: the gold plan, and what was found of it so far.

    A system's teacher is a subclass in `teacher.py` of the system's folder, listed in its table `TEACHERS`.
    """

    untaught: frozenset[str] = frozenset()
    longest: int | None = None
    """Steps of the longest plan that the system can carry out; None if there is no limit."""
    computes: bool = False
    """Whether the system has a tool that computes."""

    @classmethod
    def refusal(cls, question: Question, facts: list[Fact]) -> str:
        """Why this teacher cannot play a question; empty if it can."""
        known = facts[:-1] if question.unanswerable else facts
        if not facts or any(not fact.answer for fact in known):
            return "no gold plan"
        if question.decomposition and not foreseeable(question, facts):
            return "the plan has a name that nobody could know"
        if question.type == CALCULATION and not cls.computes:
            return NO_COMPUTING
        return "plan too long" if cls.longest is not None and len(facts) > cls.longest else ""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        self.question, self.facts = question, facts
        self.answer = question.answers[0]
        self.unplanned = (question.hops or 1) > 1 and not question.decomposition
        """Whether the question has several hops and no plan: no planner should learn to hand it on whole."""
        plan = plan_of(question) or [fact.task for fact in facts]
        self.steps = [f"{n}. {task}" for n, task in enumerate(plan, 1)]
        self._results: dict[str, str] = {}
        self._sent: dict[str, list[str]] = {}
        """By task, the queries sent for it."""
        self.missing = False
        """Whether a fact of an unanswerable question was looked for in vain."""
        self.hands_on_whole = False
        """Whether a planner first hands on the whole question, in vain; nobody learns that (`train/detours.py`)."""

    def reply(self, view: View) -> str:
        """What a good model would write next; each system's teacher says it."""
        raise NotImplementedError(f"{type(self).__name__} does not define reply()")

    def objection(self, episode: Episode) -> str:
        """Nothing: gold turns state what was read."""
        return ""

    def not_retrieved(self) -> None:
        """A fact was looked for in vain: of a question that can be answered nothing can be learnt then."""
        if not self.question.unanswerable:
            raise GiveUp(NOT_RETRIEVED)
        self.missing = True

    def final(self, view: View) -> str:
        """The turn that answers, with the thought before it."""
        thought = self.closing_thought() if view.examples else "" if self.missing else self.conclusion()
        return f"{view.thought(thought)}{self.given()}"

    def given(self) -> str:
        """The answer itself."""
        if self.question.unanswerable and not self.missing:
            raise GiveUp(STILL_ANSWERED)
        return f"<answer>{self.answer}</answer>"

    def closing_thought(self) -> str:
        """What decides the answer, as the worked examples say it: the results, and what follows from them."""
        return " ".join(filter(None, [self.known(), NOTHING if self.missing else self.worked_out()]))

    def known(self) -> str:
        """The results that the answer is drawn from: all where it is worked out from several, else the last one."""
        found = [f"{fact.task} {self.result(fact)}" for fact in self.facts if fact.task in self._results]
        told = "; ".join(found if self.conclusion() else found[-1:])
        return told and f"{told}."

    def worked_out(self) -> str:
        """What follows from several results; empty where the answer is simply the last of them."""
        told = worked_out(self.question, self.facts, [self.result(fact) for fact in self.facts])
        return told and f"{told[0].upper()}{told[1:]}."

    def looked_for(self, asked: Collection[str] = ()) -> list[Fact]:
        """The facts that are neither known nor among the tasks `asked`, but can be asked for: what they refer to is."""
        done = {*self._results, *asked}
        steps = self.question.decomposition or [None] * len(self.facts)
        open_lists = any(fact.items and not fact.about and fact.task not in done for fact in self.facts)
        found: dict[str, Fact] = {}
        for fact, step in zip(self.facts, steps, strict=True):
            needed = [self.facts[int(n) - 1].task for n in REFERENCE.findall(step.question)] if step else []
            if fact.task not in done and done.issuperset(needed) and not (fact.about and open_lists):
                found.setdefault(fact.task, fact)
        return list(found.values())

    def read_all(self, text: str) -> list[Found]:
        """Everything that documents say of the facts that are looked for; what one of them opens is read as well."""
        notes: list[Found] = []
        while found := next(filter(None, (self.found(fact, text) for fact in self.looked_for())), None):
            notes.append(found)
        return notes

    def first_query(self) -> str:
        """The question itself; where it is also the one fact to find, this is the first query for that."""
        asked = self.question.question
        self._sent[asked] = [asked]
        return asked

    def next_query(self) -> tuple[Fact, str]:
        """The fact to look for now and a new query for it. Where several were tried in vain, the fact is missing."""
        fact = self.looked_for()[0]
        sent = self._sent.setdefault(fact.task, [])
        text = next((q for q in (query(fact, n) for n in range(QUERIES + 1)) if q not in sent), "")
        if len(sent) >= QUERIES or not text:
            self.not_retrieved()
            return fact, ""
        sent.append(text)
        return fact, text

    def read(self, fact: Fact, text: str, *, cites: bool = False) -> str | None:
        """The note to take of the fact, with the number of the document if it `cites`; None if the documents do not
        show it."""
        found = self.found(fact, text)
        return found and (found.cited if cites else found.note)

    def found(self, fact: Fact, text: str) -> Found | None:
        """What the documents say of the fact; None if they do not show it."""
        found = read(self.question, fact, text) if fact.answer else None  # nothing states what has no answer
        if found is None:
            return None
        self._results[fact.task] = found.result
        if fact.items and len({f.about for f in self.facts if f.about} & set(fact.items)) > 1:
            # what is asked of each item is asked in the order in which the list was read
            self.facts.sort(key=lambda f: found.result.index(f.about) if f.about else -1)
        return found

    def holds(self, text: str, fact: Fact) -> bool:
        """Whether what a model may have written has the answer of a step, a date in any form, or all its items."""
        same = self.question.answers if fact.answer in self.question.answers else (fact.answer,)
        listed = bool(fact.items) and all(contains_answer(text, item) for item in fact.items)
        days = {day for day in map(date_of, same) if day}
        return listed or not days.isdisjoint(dates_in(text)) or contains_answer(text, same)

    def result(self, fact: Fact) -> str:
        return self._results.get(fact.task, fact.answer)

    def conclusion(self) -> str:
        """The thought before the answer; empty where the answer is simply the last result."""
        return conclusion(self.question, self.facts, [self.result(fact) for fact in self.facts])

    def shared(self, fact: Fact) -> str:
        """The thought before asking about the one thing that two lists share."""
        if not fact.about or sum(f.about != "" for f in self.facts) > 1:
            return ""
        first = self.facts[0]
        return in_both(in_order(first.items, self.result(first)), fact.about)

    def fact_for(self, task: str) -> Fact:
        """The step a context was opened for."""
        return next((f for f in self.facts if f.task == task), self.facts[-1])
