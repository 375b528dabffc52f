"""O2-Searcher: one search asks several things at once, and what is learned from them comes back together.

agent  {question, its turns, what was learned}  →  <search><query>...</query><query>...</query></search>, <answer>

Its published environment has a second model condense what was found into learnings; here documents stand in their
place, as for the other agents.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...engine import Engine
from ...engine.actions import Action as Tool
from ...protocol import tags_of
from ...record import Document
from ...runtime.window import Groups, Shown
from .dialect import Action, Dialect
from .search_agent import SearchAgent

_QUERY = re.compile(r"<query>(.*?)(?:</query>|(?=<query>)|$)", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class O2Dialect(Dialect):
    """Each query has a tag of its own inside the search; one that has none is a query by itself."""

    @property
    def tags(self) -> tuple[str, ...]:
        return (*tags_of(self.observation), "query")

    def action(self, text: str) -> Action | None:
        found = Dialect(self.name, stop=self.stop).action(text)
        if found is None or not found.queries:
            return found
        inside = (" ".join(query.split()) for query in _QUERY.findall(found.queries[0]))
        return Action(tuple(query for query in inside if query) or found.queries)

    def actions(self) -> tuple[Tool, ...]:
        return Dialect(self.name, stop=self.stop).actions()

    def observe(self, found: Sequence[Sequence[Document]], tokens: int, engine: Engine) -> Shown[str]:
        def render(groups: Groups, nothing: str) -> str:
            return self.frame("".join(self._listed(documents, tokens, engine) for documents in groups) or nothing)

        return Shown([list(documents) for documents in found], render, tokens)


O2_SEARCHER = O2Dialect(
    "o2-searcher", observation="Search learnings: <learnings>$documents</learnings>.", mode="chat", turns=5
)


class O2Searcher(SearchAgent):
    name = "o2-searcher"
    description = "One agent that sends several queries at a time."
    needs_training = True
    own_dialect = O2_SEARCHER
