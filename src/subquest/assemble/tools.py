"""Tools of the user's, from how they are written: functions, `path.py:function`, `mcp:COMMAND` and `mcp:URL`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from ..address import is_loopback
from ..errors import UsageError
from ..tools.function_tool import FunctionTool, from_function
from ..tools.mcp_server import MOST_TOOLS, McpPlace, McpServer, is_mcp, read_place
from ..tools.tool_options import ToolOptions

Given = Sequence[FunctionTool | Callable[..., Any] | str]


@asynccontextmanager
async def open_tools(given: Given, options: ToolOptions) -> AsyncIterator[list[FunctionTool]]:
    """The tools, in the order in which they are given; servers are left, and programs ended, afterwards."""
    found: list[FunctionTool] = []
    async with AsyncExitStack() as stack:
        for tool in read_tools(given):
            if isinstance(tool, McpPlace):
                server = McpServer(tool, seconds=options.seconds_per_call)
                stack.push_async_callback(server.close)
                found += await server.tools()
            else:
                found.append(tool)
        if len(found) > 2 * MOST_TOOLS:
            raise UsageError(
                f"{len(found)} tools are more than a model can be given, {2 * MOST_TOOLS}: choose some, as in "
                "mcp[NAME,NAME]:…"
            )
        yield found


def read_tools(given: Given) -> list[FunctionTool | McpPlace]:
    """The tools as far as they are known without a connection; a UsageError names the one that cannot be one."""
    return [_read(tool) for tool in given]


def _read(tool: Any) -> FunctionTool | McpPlace:
    from ..systems.registry import load_object

    if isinstance(tool, FunctionTool):
        return tool
    if not isinstance(tool, str):
        return from_function(tool)
    if is_mcp(tool):
        return read_place(tool)
    if ".py:" in tool:
        return from_function(load_object(tool, "tool"))
    raise UsageError(f"--tools {tool!r:.200}: write mcp:COMMAND, mcp:http://HOST/PATH or path.py:function")


def check_reach(tools: Sequence[FunctionTool | McpPlace], options: ToolOptions, *, private: bool) -> None:
    """Refuse a server on another machine if nothing may leave this one. `private`: there are private documents."""
    scope = options.egress or "adaptive"
    if scope == "public" or (scope == "adaptive" and not private):
        return
    for tool in tools:
        url = tool.url if isinstance(tool, McpPlace) else tool.place
        if url and not is_loopback(url):
            why = "is private" if scope == "private" else "is adaptive, and there are private documents"
            raise UsageError(f"egress {why}, and the tools of {url} are on another machine: leave it out, or use "
                             "--egress public")  # fmt: skip
