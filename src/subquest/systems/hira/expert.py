"""Experts: what the coordinator can hand a sub-task to.

An expert is a class with a name, a description, a cost and a `run` method; it gets a desk with everything it may use.
One of your own is a subclass in a file, given as `--set experts="search,code,mine.py:Mine"`; any other system is an
expert as it is, by its name: `--set experts="search,coda"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...errors import OutsideError
from ...limits import Limits
from ...record import Document, Question
from ...runtime.context import Context, LimitReached
from ...runtime.given_tools import RESULT, TAG, TOKENS
from ...runtime.prompts import Prompts
from ...runtime.rendering import today
from ...runtime.run import Run
from ...runtime.system import System
from ...runtime.table_queries import tables_of, with_tables
from ...runtime.tool_loop import Tool, reason
from ...runtime.tool_system import ToolSettings, ToolSystem
from ...runtime.toolkit import Toolkit
from ...runtime.window import Opening

READERS = ("intent", "reader")
"""Roles of one turn that read for another (`deep`)."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What an expert works with on one sub-task."""

    run: Run
    planner: Context | None
    """Who handed the task out; None if the expert works alone."""
    kit: Toolkit
    prompts: Prompts
    settings: ToolSettings
    task: str
    memory: str = "none"
    """The entries of memory that were chosen for this task, as text."""
    number: int = 1
    """The sub-task's position among its siblings."""

    @property
    def actions(self) -> int:
        """Tool calls the expert may make."""
        return self.settings.actions

    @property
    def k(self) -> int:
        """Results of a search."""
        return self.settings.k

    @property
    def tokens(self) -> int:
        """Length of a tool's result in the expert's context."""
        return self.settings.tool_tokens


@dataclass(frozen=True, slots=True)
class Report:
    """What an expert hands back: its whole reasoning, and its own conclusion."""

    chain: str
    conclusion: str
    documents: Sequence[Document] = field(default_factory=tuple)
    trajectory: str = ""
    failed: bool = False


class Expert:
    """Base of all experts."""

    name: ClassVar[str] = ""
    description: ClassVar[str] = ""
    """What it can do and what it is for, as the coordinator reads it."""
    cost: ClassVar[int] = 1
    """Its rank among the experts: the coordinator prefers the cheapest that can do the task."""
    roles: ClassVar[tuple[str, ...]] = ()

    async def run(self, desk: Desk) -> Report:
        raise NotImplementedError(f"{type(self).__name__} does not define run()")


async def carry_out(expert: Expert, desk: Desk) -> Report:
    """The report of an expert; if its model fails or a limit is reached, it says so, and the others continue."""
    try:
        return await expert.run(desk)
    except (OutsideError, LimitReached) as error:
        where = "limit" if isinstance(error, LimitReached) else expert.name
        desk.run.fail(where, error, desk.planner)
        return Report(f"The expert failed: {error}", "", failed=True)


async def work_out(desk: Desk, role: str, *tools: Tool, queries: bool = False) -> Report:
    """An expert's reasoning on the task of its desk, in the prompt of its role, with its tools.

    queries: it can query the tables of the index, if that holds any.
    """
    fields = {"task": desk.task, "memory": desk.memory, "actions": str(desk.actions), "files": desk.kit.inventory()}
    fields["date"] = today()
    messages = desk.prompts.messages(role, **fields)
    if queries and tables_of(desk.kit.index):
        messages = with_tables(messages, desk.prompts, role, desk.kit.index, desk.task)
        tools = (*tools, Tool("sql_query", "sql_result", desk.kit.sql))
    if given := desk.run.tools:
        messages = given.told(messages, desk.prompts, desk.run.setup(role).engine, TOKENS, desk.task)
        tools = (*tools, Tool(TAG, RESULT, given.text))
    end = await reason(
        desk.run,
        role,
        desk.task,
        messages,
        tools,
        parent=desk.planner,
        turns=desk.actions,
        remind=desk.prompts.text(f"{role}_remind"),
        force=desk.prompts.text("deep_force"),
        result_tokens=desk.tokens,
        number=desk.number,
    )
    root = end.context
    documents = documents_of(desk.run, root)
    return Report(chain_of(desk.run, root), end.text, documents, root.id, failed=not end.text)


def chain_of(run: Run, root: Context) -> str:
    """Everything that a context and those below it wrote and were told, without prompts, in the order of their ids.

    What readers write is part of what another context in the chain was told, and would appear twice.
    """
    below = [c for c in run.contexts if c is root or (c.id.startswith(f"{root.id}.") and c.role not in READERS)]
    parts = []
    for context in below:
        text = context.reasoning.strip()
        parts.append(text if context is root else f"({context.role} on {context.task!r}: {text})")
    return "\n\n".join(parts)


def documents_of(run: Run, root: Context) -> list[Document]:
    return [d for c in run.contexts if c is root or c.id.startswith(f"{root.id}.") for d in c.documents]


class SystemExpert(Expert):
    """Another system as an expert: it answers the sub-task as if it were a question."""

    def __init__(self, system: System[Any]) -> None:
        self._system = system
        self.name = system.name  # type: ignore[misc]
        about = (type(system).__doc__ or f"The system {system.name}").strip().splitlines()[0]
        self.description = f"{about} Answers a question by searching and reading."  # type: ignore[misc]
        self.cost = 3  # type: ignore[misc]

    async def run(self, desk: Desk) -> Report:
        """A system with tools uses those of the run; one that only searches does so under its egress scope."""
        system = self._system
        known = f"\nWhat is already known:\n{desk.memory}" if desk.memory != "none" else ""
        inner = _Below(desk, Question(desk.run.question.id, f"{desk.task}{known}"), system)
        try:
            answer = await (system.work(inner, desk.kit) if isinstance(system, ToolSystem) else system.answer(inner))
        finally:
            desk.run.usage += inner.usage
        roots = [c for c in inner.opened if c.parent is desk.planner]
        chain = "\n\n".join(chain_of(desk.run, root) for root in roots)
        documents = [d for root in roots for d in documents_of(desk.run, root)]
        place = roots[0].id if roots else ""
        return Report(chain, answer.text, documents, place, failed=not answer.text)


class _Below(Run):
    """A run inside a run: its contexts are children of the planner and spend its budget."""

    def __init__(self, desk: Desk, question: Question, system: System[Any]) -> None:
        outer = desk.run
        search = desk.kit.guarded(system.search) if system.search is not None else None
        tools = outer.tools.within(system.tools) if outer.tools and system.tools else None
        super().__init__(question, system.setup, search, outer.events, Limits(), seed=outer._seed, tools=tools)
        self.contexts, self.errors, self.documents = outer.contexts, outer.errors, outer.documents
        self._opened = outer._opened
        self.budget = desk.planner.budget if desk.planner is not None else outer.budget
        self.opened: list[Context] = []
        self._planner, self._number = desk.planner, desk.number

    async def open(
        self, role: str, task: str, opening: Opening, *, parent: Context | None = None, **options: Any
    ) -> Context:
        if parent is None:
            parent, options["number"] = self._planner, self._next_number()
        context = await super().open(role, task, opening, parent=parent, **options)
        self.opened.append(context)
        return context

    def _next_number(self) -> int:
        """Six numbers reserved for the sub-task, then as many as needed."""
        place = sum(1 for c in self.opened if c.parent is self._planner)
        return self._number + place if place < 6 else 1000 * self._number + place
