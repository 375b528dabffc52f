"""How a teacher plays DECOR: queries from the gold plan, evidence from what was retrieved."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...record import Episode, Question
from ...runtime.rendering import one_line
from ...runtime.statements import declines
from ...train.facts import Fact, query, read, states, titles_in
from ...train.gold import WRONG, GiveUp, GoldTeacher, View

FULL = "memory was full: nobody learns to compress it"
CUT = "memory was too small for the evidence"
_ENTRY = re.compile(r"^\d+\. (.*)$", re.MULTILINE)


class DECORTeacher(GoldTeacher):
    """With the full prompts the first query is the question, and filters keep all that its documents state of the plan;
    with the compact ones each query asks for one fact, and nobody thinks."""

    longest = 4

    def __init__(self, question: Question, facts: list[Fact]) -> None:
        super().__init__(question, facts)
        self._planned = 0
        self._asked: dict[str, list[Fact]] = {}
        """By query, the facts that a filter is to find in its documents."""
        self._played = True
        """Whether a model played the filter."""

    def reply(self, view: View) -> str:
        if view.role == "filter":
            self._played = False
            return self._filter(view) if view.examples else self._filter_plainly(view)
        if view.role == "compressor":
            raise GiveUp(FULL)
        self._hear(view)
        if view.role == "planner":
            return self._plan(view) if view.examples else self._plan_plainly()
        if self.looked_for() and not self.missing:
            self.not_retrieved()
        return self.final(view)

    def _hear(self, view: View) -> None:
        """Take in the evidence in memory: a model may have played the filter that wrote it."""
        notes = _ENTRY.findall(view.prompt.rpartition("Memory:")[2])
        told = "\n".join(next((n[len(q) + 2 :] for q in self._asked if n.startswith(f"{q}: ")), n) for n in notes)
        while fact := next((fact for fact in self.looked_for() if self._in(told, fact)), None):
            self._results[fact.task] = fact.answer

    def _in(self, evidence: str, fact: Fact) -> bool:
        return bool(fact.answer) and (self.holds(evidence, fact) or states(evidence, fact.answer))

    def objection(self, episode: Episode) -> str:
        """Whether a filter left out or misread what its documents state, or memory lost it. A model that played the
        filter must also write nothing where an unanswerable question asks for what they do not state."""
        for reader in episode.by_role("filter"):
            silent = not reader.result or declines(reader.result) or not self._played
            for fact in self._asked.get(one_line(reader.task), ()):
                stated = read(self.question, fact, reader.text) is not None
                right = self._in(reader.result, fact) if stated else silent or not self.question.unanswerable
                if not right:
                    return WRONG
        kept = [event.data for event in episode.events if event.kind == "memory"]
        if any(memory["action"] in ("cut", "drop") for memory in kept):
            return CUT
        return WRONG if any(memory["action"] == "compress" and self._lost(memory) for memory in kept) else ""

    def _lost(self, memory: Mapping[str, Any]) -> bool:
        """Whether a model left out of memory what it was to compress."""
        before, after = "\n".join(memory["replaced"]), "\n".join(entry["evidence"] for entry in memory["entries"])
        return any(self._in(before, fact) and not self._in(after, fact) for fact in self.facts)

    def _plan(self, view: View) -> str:
        at, self._planned = self._planned, self._planned + 1
        if at == 0:
            begin = "Known: nothing yet, and no query was sent, so my first query is the whole question."
            self._asked[one_line(self.question.question)] = self.looked_for()
            return f"{view.thought(begin)}<search>{self.first_query()}</search>"
        known = f"Known: {self.known() or 'nothing yet.'}"
        if not self.looked_for():
            return f"{view.thought(f'{known} Missing: nothing.')}<search>None</search>"
        fact, text = self.next_query()
        self._asked[one_line(text)] = [fact]
        missing = f"Missing: {fact.task}" if text else f"The searches did not bring it: {fact.task}"
        return f"{view.thought(f'{known} {missing}')}<search>{text or 'None'}</search>"

    def _filter(self, view: View) -> str:
        shown = view.last
        found = self.read_all(shown)
        kept = {note.number for note in found}
        seen = [
            f"Doc {n} is about {title}: {'kept' if n in kept else 'left out'}."
            for n, title in enumerate(titles_in(shown), 1)
        ]
        paragraph = " ".join(dict.fromkeys(note.note for note in found)) or "None"
        return f"{view.thought(' '.join(seen) or 'There are no documents.')}<filter>{paragraph}</filter>"

    def _plan_plainly(self) -> str:
        at, self._planned = self._planned, self._planned + 1
        if any(fact.task not in self._results for fact in self.facts[:at]) and not self.missing:
            if not self.question.unanswerable:
                raise GiveUp(WRONG)
            self.missing = True
        if at == len(self.facts) or self.missing:
            return "<search>None</search>"
        fact = self.facts[at]
        self._asked[one_line(query(fact, 0))] = [fact]
        return f"<search>{query(fact, 0)}</search>"

    def _filter_plainly(self, view: View) -> str:
        found = self.read(self.facts[self._planned - 1], view.prompt)
        if found is None:
            self.not_retrieved()
        return f"<filter>{found}</filter>"


TEACHERS: Mapping[str, type[GoldTeacher]] = {"decor": DECORTeacher}
