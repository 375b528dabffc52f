"""The four experts of the paper, over three capabilities: acquiring information (simple and deep), computing, seeing.

search      plans queries, retrieves them all at once, answers with citations                     cheapest
code        reasons with Python in the sandbox: computes, reads files and tables, fetches data
multimodal  reasons with a tool that reads images, sound and video
deep        WebThinker (`deep`): searches inside its reasoning; an explorer of its own reads results,
            opens pages, follows links and reports what helps                                     dearest
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ...errors import EngineError, SearchError, UsageError
from ...limits import Limits
from ...protocol.loose_json import find_object
from ...runtime.answering import force_answer, note_stop
from ...runtime.context import Context, LimitReached
from ...runtime.given_tools import listed
from ...runtime.rendering import interleave, render_results, show_results, today
from ...runtime.replies import box_in, said
from ...runtime.system import System
from ...runtime.tool_loop import Tool
from ...runtime.window import Shown, Text, text_of
from ...tools.function_tool import FunctionTool
from .. import registry
from .deep_search import DeepSearch
from .expert import Desk, Expert, Report, SystemExpert, work_out

QUERIES = 5
"""Queries of one plan that are sent."""


class SimpleSearch(Expert):
    name = "search"
    description = (
        "Looks up facts: sends a few search queries at once and answers from the results. Fast and cheap; for single "
        "facts and checks that the first results will answer. Cannot open pages or follow links."
    )
    cost = 1
    roles = ("search",)

    async def run(self, desk: Desk) -> Report:
        run = desk.run
        messages = desk.prompts.messages("search", task=desk.task, memory=desk.memory, date=today())
        limits = Limits(turns=2)
        context = await run.open("search", desk.task, messages, parent=desk.planner, limits=limits, number=desk.number)
        if desk.planner is not None:
            run.events.emit("task", desk.planner.id, task=desk.task, child=context.id)
        chain: list[Text] = []  # what it wrote and read; what it was asked is no part of its reasoning
        try:
            plan = await context.write()
            chain.append(plan.text)
            found = await self._retrieve(desk, context, self._plan(context, said(plan), desk))
            chain.append(found)
            context.tell(_request(desk, found))
            turn = await context.write()
            chain.append(turn.text)
            answer, stop_reason = box_in(turn) or turn.parsed.outside, "answered"
        except (EngineError, LimitReached) as error:
            answer, stop_reason = await self._stopped(desk, context, error), "forced"
            chain.append(answer)
        await context.close(stop_reason if answer else "failed", answer)
        text = "\n".join(filter(None, map(text_of, chain)))
        return Report(text, answer, context.documents, context.id, failed=not answer)

    async def _stopped(self, desk: Desk, context: Context, stopped: EngineError | LimitReached) -> str:
        """One forced answer if the window is full; if a budget is spent, the rest belongs to the planner."""
        if isinstance(stopped, LimitReached) and not context.budget.exhausted():
            return await force_answer(context, desk.prompts.text("deep_force"))
        note_stop(desk.run, stopped, context)
        return ""

    def _plan(self, context: Context, text: str, desk: Desk) -> list[str]:
        plan = find_object(text).get("query_plan")
        if not isinstance(plan, list):
            context.malformed("no query plan", "no query plan; the task itself is searched for", turn=context.last_turn)
            return [desk.task]
        asked = [item.get("query") if isinstance(item, dict) else item for item in plan]
        queries = list(dict.fromkeys(q for item in asked if item is not None and (q := str(item).strip())))
        if left_out := "; ".join(queries[QUERIES:]):
            desk.run.events.emit("limit", context.id, what=f"{QUERIES} queries in a plan", message=left_out)
        return queries[:QUERIES]

    async def _retrieve(self, desk: Desk, context: Context, queries: list[str]) -> Text:
        """What the searches found."""
        if not queries:
            return "none were needed"
        try:
            hits = interleave(await desk.kit.search(context, queries, desk.k))
        except SearchError as error:
            return f"The search failed: {error}"
        return show_results(hits, desk.tokens, context.engine, str) if hits else render_results(hits)


def _request(desk: Desk, found: Text) -> Text:
    """The request to answer from what was found. If the window is full, both lose the same documents."""

    def worded(documents: str) -> str:
        return desk.prompts.text("search_answer", documents=documents)

    if isinstance(found, str):
        return worded(found)
    return Shown(found.groups, lambda groups, nothing: worded(found.render(groups, nothing)), found.tokens)


class Code(Expert):
    name = "code"
    description = (
        "Computes with Python: arithmetic, dates, statistics, tables; reads attached files (CSV, XLSX, JSON, text), "
        "queries the tables of the index, and fetches data from given URLs by code. For calculations, tables and "
        "files. Does not search the web."
    )
    cost = 2
    roles = ("code",)

    async def run(self, desk: Desk) -> Report:
        async def execute(context: Context, source: str) -> str:
            return (await desk.kit.code(context, source)).text

        python = Tool("code_call", "code_call_result", execute, ("code_result",))
        read = Tool("read_file", "file_result", desk.kit.read)
        return await work_out(desk, "code", python, read, queries=True)


class Toolbox(Expert):
    """Calls the tools that the user brings; there where they are given."""

    name = "toolbox"
    cost = 2
    roles = ("toolbox",)

    def __init__(self, tools: Sequence[FunctionTool]) -> None:
        named = listed(tools, signatures=False).replace("\n", " ")
        self.description = f"Calls tools, for what these give: {named}"  # type: ignore[misc]

    async def run(self, desk: Desk) -> Report:
        return await work_out(desk, "toolbox")


_DATA = re.compile(r"data\s*:[^\S\n]*(?=[^\n])", re.IGNORECASE)
_QUESTION = re.compile(r"\bquestion\s*:", re.IGNORECASE)


class Multimodal(Expert):
    name = "multimodal"
    description = (
        "Reads images, sound and video, attached or at a URL, and answers questions about them. For everything that is "
        "not text. Does not search the web."
    )
    cost = 3
    roles = ("multimodal",)

    async def run(self, desk: Desk) -> Report:
        async def look(context: Context, call: str) -> str:
            return await look_at(desk.kit.look, context, call)

        return await work_out(desk, "multimodal", Tool("multimodal_call", "multimodal_result", look))


async def look_at(look: Callable[[Context, str, str], Awaitable[str]], context: Context, call: str) -> str:
    """Carry out a call `data: … question: …`, or the same as JSON; the question may be missing."""
    given = find_object(call)
    if given.get("data"):
        call = f"data: {given['data']}\nquestion: {given.get('question') or 'What is this?'}"
    found = _DATA.search(call)
    if found is None:
        return "The call needs two lines: data: path or URL, and question: your question."
    rest = call[found.end() :]
    question = _QUESTION.search(rest, 1)
    data = rest[: question.start() if question else None].partition("\n")[0]
    asked = rest[question.end() :].strip() if question else "What is this?"
    return await look(context, data.strip().strip("[],"), asked)


EXPERTS: dict[str, type[Expert]] = {e.name: e for e in (SimpleSearch, DeepSearch, Code, Multimodal)}
ROLES = (*(role for expert in EXPERTS.values() for role in expert.roles), *Toolbox.roles)
TOOL_ROLES = ("code", "multimodal", "deep", "toolbox")
"""Roles whose reasoning can call tools that the user brings."""
STAND_INS = {"explorer": "deep", "intent": "coordinator", "reader": "coordinator", "toolbox": "code"}
"""Roles that run on another's model: the published code reads with the coordinator's."""


def find_experts(names: str, system: System[Any], plug_ins: Sequence[Expert] = ()) -> dict[str, Expert]:
    """Experts by name: ours, `path.py:Class`, or another system on the same models and index.

    A whole system samples, is limited and reads the set of prompts as the roles of this one that were given nothing of
    their own.
    """
    found: dict[str, Expert] = {}
    for name in (part.strip() for part in names.split(",")):
        if name in EXPERTS:
            found[name] = EXPERTS[name]()
        elif (
            ".py:" in name
            and isinstance(kind := registry.load_object(name, "expert"), type)
            and issubclass(kind, Expert)
        ):
            found[kind.name] = kind()
        elif name:
            engine = system.engines.get("", next(iter(system.engines.values())))
            search = system.search or getattr(system, "web", None)
            inner = registry.get(name)
            own = {"tools": system.tools, "tool_options": system.tool_options}
            given: dict[str, Any] = own if inner.tool_roles else {}
            expert = SystemExpert(inner(engine, search, **system.for_all_roles(), **given))
            found[expert.name] = expert
    if system.tools:
        found[Toolbox.name] = Toolbox(system.tools)
    found.update((expert.name, expert) for expert in plug_ins)
    if not found:
        raise UsageError(f"{system.name} needs at least one expert: experts=search,code,multimodal,deep")
    return found
