"""The deep search expert: WebThinker (HiRA's paper adopts it as it is), in four roles.

    deep      {task, memory}                    reasons, and searches inside its reasoning
    intent    {task, newest reasoning, query}   says what a search is meant to find out
    explorer  {intent, query, results}          opens results, follows links, searches further, reports
    reader    {intent, query, one page}         picks from a page what serves the intent

Results and pages stay below: the deep searcher reads the explorer's report, the explorer the reader's.
"""

from __future__ import annotations

from ...engine import Message
from ...errors import EngineError, SearchError
from ...limits import Limits
from ...protocol import fence
from ...runtime.answering import note_stop
from ...runtime.context import Context, LimitReached
from ...runtime.rendering import cut_to_tokens, show_results, today
from ...runtime.replies import said
from ...runtime.tool_loop import Tool, reason
from .expert import READERS, Desk, Expert, Report, work_out

_REASONING = 1500
"""Characters of the deep searcher's latest reasoning from which its intent is stated."""


class DeepSearch(Expert):
    name = "deep"
    description = (
        "Explores the web: searches again and again, opens pages, follows links over several steps and digs out what "
        "no search result shows. Thorough and expensive; for what cannot be found by a simple search."
    )
    cost = 4
    roles = ("deep", "explorer", *READERS)

    async def run(self, desk: Desk) -> Report:
        async def search(context: Context, query: str) -> str:
            return await self._explore(desk, context, query)

        return await work_out(desk, "deep", Tool("search_query", "search_result", search, once=True))

    async def _explore(self, desk: Desk, deep: Context, query: str) -> str:
        """Search, and let the explorer read the results, click and search further; returns its report."""
        run, kit = desk.run, desk.kit
        try:
            hits = (await kit.search(deep, [query], desk.k))[0]
        except SearchError as error:
            return f"The search failed: {error}"
        if not hits:
            return "No results were found."
        intent = await self._intent(desk, deep, query)

        async def search(context: Context, again: str) -> str:
            return await kit.find(context, again, desk.k)

        async def click(context: Context, reference: str) -> str:
            return await self._read(desk, context, reference, query, intent)

        number = _next_number(deep)
        kit.announce(run.context_id(deep, number), hits)

        def opening(results: str) -> list[Message]:
            fields = {"reasoning": intent, "query": query, "results": results, "date": today()}
            return desk.prompts.messages("explorer", **fields)

        end = await reason(
            run,
            "explorer",
            query,
            show_results(hits, desk.tokens, deep.engine, opening),
            [
                Tool("search_query", "search_result", search, once=True),
                Tool("click_link", "click_result", click),
            ],
            parent=deep,
            turns=desk.actions,
            remind="",
            force=desk.prompts.text("explorer_force"),
            result_tokens=desk.tokens,
            ends="text",
            number=number,
        )
        run.events.emit("refine", end.context.id, text=end.text)
        return _information(end.text) or "No helpful information was found."

    async def _intent(self, desk: Desk, deep: Context, query: str) -> str:
        """What a search is for, in the model's words; the newest reasoning itself where it finds none.

        The explorer's prompt knows it as `$reasoning`, in whose place it stands.
        """
        reasoning = deep.reasoning[-_REASONING:]
        reply = await _one_turn(desk, "intent", deep, query, task=desk.task, reasoning=reasoning, query=query)
        return reply or reasoning

    async def _read(self, desk: Desk, explorer: Context, reference: str, query: str, intent: str) -> str:
        """What a page says about the intent, with its links; the page itself where the reader says nothing."""
        page = await desk.kit.page(explorer, reference)
        if page.failed:
            return page.whole
        text = cut_to_tokens(page.text, desk.tokens, explorer.engine)
        reply = await _one_turn(desk, "reader", explorer, reference, intent=intent, query=query, page=text)
        if not reply:
            return page.whole
        desk.run.events.emit("refine", explorer.id, text=reply)
        head = page.text.partition("\n")[0]
        return page._replace(text=f"{head}\n{reply}").whole


async def _one_turn(desk: Desk, role: str, parent: Context, about: str, /, **fields: str) -> str:
    """What a role says in a context of its own; empty if its model fails or a limit is reached."""
    try:
        context = await desk.run.open(
            role,
            about,
            desk.prompts.messages(role, **fields),
            parent=parent,
            limits=Limits(turns=1),
            number=_next_number(parent),
        )
        reply = said(await context.write()).strip()
    except (EngineError, LimitReached) as error:
        note_stop(desk.run, error, parent)
        return ""
    if not reply:
        desk.run.events.emit("error", context.id, where="format", message=f"the {role} wrote nothing")
    await context.close("answered" if reply else "no answer", reply)
    return reply


def _next_number(parent: Context) -> int:
    return 1 + sum(1 for c in parent.run.contexts if c.parent is parent)


def _information(text: str) -> str:
    """What an explorer reports: the part after "Final Information" if it marks one."""
    _, mark, rest = text.rpartition("Final Information")
    return fence((rest if mark else text).strip(" *:\n"))
