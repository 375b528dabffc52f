"""Plans: ordered sub-questions in which `#n` stands for the answer of step n (APEX-Searcher).

References make a plan a graph without cycles. What a model writes is not always one: steps that refer forward are put
into order; a plan that refers in a circle, or to a step it does not have, falls back to the question as its only step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...protocol import parse
from ...record import Episode

_REFERENCE = re.compile(r"#(\d{1,4})")
_MARK = r"(?:step\s*)?[(#]?(\d{1,2})\s*[.):](?!\d)"
_FIRST = re.compile(rf"[\s*>]*{_MARK}", re.IGNORECASE)
_NEXT = re.compile(rf"(?:(?<=[?!;:])|(?<=\w{{4}}\.)|(?<=#\d\.))\s+{_MARK}\s", re.IGNORECASE)
"""A step number inside a line: after the end of a sentence, but not after an abbreviation, as in "Vol. 2."."""
_BULLET = re.compile(r"\s*[-*•–]")


@dataclass(frozen=True, slots=True)
class PlanStep:
    question: str
    """With references; `resolve` fills them in."""
    needs: tuple[int, ...] = ()
    """Positions, from 0, of the steps it refers to; all earlier than its own."""

    def resolve(self, answers: Mapping[int, str], steps: Sequence[PlanStep]) -> str:
        """The question with its references replaced by answers; a missing answer is described by its sub-question.

        Only what the step needs is a reference: the `#1` of a question that fell back to itself is its own text.
        """

        def answer(match: re.Match[str]) -> str:
            at = int(match[1]) - 1
            if at not in self.needs:
                return match[0]
            return answers.get(at) or f"the answer to “{steps[at].question}”"

        return _REFERENCE.sub(answer, self.question)


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[PlanStep, ...]
    repairs: tuple[str, ...] = ()
    """What had to be changed in the plan as written."""

    def ancestors(self, at: int) -> list[int]:
        """Positions of all steps that a step depends on, in order."""
        found: set[int] = set()
        waiting = [at]
        while waiting:
            needs = self.steps[waiting.pop()].needs
            waiting += [n for n in needs if n not in found]
            found.update(needs)
        return sorted(found)


def lines_of(text: str) -> list[str]:
    """The sub-questions of a plan in tags: its numbered lines, or its bullets, or else every line but headings."""
    return numbered_lines(text) or _cleaned(text.splitlines())


def numbered_lines(text: str) -> list[str]:
    """The numbered lines, whatever surrounds them; if there are none, those with a bullet.

    Bullets below a number are remarks: were they steps, `#n` would no longer mean the step with the number n.
    """
    lines = text.splitlines()
    numbered = [step for line in lines for step in _numbered(line)]
    return numbered or _cleaned([line[found.end() :] for line in lines if (found := _BULLET.match(line))])


def _numbered(line: str) -> list[str]:
    """The steps of a line: none without a number, several if it is numbered on ("1. Who? 2. Where?")."""
    first = _FIRST.match(line)
    number, begin = (int(first[1]), first.end()) if first else (0, -1)
    steps = []
    for mark in _NEXT.finditer(line, max(begin, 0)):
        if int(mark[1]) == number + 1:
            if begin >= 0:
                steps.append(line[begin : mark.start()])
            number, begin = number + 1, mark.end()
    if begin >= 0:
        steps.append(line[begin:])
    return _cleaned(steps) if first or len(steps) > 1 else []


def _cleaned(lines: Sequence[str]) -> list[str]:
    """Without emphasis, empty lines, rules and headings ("Here is the plan:")."""
    bare = (line.strip("* \t\r\n") for line in lines)
    return [line for line in bare if not line.endswith(":") and any(c.isalnum() for c in line)]


def written_plan(episode: Episode) -> list[str]:
    """The sub-questions as the planner wrote them, before any repair; empty if it wrote no `<plan>`."""
    for trajectory in episode.by_role("planner"):
        block = parse("\n".join(trajectory.written_turns)).last("plan")
        if block is not None:
            return lines_of(block.content)
    return []


def make_plan(lines: Sequence[str], question: str, limit: int) -> Plan:
    """A plan that can be carried out; never empty."""
    repairs: list[str] = []
    if len(lines) > limit:
        repairs.append(f"{len(lines)} steps were cut to {limit}")
        lines = lines[:limit]
    needs = [sorted({int(n) - 1 for n in _REFERENCE.findall(line)}) for line in lines]
    problem = ""
    if not lines:
        problem = "the plan is empty"
    elif missing := next((n for wanted in needs for n in wanted if not 0 <= n < len(lines)), None):
        problem = f"there is no step #{missing + 1}"
    order = _in_order(needs) if not problem else None
    if not problem and order is None:
        problem = "the steps refer to each other in a circle"
    if problem or order is None:
        return Plan((PlanStep(question),), (*repairs, f"{problem}; the question is its only step"))
    if order != list(range(len(lines))):
        repairs.append("a forward reference: the steps were put into order")
    place = {old: new for new, old in enumerate(order)}
    steps = tuple(
        PlanStep(
            _REFERENCE.sub(lambda match: f"#{place[int(match[1]) - 1] + 1}", lines[old]),
            tuple(sorted(place[n] for n in needs[old])),
        )
        for old in order
    )
    return Plan(steps, tuple(repairs))


def _in_order(needs: Sequence[Sequence[int]]) -> list[int] | None:
    """The steps in an order in which each follows those it needs; None if they refer to each other in a circle."""
    order: list[int] = []
    while len(order) < len(needs):
        ready = (at for at in range(len(needs)) if at not in order and all(n in order for n in needs[at]))
        if (first := next(ready, None)) is None:
            return None
        order.append(first)
    return order
