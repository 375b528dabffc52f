"""Tools of MCP servers, through the official SDK (`subquest[mcp]`).

    mcp:uvx mcp-server-time                            a program, started here and ended with the agent
    mcp:API_KEY=$WEATHER_KEY weather-server            with a variable of its own; $NAME is taken from the environment
    mcp:http://localhost:8000/mcp                      a server, spoken to over streamable HTTP
    mcp:key=$GITHUB_TOKEN https://host/mcp             with a key, sent as a bearer token
    mcp[get_time,convert_time]:uvx mcp-server-time     some of its tools

One connection serves all questions of an agent. Where it breaks, the call fails, and the next one connects again: a
call is not repeated, because it may have done something.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..address import Address, checked_address, checked_key, is_loopback
from ..errors import MissingDependency, ToolError, UsageError
from ..masking import is_key_like, remember
from .function_tool import BadArguments, FunctionTool

if TYPE_CHECKING:
    import mcp

    from .mcp_process import McpProcess

START_SECONDS = 60.0
"""A server has to list its tools within this; a program may be fetched from the network first."""
MOST_TOOLS = 64
"""Tools of one server that are given to a model; endpoints take 128 in all."""
_PAGES = 50
_FORM = re.compile(r"mcp(?:\[([^\[\]]*)\])?:(.*)", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class McpPlace:
    """Where a server is, as a user writes it."""

    text: str
    """As it was written."""
    only: tuple[str, ...]
    """The tools to use; all if empty."""
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] | None = None
    address: Address | None = None

    @property
    def url(self) -> str:
        return self.address.url if self.address else ""

    @property
    def short_name(self) -> str:
        """The server in one word."""
        if self.address:
            return self.url.partition("://")[2].partition("/")[0].partition(":")[0]
        named = [word for word in self.command if not word.startswith("-")]
        return PurePath(named[-1] if len(named) > 1 else self.command[0]).stem


def is_mcp(text: str) -> bool:
    return _FORM.fullmatch(text.strip()) is not None


def read_place(text: str, env: Mapping[str, str] | None = None) -> McpPlace:
    """What `--tools mcp:…` says; a UsageError where it says nothing that could be a server."""
    env = os.environ if env is None else env
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise UsageError(f"{text!r:.200} is no MCP server: write mcp:COMMAND or mcp:http://HOST/PATH")
    only = tuple(filter(None, (name.strip() for name in (found[1] or "").split(","))))
    try:
        words = shlex.split(found[2])
    except ValueError as error:
        raise UsageError(f"--tools {text!r:.200}: {error}: check its quotes") from None
    settings: dict[str, str] = {}
    while words and (setting := _SETTING.fullmatch(words[0])):
        name, value = setting.groups()
        settings[name] = _from_environment(value, env, text)
        if value.startswith("$") or is_key_like(name):
            remember(settings[name])
        words.pop(0)
    if not words:
        raise UsageError(f"--tools {text!r:.200} names no server: write mcp:COMMAND or mcp:http://HOST/PATH")
    if not words[0].startswith(("http://", "https://")):
        return McpPlace(text, only, tuple(words), settings)
    if len(words) > 1:
        raise UsageError(f"--tools {text!r:.200}: nothing may follow the address")
    address = checked_address(words[0], "an MCP server's address")
    if unknown := next((name for name in settings if name != "key"), ""):
        raise UsageError(f"--tools {text!r:.200}: a server with an address has no {unknown}; its key is key=$NAME")
    if settings:
        key = checked_key(settings["key"], "the key of an MCP server")
        address = address._replace(headers={"Authorization": f"Bearer {key}"})
    return McpPlace(text, only, address=address)


def _from_environment(value: str, env: Mapping[str, str], text: str) -> str:
    if not value.startswith("$"):
        return value
    name = value[1:].strip("{}")
    if name not in env:
        raise UsageError(f"--tools {text!r:.200}: the environment variable {name} is not set")
    return env[name]


class McpServer:
    """A server and the connection to it."""

    def __init__(self, place: McpPlace, *, seconds: float) -> None:
        """A call may take `seconds`."""
        self.place = place
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._client: mcp.Client | None = None
        self._process: McpProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._calls = 0
        self._broken = False
        """A call hung or failed: the next one connects again, once no other is under way."""

    async def tools(self) -> list[FunctionTool]:
        """What the server offers; a UsageError says why it cannot be used."""
        what = f"--tools {self.place.text}"
        try:
            async with asyncio.timeout(START_SECONDS):
                client = await self._connected()
                listed = await self._listed(client)
        except TimeoutError:
            raise UsageError(f"{what}: the server did not answer within {START_SECONDS:g} seconds") from None
        except UsageError as error:
            raise UsageError(f"{what}: {error}") from None
        except Exception as error:
            raise UsageError(f"{what}: {self._reason(error)}") from None
        known = {tool.name: tool for tool in listed}
        if missing := next((name for name in self.place.only if name not in known), ""):
            names = ", ".join(known)[:500] or "none"
            raise UsageError(f"{what}: the server has no tool {missing!r}; it has {names}")
        chosen = [known[name] for name in self.place.only] if self.place.only else listed
        if len(chosen) > MOST_TOOLS:
            some = ",".join(tool.name for tool in chosen[:2])
            raise UsageError(
                f"{what}: the server offers {len(chosen)} tools; a model can be given {MOST_TOOLS}: name those to use, "
                f"as in mcp[{some}]:…"
            )
        return [self._tool(tool, client) for tool in chosen]

    async def close(self) -> None:
        async with self._lock:
            await self._disconnect()

    # ---- the connection

    async def _connected(self) -> mcp.Client:
        async with self._lock:
            if self._broken and not self._calls:
                await self._disconnect()
            if self._client is None:
                ready: asyncio.Future[mcp.Client] = asyncio.get_running_loop().create_future()
                # One task opens and closes it: the scopes of anyio inside must not change their task.
                self._task = asyncio.create_task(self._keep_open(ready))
                try:
                    self._client = await ready
                except BaseException:
                    await self._disconnect()
                    raise
            return self._client

    async def _disconnect(self) -> None:
        task, self._task, self._client, self._broken = self._task, None, None, False
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep_open(self, ready: asyncio.Future[mcp.Client]) -> None:
        try:
            import mcp
        except ImportError as error:
            ready.set_exception(MissingDependency(f"MCP ({error.name})", "mcp"))
            return
        for name in ("mcp", "client"):  # what goes wrong is in the trace: no stacks on the terminal
            logging.getLogger(name).addHandler(logging.NullHandler())
        try:
            async with mcp.Client(self._transport()) as client:
                client.session.validate_tool_result = _accept  # type: ignore[method-assign]
                ready.set_result(client)
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            if not ready.done():
                ready.set_exception(_first(error))
            self._broken = True

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        if self.place.command:
            from .mcp_process import McpProcess

            self._process = McpProcess(self.place.command, self.place.environment or {})
            async with self._process.streams() as streams:
                yield streams
        else:
            from .mcp_http import http_streams

            assert self.place.address is not None
            async with http_streams(self.place.address, self._seconds) as streams:
                yield streams

    # ---- listing and calling

    async def _listed(self, client: mcp.Client) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return list({tool.name: tool for tool in found}.values())

    def _tool(self, tool: Any, client: mcp.Client) -> FunctionTool:
        schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
        problem_with = argument_check(schema)
        info = client.server_info

        async def call(arguments: dict[str, Any]) -> str:
            if problem := problem_with(arguments):
                raise BadArguments(problem)
            return await self.call(tool.name, arguments)

        description = tool.description or tool.title or ""
        source = info.name if info is not None and info.name else self.place.short_name
        place = "" if self.place.command or is_loopback(self.place.url) else self.place.url
        return FunctionTool(tool.name, description, schema or {"type": "object"}, call, place, source, keeps_time=True)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """The result of a call as text. Raises ToolError if the tool or the server fails, or takes too long."""
        limit = START_SECONDS
        try:
            async with asyncio.timeout(limit):
                client = await self._connected()
            self._calls += 1
            limit = self._seconds
            try:
                async with asyncio.timeout(limit):
                    result = await client.call_tool(name, dict(arguments))
            except BaseException as error:
                self._broken = self._broken or not _is_reply(error)
                raise
            finally:
                self._calls -= 1
        except TimeoutError:
            raise ToolError(f"the server did not answer within {limit:g} seconds") from None
        except Exception as error:
            raise ToolError(self._reason(error)) from None
        text = _text_of(result)
        if result.is_error:
            raise ToolError(text or "the server says that it failed, and not why")
        return text

    def _reason(self, error: BaseException) -> str:
        """Why something failed: what became of the program, otherwise what the error says."""
        process = self._process
        if process is not None and process.problem and not _is_reply(error):
            said = process.last_words
            return f"{process.problem}{f': {said}' if said else ''}"
        error = _first(error)
        if callable(wrong := getattr(error, "errors", None)):  # of pydantic
            place = ".".join(map(str, wrong()[0]["loc"]))
            return f"its reply does not follow the protocol: {place}: {wrong()[0]['msg']}"
        return " ".join(str(getattr(error, "message", "") or error).split())[:500] or type(error).__name__


async def _accept(name: str, result: Any) -> None:
    """A result that is not what the tool's schema announces is still a text that a model can read."""


def argument_check(schema: Mapping[str, Any]) -> Callable[[Any], str]:
    """A function that says what is wrong with arguments by a schema; everything fits a schema that is none.

    Patterns are left to the server: an expression of its can take any time. Nothing that a schema refers to is fetched.
    """
    import jsonschema
    import referencing
    from jsonschema.validators import extend, validator_for

    known = validator_for(schema, default=jsonschema.Draft202012Validator)
    checker: Any = extend(known, {"pattern": None, "patternProperties": None})
    try:
        known.check_schema(schema)
    except (jsonschema.SchemaError, RecursionError):
        return lambda arguments: ""
    validator = checker(schema, registry=referencing.Registry())

    def problem_with(arguments: Any) -> str:
        try:
            error = next(validator.iter_errors(arguments), None)
        except Exception:  # a reference that leads nowhere, or around in circles
            return ""
        if error is None:
            return ""
        place = ".".join(map(str, error.absolute_path))
        return f"{place}: {error.message[:300]}" if place else error.message[:300]

    return problem_with


def _text_of(result: Any) -> str:
    """A result as text: its texts, what else it holds by kind and size, and its values where it has no text."""
    parts = []
    for block in result.content:
        text = getattr(getattr(block, "resource", block), "text", None)
        if isinstance(text, str):
            parts.append(text)
        elif uri := getattr(block, "uri", None):
            parts.append(f"{getattr(block, 'title', None) or getattr(block, 'name', '')} {uri}".strip())
        else:
            size = len(str(getattr(block, "data", "") or "")) * 3 // 4
            parts.append(f"({block.type}, {getattr(block, 'mime_type', '') or 'unknown type'}, {size:,} bytes)")
    if not parts and result.structured_content is not None:
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, default=str))
    return "\n".join(parts)


def _is_reply(error: BaseException) -> bool:
    """Whether an error is the server's own reply, over a connection that works."""
    code = getattr(error, "code", None)
    return isinstance(code, int) and code not in (-32000, -32001)  # closed, timed out


def _first(error: BaseException) -> BaseException:
    """The first error of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
