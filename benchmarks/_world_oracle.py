"""A generated world cut to documents of one length, and one oracle that answers its questions in any system's protocol.

The oracle knows the gold plan of every question, and nothing of the episode but the visible context: it reads from the
instructions which actions are offered, from the text which question is asked and which facts stand there, and takes the
next step. A fact is stated in a text if the article that states it is shown with the answer in it, or if someone has
noted it (`question answer`). Every system is driven by this same function, so that contexts differ by what the systems
show their roles and by nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from subquest.engine.scripted import Context
from subquest.record import Document, Question
from subquest.retrieval import Index
from subquest.train.facts import Fact, facts_of
from subquest.worlds import make_world

_OFFER = re.compile(
    r"<(task|search|plan|filter|answer|result|refine)>\s*"
    r"(?:1\. )?(?:sub-question|query|paragraph|answer|result|facts)\b"
)
_PASSAGE = re.compile(r"(?:Doc \d+\(Title: |\[\d+\] )")
"""What a document begins with in a prompt, by its title or as one of a list of results."""


def world(seed: int, articles: int, questions: int, hops: Sequence[int]) -> tuple[list[Document], list[Question]]:
    """Articles, and chain questions over them; each article is followed by text of a world that shares no entity."""
    types = ("single", "compositional")
    made = make_world(seed, articles, questions, hops=tuple(hops), types=types)
    other = make_world(seed, articles, 0, split="dev")
    filler = " ".join(document.text for document in other.documents).split()
    documents = []
    for number, document in enumerate(made.documents):
        start = 800 * number % max(1, len(filler) - 1000)
        words = [*document.text.split(), *filler[start : start + 1000]]
        documents.append(Document(document.id, document.title, " ".join(words)))
    return documents, list(made.questions)


def cut(documents: Sequence[Document], words: int) -> list[Document]:
    """Every document with exactly so many words."""
    return [Document(d.id, d.title, " ".join(d.text.split()[:words])) for d in documents]


def findable(question: Question, index: Index, k: int) -> bool:
    """Whether a search for each step brings the article that states its answer, with the answer in it."""
    facts = facts_of(question)
    found = index.search_many([fact.task for fact in facts], k)
    return all(
        any(hit.document.title == fact.support and fact.answer in hit.document.text for hit in hits)
        for fact, hits in zip(facts, found, strict=True)
    )


class Oracle:
    """The next step of whoever sees a context."""

    def __init__(self, questions: Sequence[Question]) -> None:
        self._plans = {q.question: facts_of(q) for q in questions}
        self._templates = {q.question: [step.question for step in q.decomposition] for q in questions}
        self._facts = {fact.task: fact for plan in self._plans.values() for fact in plan}

    def __call__(self, context: Context) -> str:
        rules, asked = context.messages[0].content, context.messages[1].content
        last = context.messages[-1]
        newest = last.content if last.role == "user" else ""
        offers = set(_OFFER.findall(newest)) or set(_OFFER.findall(rules))
        text = context.text
        plan = self._asked(asked)
        known = [fact for fact in plan if _is_stated(fact, text)]
        missing = next((fact for fact in plan if fact not in known), None)
        note = known[-1].note if known else ""
        if "plan" in offers:
            steps = next(t for question, t in self._templates.items() if question in asked)
            return "<plan>\n" + "\n".join(f"{n}. {step}" for n, step in enumerate(steps, 1)) + "\n</plan>"
        if "filter" in offers:
            return f"<filter>{note or 'None'}</filter>"
        if "one word: answer or retrieve" in newest:
            return "retrieve" if missing else "answer"
        if "one word: yes or no" in newest:
            return "yes" if missing else "no"
        if "\\boxed" in rules or "JSON" in rules or "choose from a memory" in rules:
            return _hira(rules, context.turn, known, missing)
        refined = f"<refine>{note}</refine>" if "refine" in offers and note else ""
        if missing is not None:
            if "task" in offers:
                return f"<task>{missing.task}</task>"
            return f"{refined}<search>{missing.task}</search>" if "search" in offers else "<answer>unknown</answer>"
        if "result" in offers:
            return f"{refined}<result>{note}</result>"
        return f"{refined}<answer>{plan[-1].answer}</answer>" if "answer" in offers else "<search>None</search>"

    def _asked(self, text: str) -> list[Fact]:
        """The plan of the question that a text asks, or the fact of the sub-question that it asks last."""
        for question, plan in self._plans.items():
            if f"Question: {question}" in text:
                return plan
        placed = [(at, len(q), q) for q in self._facts if (at := text.rfind(f": {q}")) >= 0]
        return [self._facts[max(placed)[2]]] if placed else []


def _is_stated(fact: Fact, text: str) -> bool:
    if fact.note in text:
        return True
    return any(
        p.startswith((f"{fact.support})", f"{fact.support} (")) and fact.answer in p for p in _PASSAGE.split(text)
    )


def _hira(rules: str, turn: int, known: Sequence[Fact], missing: Fact | None) -> str:
    """HiRA's seats: meta planner, coordinator and the search expert."""
    if "call_subtask" in rules:
        if missing is not None:
            return f"Next: <|begin_call_subtask|>{missing.task}<|end_call_subtask|>"
        return f"So the answer is \\boxed{{{known[-1].answer}}}"
    if "choose from a memory" in rules:
        return "none"
    note = known[-1].note if known else "It was not found."
    if "final_conclusion" in rules:
        summary = {"reasoning_process": "Searched and read.", "final_conclusion": note}
        return json.dumps(
            {"conclusion": summary, "memory": {"fact_memory": [], "resource_memory": {}}}, ensure_ascii=False
        )
    if "query_plan" in rules and turn == 0:
        return json.dumps({"query_plan": [missing.task] if missing else []}, ensure_ascii=False)
    return f"{note} \\boxed{{{known[-1].answer if known else 'unknown'}}}"
