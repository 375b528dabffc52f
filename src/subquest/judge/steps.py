"""DECOR's steps as cases for the role judges.

Each step of each role is a context of its own, in the order they were opened: planner, filter, planner, filter, ...,
answerer. What memory held when a step began is in the events, under the planner whose search changed it last:
compressed, cut and dropped as the role saw it, not as filters once wrote it. Episodes that came without events are
judged by what their filters wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..protocol import parse
from ..record import Episode, Trajectory
from .cases import StepCase

JUDGED_ROLES = ("planner", "filter", "answerer")
TAG_OF_ROLE = {"planner": "search", "filter": "filter", "answerer": "answer"}
NOTHING = frozenset({"none", "stop", ""})
"""What a planner writes to stop, and a filter where nothing helps."""


def steps_of(episode: Episode) -> list[StepCase]:
    """One case for each context of a judged role that wrote something."""
    question = episode.question
    sub_answers = tuple(step.answer for step in question.decomposition if step.answer)
    cases: list[StepCase] = []
    queries: list[str] = []
    changes = memory_changes(episode)
    memory: list[tuple[str, str]] = []
    for t in episode.contexts:
        if t.role not in JUDGED_ROLES or not any(s.kind == "agent" for s in t.segments):
            continue
        content = content_of(t)
        cases.append(
            StepCase(
                role=t.role,
                trajectory=t.id,
                question=question.question,
                answers=question.answers,
                output="\n".join(t.written_turns),
                content=content,
                query=t.task if t.role == "filter" else "",
                queries=tuple(queries),
                memory=tuple(evidence for _, evidence in memory),
                memory_queries=tuple(query for query, _ in memory),
                documents=documents_of(t) if t.role == "filter" else "",
                sub_answers=sub_answers,
                format_errors=t.format_errors,
            )
        )
        if t.role == "planner":
            memory = changes.get(t.id, memory)  # from the next step on
            queries += [content] if content else []
        elif t.role == "filter" and content and not changes:
            memory.append((t.task, content))
    return cases


def memory_changes(episode: Episode) -> dict[str, list[tuple[str, str]]]:
    """By planner context, the queries and evidence in memory after what its search brought."""
    found: dict[str, list[tuple[str, str]]] = {}
    for event in episode.events:
        if event.kind == "memory":
            entries: list[Mapping[str, Any]] = event.data["entries"]
            found[event.trajectory] = [(str(e["query"]), str(e["evidence"])) for e in entries]
    return found


def content_of(trajectory: Trajectory) -> str:
    """What the role wrote by itself in its tag, last turn first; empty for None and STOP."""
    for turn in reversed(trajectory.written_turns):
        block = parse(turn).last(TAG_OF_ROLE[trajectory.role])
        if block is not None:
            return "" if block.content.strip(" .'\"").casefold() in NOTHING else block.content
    return ""


def documents_of(trajectory: Trajectory) -> str:
    """The documents in a filter's prompt."""
    prompt = "\n".join(s.text for s in trajectory.segments if s.kind != "agent")
    start, end = prompt.rfind("<documents>"), prompt.rfind("</documents>")
    return prompt[start + len("<documents>") : end] if 0 <= start < end else prompt
