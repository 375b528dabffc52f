"""Gold behaviour: what a good model would write for a question whose decomposition is known, system by system.

A teacher sees what the model would see and knows the plan besides. It reads: a result is stated only when the passage
that supports it was really retrieved, and the text it distils is a sentence of that passage.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..metrics import contains_answer
from ..record import Question
from ..systems.evidence import sentences
from .teacher import GiveUp, Teacher, View

_DOCUMENT = re.compile(r"^(?:<\w+>)?Doc \d+\(Title: (.*?)\) (.*)$", re.MULTILINE)
_REFERENCE = re.compile(r"#(\d+)")
_WORD = re.compile(r"\w+")
_ENTITY = re.compile(r"[A-Z0-9][\w'’.-]*(?:[ –-](?:of|the|and|for|in|on|de|to|a)?\s?[A-Z0-9][\w'’.-]*)*")
_QUESTION_WORDS = frozenset(
    {"who", "whom", "whose", "what", "which", "when", "where", "how", "in", "on", "at", "of", "by", "to", "is", "was"}
    | {"did", "does", "the", "a", "an"}
)

_YEAR = re.compile(r"\b\d{4}\b")
_HOW_MANY = re.compile(r"how many\b", re.IGNORECASE)
_COUNT = re.compile(r"^\d[\d,]*")

CONCLUDED_FROM_SEVERAL = frozenset({"comparison", "bridge-comparison", "temporal", "superlative", "intersection"})
"""Question types whose answer is worked out from several results rather than being the last of them."""
QUERIES = 2
"""Queries a teacher tries for one fact."""


class Fact(NamedTuple):
    """One step of the plan with its references filled in."""

    task: str
    answer: str
    support: str


def facts_of(question: Question) -> list[Fact]:
    """The plan's steps, `#n` replaced by the answer of step n.

    A question without a plan is one step by itself: it can be learnt from where one search brings its answer. Not so
    where the answer is yes or no, which no passage states.
    """
    if not question.decomposition and question.answers and question.supporting_titles:
        answer = question.answers[0]
        return [] if answer.lower() in ("yes", "no") else [Fact(question.question, answer, "")]
    answers = [step.answer for step in question.decomposition]

    def fill(match: re.Match[str]) -> str:
        number = int(match[1])
        return answers[number - 1] if 0 < number <= len(answers) else match[0]

    return [Fact(_REFERENCE.sub(fill, s.question), s.answer, s.support) for s in question.decomposition]


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
    if system not in kinds:
        return f"no teacher for {system}"
    facts = facts_of(question)
    if not question.answers:
        return "no gold answer"
    if not facts or any(not f.answer for f in facts):
        return "no gold plan"
    if system == "apex" and len(facts) > 5:
        return "plan too long"
    if system == "decor" and len(facts) > 4:
        return "plan too long"
    return kinds[system](question, facts)


def _listed(sentence: str) -> int:
    """Items of the list in a sentence such as `She made "A" (1963), "B" (1970) and "C" (1984).`"""
    return sentence.count(",") + 2 if ", " in sentence and " and " in sentence else 1 + (" and " in sentence)


def _number(text: str) -> int | None:
    """The year of a date, or the number that a quantity begins with."""
    found = _YEAR.search(text) or _COUNT.search(text)
    return int(found[0].replace(",", "")) if found else None


class Reader:
    """What all teachers can do: find a fact in the documents that the model sees, and think of queries."""

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        self.question, self.facts = question, facts
        self.answer = question.answers[0]
        plan = [step.question for step in question.decomposition] or [fact.task for fact in facts]
        self.steps = [f"{n}. {task}" for n, task in enumerate(plan, 1)]

    def read(self, fact: Fact, text: str) -> str | None:
        """The sentence of the supporting passage that states the fact; None where the passage is not there.

        Where a data set does not say which passage supports which step, any of the question's supporting passages will
        do that states the answer word for word.
        """
        supports = {fact.support} if fact.support else set(self.question.supporting_titles)
        enough = 0.3 if fact.support else 2.0
        counted = int(fact.answer) if fact.support and _HOW_MANY.match(fact.task) and fact.answer.isdigit() else 0
        for title, body in _DOCUMENT.findall(text):
            if title.strip() not in supports:
                continue
            wanted = set(_WORD.findall(fact.task.lower()))
            best: tuple[float, str] = (0.0, "")
            for start, end in sentences(body):
                sentence = body[start:end]
                words = set(_WORD.findall(sentence.lower()))
                score = len(words & wanted) / max(len(wanted), 1) + 2 * contains_answer(sentence, fact.answer)
                score += 1.0 if counted > 1 and _listed(sentence) == counted else 0.0
                best = max(best, (score, sentence))
            if best[0] >= enough:
                return best[1].strip()
        return None

    def query(self, fact: Fact, attempt: int) -> str:
        """First the task as it stands, then its names and its telling words."""
        if attempt == 0:
            return fact.task.rstrip("?")
        names = " ".join(_ENTITY.findall(fact.task[1:]))
        words = [w for w in _WORD.findall(fact.task) if w.lower() not in _QUESTION_WORDS]
        return names if names and attempt == 1 else " ".join(words)

    def conclusion(self) -> str:
        """The thought before the final answer: the results it is worked out from."""
        if self.question.type.replace("_", "-") not in CONCLUDED_FROM_SEVERAL:
            return ""
        results = "; ".join(f"{fact.task.rstrip('?')}: {fact.answer}" for fact in self.facts)
        return f"<think>{results}{self._reckoning()}</think>"

    def _reckoning(self) -> str:
        """The step from numbers to the answer, written out: a small model that must jump it guesses."""
        numbers = [n for fact in self.facts if (n := _number(fact.answer)) is not None]
        if len(numbers) < 2:
            return ""
        small, *_, large = sorted(numbers)
        if self.answer.isdigit():
            gap, wanted = large - small, int(self.answer)
            if len(numbers) > 2 or gap not in (wanted, wanted + 1):
                return ""
            return f"; {large} - {small} = {gap}" + ("" if gap == wanted else f", less 1 before the day: {wanted}")
        return "; " + " < ".join(map(str, sorted(numbers))) if len(set(numbers)) == len(numbers) else ""

    def fact_for(self, task: str) -> Fact:
        """The step a context was opened for."""
        return next((f for f in self.facts if f.task == task), self.facts[-1])


class CodaTeacher(Reader):
    def reply(self, view: View) -> str:
        return self._plan(view.turn) if view.role == "planner" else self._execute(view)

    def _plan(self, turn: int) -> str:
        if turn == len(self.facts):
            return f"{self.conclusion()}<answer>{self.answer}</answer>"
        thought = ""
        if turn == 0 and len(self.facts) > 1:
            thought = f"<think>{' '.join(self.steps)}</think>"
        return f"{thought}<task>{self.facts[turn].task}</task>"

    def _execute(self, view: View) -> str:
        fact = self.fact_for(view.prompt.rpartition("Task: ")[2].partition("<|")[0].strip())
        if view.turn == 0:
            return f"<search>{self.query(fact, 0)}</search>"
        found = self.read(fact, view.last)
        if found is not None:
            return f"<refine>{found}</refine><result>{fact.answer}</result>"
        if view.turn >= QUERIES:
            raise GiveUp("the fact was not retrieved")
        return f"<refine>The documents do not say.</refine><search>{self.query(fact, view.turn)}</search>"


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
                found = "The documents do not say."
            else:
                self._at, self._tries = self._at + 1, 0
            note = f"<refine>{found}</refine>" if refines else f"<think>{found}</think>"
        if self._at == len(self.facts):
            return f"{note}{self.conclusion()}<answer>{self.answer}</answer>"
        return f"{note}<search>{self.query(self.facts[self._at], self._tries)}</search>"


class DecorTeacher(Reader):
    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._planned = 0

    def reply(self, view: View) -> str:
        if view.role == "planner":
            at, self._planned = self._planned, self._planned + 1
            if at == len(self.facts):
                return "<search>None</search>"
            return f"<search>{self.query(self.facts[at], 0)}</search>"
        if view.role == "filter":
            found = self.read(self.facts[self._planned - 1], view.prompt)
            if found is None:
                raise GiveUp("the fact was not retrieved")
            return f"<filter>{found}</filter>"
        return f"{self.conclusion()}<answer>{self.answer}</answer>"


class ApexTeacher(Reader):
    def reply(self, view: View) -> str:
        if view.role == "planner":
            plan = "\n".join(self.steps)
            return f"<plan>\n{plan}\n</plan>"
        if view.role == "synthesizer":
            return f"{self.conclusion()}<answer>{self.answer}</answer>"
        return self._execute(view)

    def _execute(self, view: View) -> str:
        task = view.prompt.rpartition("Sub-question: ")[2].partition("\n")[0].strip()
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
            return f"<search>{self.query(fact, tried)}</search>"
        if found is None:
            raise GiveUp("the fact was not retrieved")
        return f"<answer>{fact.answer}</answer>"


class RagTeacher(Reader):
    def reply(self, view: View) -> str:
        titles = {title.strip() for title, _ in _DOCUMENT.findall(view.prompt)}
        stated = contains_answer(view.prompt.partition("Question:")[0], self.question.answers)
        if not stated and not {f.support for f in self.facts} <= titles:
            raise GiveUp("the fact was not retrieved")
        return f"<answer>{self.answer}</answer>"
