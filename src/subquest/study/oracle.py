"""An oracle that plays every role of HiRA and its baselines: the mechanism without a model's mistakes.

It knows the gold plan of each question and the protocol of each role. About the world it knows only what is in the
context: a fact is there if the article that states it is shown with the answer in it, or if a role has noted it
(`question answer`). It does not compute: years between two dates come from code. It does not see: a name in a picture
comes from the expert for media. A search shows the beginning of each article; only the deep searcher gets the rest, by
opening it. Its coordinator puts into memory what an expert came across that is needed later.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..engine.scripted import Context
from ..metrics import contains_answer
from ..record import Question
from ..systems.registry import get
from ..train.facts import Fact, facts_of
from .pictures import ASKED

COMPUTE = "Compute with Python: "
DEEPER = "Look deeper: "
PICTURE = ASKED.partition("{")[0]
UNKNOWN = "It was not found."
CUT = 800
"""Characters of an article that a result shows (`runtime.rendering.render_results`)."""
_NUMBERED = re.compile(r"\[(\d+)\] ")
_YEAR = re.compile(r"\b\d{4}\b")
_NAME = re.compile(r"[A-Z][\w’'-]+")
_FORCES = tuple(
    (get(system).prompt_folder() / "compact" / prompt).read_text(encoding="utf-8").strip()
    for system, prompt in (("hira", "planner_force.md"), ("hira", "deep_force.md"), ("react-tools", "force.md"))
)


class Known(NamedTuple):
    """A gold plan."""

    facts: list[Fact]
    answer: str
    sum: str
    """What has to be computed from the facts; empty where the answer is among them or follows without numbers."""


class HiraOracle:
    """Writes the next turn of the role that sees a context."""

    def __init__(self, questions: Iterable[Question]) -> None:
        self._plans = {q.question: _known(q) for q in questions}
        self._facts = {f.task: f for known in self._plans.values() for f in known.facts}
        self._related: dict[str, dict[str, Fact]] = {}
        """For each task, the facts of all plans that it is part of."""
        for known in self._plans.values():
            for fact in known.facts:
                self._related.setdefault(fact.task, {}).update((f.task, f) for f in known.facts)

    def __call__(self, context: Context) -> str:
        asked, text = context.messages[1].content, context.text
        if context.role == "planner":
            return self._plan(context, asked, text)
        if context.role == "coordinator":
            return self._coordinate(context.messages[0].content, asked)
        if context.role == "explorer":
            return self._explore(asked, text)
        if context.role == "intent":
            return f"The search is to answer: {_line(asked, 'Query: ')}"
        if context.role == "reader":
            return self._read(asked)
        if context.role in ("search", "code", "multimodal"):
            return self._work(context, asked, text)
        return self._search_on(asked, text)

    def _plan(self, context: Context, asked: str, text: str) -> str:
        """The meta planner: one fact after the other, a second and deeper try where the first found nothing."""
        plan = self._plans[_line(asked, "Question: ")]
        missing = next((f for f in plan.facts if f.note not in text), None)
        names = "expert and write the sub-task" in context.messages[0].content
        if not any(force in text for force in _FORCES):
            if missing is not None:
                first = "multimodal" if missing.task.startswith(PICTURE) else "search"
                for task, expert in ((missing.task, first), (DEEPER + missing.task, "deep")):
                    if f"{task}<|end_call_subtask|>" not in text:
                        return _called(f"{expert}: {task}" if names else task)
            elif plan.sum and f"{COMPUTE}{plan.sum}" not in text:
                return _called(f"code: {COMPUTE}{plan.sum}" if names else f"{COMPUTE}{plan.sum}")
        return f"So the answer is \\boxed{{{_answer(plan, missing, text)}}}"

    def _coordinate(self, rules: str, asked: str) -> str:
        task = _line(asked, "Task: ")
        if "selected_agent_name" in rules:
            kinds = {COMPUTE: "code", DEEPER: "deep", PICTURE: "multimodal"}
            wanted = next((expert for start, expert in kinds.items() if task.startswith(start)), "search")
            return json.dumps({"reason": "the cheapest that can do it", "selected_agent_name": wanted})
        if "choose from a memory" in rules:
            names = set(_NAME.findall(task))
            lines = [x for x in asked.splitlines() if x.startswith("Memory Fact") and names & set(_NAME.findall(x))]
            return "\n".join(sorted(lines, key=lambda line: task not in line)[:5]) or "none"
        before, _, chain = asked.partition("Expert's reasoning:")
        note = self._noted(task, chain)
        conclusion = {"reasoning_process": "Worked on the task.", "final_conclusion": note or UNKNOWN}
        met = self._related.get(task.removeprefix(DEEPER), {}).values()
        facts = [f"{f.note} [Source: {f.support}]" for f in met if f.note not in before and _stands(f, chain)]
        memory = {"fact_memory": facts, "resource_memory": {}}
        return json.dumps({"conclusion": conclusion, "memory": memory}, ensure_ascii=False)

    def _noted(self, task: str, chain: str) -> str:
        """What an expert's reasoning says about its task, as a note."""
        fact = self._facts.get(task.removeprefix(DEEPER))
        if fact is not None:
            return fact.note if fact.note in chain else ""
        boxes = re.findall(r"\\boxed\{(\d+)\}", chain)
        return f"{task} = {boxes[-1]}" if task.startswith(COMPUTE) and boxes else ""

    def _work(self, context: Context, asked: str, text: str) -> str:
        """The experts for search, code and media, on one task."""
        task = _line(asked, "Task: ")
        fact = self._facts.get(task.removeprefix(DEEPER))
        if context.role == "search" and context.turn == 0:
            return json.dumps({"query_plan": [fact.task] if fact and fact.note not in text else []})
        if context.role == "code" and task.startswith(COMPUTE):
            printed = re.search(r"<\|begin_code_call_result\|>\s*(\d+)\s*<\|end", text)
            if printed:
                return f"{task} = \\boxed{{{printed[1]}}}"
            return f"<|begin_code_call|>print({task.removeprefix(COMPUTE)})<|end_code_call|>"
        if context.role == "multimodal" and task.startswith(PICTURE):
            if f"shows the name {fact.answer if fact else ''}." in text:
                return f"{task} {fact.answer if fact else ''} \\boxed{{{fact.answer if fact else ''}}}"
            if "<|begin_multimodal_call|>" not in text.rpartition("Task: ")[2]:
                name = task.removeprefix(PICTURE).removesuffix("?")
                return f"<|begin_multimodal_call|>data: {name}\nquestion: {task}<|end_multimodal_call|>"
        if fact is not None and _stands(fact, text):
            return f"{fact.note} \\boxed{{{fact.answer}}}"
        return f"{UNKNOWN} \\boxed{{unknown}}"

    def _search_on(self, asked: str, text: str) -> str:
        """The deep searcher on a task or a whole question, and ReAct with all tools."""
        react = asked.startswith("Question: ")
        task = _line(asked, "Question: " if react else "Task: ").removeprefix(DEEPER)
        plan = self._plans.get(task)
        if plan is None:
            fact = self._facts.get(task)
            plan = Known([fact], fact.answer, "") if fact else Known([], "unknown", "")
        known = [f for f in plan.facts if _stands(f, text)]
        missing = next((f for f in plan.facts if f not in known), None)
        notes = " ".join(f.note for f in known if f.note not in text)
        if not any(force in text for force in _FORCES):
            if missing is not None and f"{missing.task}<|end_search_query|>" not in text:
                return f"{notes} <|begin_search_query|>{missing.task}<|end_search_query|>"
            if missing is not None and react and (link := _unread(missing, text)):
                return f"{notes} <|begin_click_link|>{link}<|end_click_link|>"
            if missing is None and react and plan.sum and f"print({plan.sum})" not in text:
                return f"{notes} <|begin_code_call|>print({plan.sum})<|end_code_call|>"
        return f"{notes} \\boxed{{{_answer(plan, missing, text)}}}"

    def _explore(self, asked: str, text: str) -> str:
        """The deep searcher's reader: opens the article where its beginning does not answer."""
        fact = self._facts.get(_line(asked, "Query: "))
        if fact is not None and _stands(fact, text):
            return f"Final Information: {fact.note}"
        link = _unread(fact, text) if fact is not None else ""
        return f"<|begin_click_link|>{link}<|end_click_link|>" if link else f"Final Information: {UNKNOWN}"

    def _read(self, asked: str) -> str:
        """The explorer's reader: notes the fact where the page is the article that states it."""
        fact = self._facts.get(_line(asked.partition("\nPage:\n")[0], "Query: "))
        found = fact is not None and asked.partition("\nPage:\n")[2].lstrip().startswith(fact.support)
        return fact.note if fact is not None and found else UNKNOWN


def _known(question: Question) -> Known:
    facts = facts_of(question)
    answer = question.answers[0]
    years = [int(found[0]) for fact in facts if (found := _YEAR.search(fact.answer))]
    if question.type != "temporal" or not answer.isdigit() or len(years) < 2:
        return Known(facts, answer, "")
    gap = max(years) - min(years)
    return Known(
        facts, answer, f"{max(years)} - {min(years)}" + (f" - {gap - int(answer)}" if gap > int(answer) else "")
    )


def _answer(plan: Known, missing: Fact | None, text: str) -> str:
    """The answer where all it rests on is known."""
    if missing is not None:
        return "unknown"
    if not plan.sum:
        return plan.answer
    computed = any(f"{plan.sum} = {said}" in text for said in (plan.answer, f"\\boxed{{{plan.answer}}}"))
    printed = re.search(rf"<\|begin_code_call_result\|>\s*{plan.answer}\s*<\|end", text)
    return plan.answer if computed or printed else "unknown"


def _stands(fact: Fact, text: str) -> bool:
    """Whether a fact was noted, or its article is shown: whole, or as far as the sentence that states it."""
    if fact.note in text or not fact.support:
        return fact.note in text
    results = (p.partition("\n")[2] for p in _NUMBERED.split(text)[2::2] if p.startswith(f"{fact.support} ("))
    if any(len(p.partition("\n")[0]) < CUT or contains_answer(p, fact.answer) for p in results):
        return True
    return any(p.lstrip().startswith(fact.support) for p in text.split("<|begin_click_result|>")[1:])


def _unread(fact: Fact, text: str) -> str:
    """The number of the fact's article among the newest results, unless an article was opened already."""
    parts = _NUMBERED.split(text)
    numbers: Sequence[str] = [
        n for n, p in zip(parts[1::2], parts[2::2], strict=True) if p.startswith(f"{fact.support} (")
    ]
    after = text.rpartition("<|end_search_query|>")[2]
    return numbers[-1] if numbers and "<|begin_click_link|>" not in after else ""


def _line(text: str, label: str) -> str:
    """The text after a label, to the end of its line; of several, the last."""
    return text.rpartition(label)[2].partition("\n")[0].strip()


def _called(task: str) -> str:
    return f"<|begin_call_subtask|>{task}<|end_call_subtask|>"
