"""The MCP server: search, ask and read as tools for other agents, stored runs as resources.

The tools are few and their descriptions complete, so that a model that does not know Subquest can use them.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceError, ToolError

from .._version import __version__
from ..codec import to_dict
from ..errors import SubquestError, UsageError
from ..events import Event
from ..retrieval import Index
from .agents import Agents
from .batching import BatchedIndex
from .chat import step
from .replies import Problem
from .run_library import RunLibrary

MAX_K = 50
INSTRUCTIONS = (
    "Subquest answers questions that take several searches, over indexes of documents. Use `ask` for a question that "
    "needs more than one step; it takes a while and returns an answer with quotations. Use `search` to look for "
    "passages yourself, and `read_document` to read one in full."
)


def make_server(agents: Agents, library: RunLibrary) -> MCPServer[Any]:
    """A server with the same agents, indexes and runs as the HTTP server."""
    server: MCPServer[Any] = MCPServer("subquest", version=__version__, instructions=INSTRUCTIONS)
    default = agents.indexes.names[0] if agents.indexes.names else "none"
    some = f"Indexes: {', '.join(agents.indexes.names) or 'none'}; {default} if none is named."

    @server.tool(description=f"Passages that match a query, best first. {some}")
    async def search(query: str, k: int = 5, index: str = "") -> dict[str, Any]:
        if not 1 <= k <= MAX_K:
            raise ToolError(f"k must be from 1 to {MAX_K}")
        found = _found(agents, index)
        try:
            (hits,) = await found.retrieve([query], k)
        except SubquestError as error:
            raise ToolError(str(error)) from None
        return {
            "hits": [
                {"id": h.document.id, "title": h.document.title, "text": h.document.text, "score": h.score}
                for h in hits
            ]
        }

    @server.tool(
        description="Answer a question by planning, searching and reading; may take minutes. Returns the answer with "
        "quotations from the documents; `supported` is false if no document supports it, with `parts_supported` if "
        "only what it was concluded from is supported. "
        f"Systems: {', '.join(agents.systems)}. {some}"
    )
    async def ask(question: str, ctx: Context[Any, Any], system: str = "", index: str = "") -> dict[str, Any]:
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        try:
            agent = agents.get(system, "", index)
            task = asyncio.create_task(agent.solve(question, listener=events.put_nowait))
        except Problem as problem:
            raise ToolError(str(problem)) from None
        task.add_done_callback(lambda _: events.put_nowait(None))
        count = 0
        try:
            while (event := await events.get()) is not None:
                if text := step(event).strip():
                    count += 1
                    await ctx.report_progress(count, message=text)
            episode = await task
        except SubquestError as error:
            raise ToolError(str(error)) from None
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        return {
            "answer": episode.answer,
            "supported": episode.supported,
            "parts_supported": episode.parts_supported,
            "evidence": [to_dict(e) for e in episode.evidence],
            "confidence": episode.confidence,
            "stop_reason": episode.stop_reason,
            "errors": [f"{f.where}: {f.message}" for f in episode.errors],
        }

    @server.tool(description=f"A document in full, by the id that search returned. {some}")
    async def read_document(id: str, index: str = "") -> dict[str, Any]:
        found = _found(agents, index)
        inner = found.index if isinstance(found, BatchedIndex) else found
        if not isinstance(inner, Index):
            raise ToolError("documents of a remote search server cannot be read; use the text that search returns")
        document = await asyncio.to_thread(inner.get, id)
        if document is None:
            raise ToolError(f"there is no document {id!r}")
        return {"id": document.id, "title": document.title, "text": document.text, "meta": dict(document.meta)}

    @server.resource("subquest://runs", mime_type="application/json", description="The stored runs")
    async def runs() -> str:
        return json.dumps(await asyncio.to_thread(library.runs))

    @server.resource("subquest://runs/{run}", mime_type="application/json", description="A run: table and curves")
    async def run(run: str) -> str:
        return json.dumps(await _call(library.run, run))

    @server.resource(
        "subquest://runs/{run}/{episode}", mime_type="application/json", description="An episode with all its steps"
    )
    async def episode(run: str, episode: str) -> str:
        return json.dumps(await _call(library.episode, run, episode))

    return server


async def _call(function: Any, *arguments: str) -> Any:
    try:
        return await asyncio.to_thread(function, *arguments)
    except (Problem, UsageError) as problem:
        raise ResourceError(str(problem)) from None


def _found(agents: Agents, index: str) -> Any:
    try:
        found = agents.indexes.get(index)
    except Problem as problem:
        raise ToolError(str(problem)) from None
    if found is None:
        raise ToolError("there is no index; start `subquest mcp --index PATH`")
    return found
