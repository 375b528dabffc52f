"""ReAct: thoughts and actions in plain lines, observations in between.

agent  {question, thoughts, observations}  →  Thought: ... Action: Search[query] or Action: Finish[answer]
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ...engine.actions import Action as Tool
from ...protocol import fence
from ...runtime.actions import ANSWER, SEARCH
from .dialect import Action, Dialect
from .search_agent import SearchAgent

_ACTION = re.compile(
    r"^[^\S\n]*(?:Action(?:\s*\d+)?\s*:\s*)?(search|finish)\s*\[(.*?)\]\s*$", re.IGNORECASE | re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class ReActDialect(Dialect):
    """Actions in brackets. Documents are put on one line, so that none can begin a line of its own."""

    def actions(self) -> tuple[Tool, ...]:
        return (
            replace(SEARCH, opening="Action: search[", closing="]", one_line=True),
            replace(ANSWER, name="finish", opening="Action: finish[", closing="]", one_line=True),
        )

    def action(self, text: str) -> Action | None:
        match = _ACTION.search(text)
        if match is None or not match[2].strip():
            return None
        content = match[2].strip()
        return Action((content,)) if match[1].lower() == "search" else Action(answer=content)

    def frame(self, text: str) -> str:
        return self.observation.replace("$documents", " ".join(fence(text, self.tags).split()))


REACT = ReActDialect("react", observation="\nObservation: $documents\nThought:", stop=("\nObservation:",), k=3, turns=7)


class ReAct(SearchAgent):
    name = "react"
    description = "One agent that alternates thought, search and observation."
    own_dialect = REACT
