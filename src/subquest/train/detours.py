"""Detours: gold traces in which something goes wrong at first, so that the way back is learnt.

Where the first search nearly always finds its fact, a second one nearly always ends in *not found*: without detours 88%
of the executors in the traces of recipes/qwen-1.5b/ that searched twice found nothing. A model that learns from such
traces stops reading after its second search, whatever the documents say, and its planner gives up at the first failure.

So for a share of the steps the first search misses: the passages that state the fact are left out of what comes back,
and those ranked behind them take their places. And a share of the questions with several steps is first handed on
whole, in vain, and then taken apart. The mistake itself is not learnt.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..metrics import contains_answer
from ..record import Episode, Hit, Question, Trajectory
from ..retrieval.search import Search
from .facts import Fact

BEHIND = 10
"""Results more than wanted that are asked for, to take the places of those left out."""


class Detour(NamedTuple):
    """What goes wrong with a question."""

    missed: dict[str, Fact]
    """Facts that the first search for them misses, by that query."""
    whole: bool
    """Whether the question is handed on whole at first."""


def detour_of(question: Question, facts: Sequence[Fact], share: float, *, seed: int = 0) -> Detour | None:
    """The detour of a question, always the same; None if it has none. Each step takes one with probability `share`,
    and so does the plan of a question with several steps."""
    drawn = random.Random(f"{seed}/{question.dataset}/{question.id}/detour")
    whole = drawn.random() < share and len(facts) > 1 and not question.unanswerable
    missed: dict[str, Fact] = {}
    for fact in facts:
        if drawn.random() < share and fact.answer and fact.query is None:
            missed[fact.task] = fact
            if len(facts) == 1:
                missed[question.question] = fact
    return Detour(missed, whole) if missed or whole else None


class MissingSearch:
    """A search that misses the passages of some facts when it is asked for them in the words of their tasks."""

    def __init__(self, search: Search, question: Question, detour: Detour) -> None:
        self._search, self._missed = search, detour.missed
        self._supports = frozenset(question.supporting_titles)
        self.tables: Any = getattr(search, "tables", None)

    @property
    def name(self) -> str:
        return self._search.name

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        found = await self._search.retrieve(queries, k)
        for n, query in enumerate(queries):
            if (fact := self._missed.get(query)) is not None:
                more = (await self._search.retrieve([query], k + BEHIND))[0]
                found[n] = [hit for hit in more if not self._states(hit, fact)][:k]
        return found

    def _states(self, hit: Hit, fact: Fact) -> bool:
        supports = {fact.support} if fact.support else self._supports
        return hit.document.title in supports or contains_answer(hit.document.text, [fact.answer])


def without_mistakes(episode: Episode) -> Episode:
    """The episode of a question that was handed on whole: that turn is not learnt, nor what was sent out by it."""
    mistake = f"<task>{episode.question.question}</task>"
    kept = [t for t in episode.trajectories if t.parent is None or t.task != episode.question.question]
    return replace(episode, trajectories=tuple(_unlearnt(t, mistake) if t.parent is None else t for t in kept))


def _unlearnt(trajectory: Trajectory, mistake: str) -> Trajectory:
    """With the turns that hold the mistake as text that came from outside."""
    segments = (replace(s, kind="env") if s.kind == "agent" and mistake in s.text else s for s in trajectory.segments)
    return replace(trajectory, segments=tuple(segments))
