"""A part of an episode: an attempt at its question, or a section of a report.

It has its own contexts and documents; budget, events and failures are those of the episode.
"""

from __future__ import annotations

from typing import Any

from ..limits import Limits
from ..record import Question
from .context import Context
from .run import Run
from .window import Opening


class PartRun(Run):
    def __init__(self, whole: Run, question: Question | None = None) -> None:
        super().__init__(
            question or whole.question,
            whole.setup,
            whole._search,
            whole.events,
            Limits(),
            whole._seed,
            additions=whole._additions,
            tools=whole.tools,
            search_tokens=whole._search_tokens,
        )
        self.budget = whole.budget
        self.errors = whole.errors

    def join(self, whole: Run) -> None:
        """Add what happened here to the run of the whole episode."""
        whole.contexts += self.contexts
        for key, document in self.documents.items():
            whole.note(document, key)
        whole._found_by |= self._found_by
        whole.usage += self.usage


class SectionRun(PartRun):
    """Answers the question of one section, in contexts below that of the outline."""

    def __init__(self, whole: Run, question: Question, outline: Context, number: int) -> None:
        super().__init__(whole, question)
        self._outline = outline
        self._number = number
        """Of the section; sections run at the same time, so ids of contexts must not depend on which is first."""

    async def open(
        self, role: str, task: str, opening: Opening, *, parent: Context | None = None, **options: Any
    ) -> Context:
        return await super().open(role, task, opening, parent=parent or self._outline, **options)

    def context_id(self, parent: Context | None, number: int) -> str:
        if parent is self._outline:
            return f"{parent.id}.{self._number}.{number}"
        return super().context_id(parent, number)
