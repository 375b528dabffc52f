"""MCP servers as tools: real ones by the official SDK, over standard input and over HTTP, and some that misbehave."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

import httpx2

from subquest import masking
from subquest.assemble import AgentSpec, open_agent
from subquest.errors import ToolError, UsageError
from subquest.tools import mcp_http, mcp_server
from subquest.tools.function_tool import BadArguments, FunctionTool
from subquest.tools.mcp_server import McpServer, argument_check, is_mcp, read_place
from subquest.tools.tool_options import ToolOptions

from ..engine.loopback import Loopback
from ..ports import free_port

FOLDER = Path(__file__).parent
EXAMPLE = f"{shlex.quote(sys.executable)} {shlex.quote(str(FOLDER / 'mcp_example.py'))}"


def hostile(kind: str, *words: str) -> str:
    return shlex.join(["mcp:" + sys.executable, str(FOLDER / "mcp_hostile.py"), kind, *words]).replace("'", "")


@asynccontextmanager
async def opened(text: str, seconds: float = 60.0) -> AsyncIterator[dict[str, FunctionTool]]:
    server = McpServer(read_place(text), seconds=seconds)
    try:
        yield {tool.name: tool for tool in await server.tools()}
    finally:
        await server.close()


# ---- the official SDK


async def use(tools: dict[str, FunctionTool]) -> None:
    assert tools["population"].signature() == "population(town: string)"
    assert tools["population"].description == "The population of a town."
    assert tools["population"].source == "example town"
    assert await tools["population"].call({"town": "Kelm"}) == "Kelm has 4,210 inhabitants."
    assert await tools["add"].call({"a": 2, "b": 3}) == "5"
    assert len(await tools["long"].call({"characters": 3_000_000})) == 3_000_000
    assert await tools["read me!"].call({}) == "odd"
    with pytest.raises(BadArguments, match="a: 'two' is not of type 'integer'"):
        await tools["add"].call({"a": "two", "b": 3})
    with pytest.raises(BadArguments, match="'town' is a required property"):
        await tools["population"].call({})
    with pytest.raises(ToolError, match="Error executing tool fail"):
        await tools["fail"].call({})
    both = await asyncio.gather(*(tools["population"].call({"town": town}) for town in ("Kelm", "Pell")))
    assert both == ["Kelm has 4,210 inhabitants.", "Pell has 88 inhabitants."]


@pytest.mark.slow
async def test_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does right, what it knows of the environment, and that one end of it is not the end."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-servers")
    monkeypatch.setenv("TOWN_KEY", "key-of-the-town")
    async with opened(f"mcp:API_KEY=$TOWN_KEY GREETING=hello {EXAMPLE}") as tools:
        await use(tools)
        assert await tools["variable"].call({"name": "GREETING"}) == "hello"
        assert await tools["variable"].call({"name": "API_KEY"}) == "key-of-the-town"
        assert await tools["variable"].call({"name": "OPENAI_API_KEY"}) == "not set"
        assert masking.mask("its key-of-the-town") == "its [secret]"
        with pytest.raises(ToolError, match="the server ended: the roof came down"):
            await tools["die"].call({})
        assert await tools["population"].call({"town": "Kelm"}) == "Kelm has 4,210 inhabitants."


@pytest.fixture(scope="module")
def example_url() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, str(FOLDER / "mcp_example.py"), "http", str(port)])
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


async def listening(url: str) -> None:
    for _ in range(600):
        try:
            async with httpx2.AsyncClient(trust_env=False) as client:
                await client.get(url, timeout=5)
            return
        except httpx2.TransportError:
            await asyncio.sleep(0.1)
    raise AssertionError("the server does not listen")


@pytest.mark.slow
async def test_a_server_over_http(example_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await listening(example_url)
    async with opened(f"mcp[population,add,long,read me!,fail]:{example_url}") as tools:
        assert list(tools) == ["population", "add", "long", "read me!", "fail"]
        await use(tools)
    monkeypatch.setattr(mcp_http, "MESSAGE", 1 << 20)
    async with opened(f"mcp[long,add]:{example_url}") as tools:
        with pytest.raises(ToolError, match="longer than 1 MB"):
            await tools["long"].call({"characters": 3_000_000})
        assert await tools["add"].call({"a": 1, "b": 1}) == "2"


@pytest.mark.slow
async def test_experts_of_hira_call_a_server_within_limits(example_url: str, tmp_path: Path) -> None:
    """On the trace are the call, the one that hangs, and the one that is over the limit."""

    def made(name: str, **arguments: Any) -> str:
        return f"<|begin_tool_call|>{json.dumps({'name': name, 'arguments': arguments})}<|end_tool_call|>"

    await listening(example_url)
    script = {
        "planner": ["<|begin_call_subtask|>How many people live in Kelm?<|end_call_subtask|>", "\\boxed{4,210}"],
        "coordinator": [
            '{"selected_agent_name": "toolbox"}',
            '{"conclusion": {"final_conclusion": "4,210"}, "memory": {}}',
        ],
        "toolbox": [
            made("population", town="Kelm"),
            made("hang", seconds=20.0),
            made("population", town="Pell"),
            "\\boxed{4,210}",
        ],
    }
    options = ToolOptions(calls=2, call_seconds=4)
    tools = (f"mcp[population,hang]:{example_url}",)
    lines = [json.dumps({"role": role, "reply": reply}) for role, replies in script.items() for reply in replies]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    model = f"scripted:{tmp_path}/script.jsonl"
    async with open_agent(AgentSpec(system="hira", model=model, tools=tools, tool_options=options)) as agent:
        episode = await agent.solve("How many people live in Kelm?")
    calls = [event.data for event in episode.events if event.kind == "code"]
    assert [(c["tool"], c["output"]) for c in calls] == [("population", "Kelm has 4,210 inhabitants."), ("hang", "")]
    assert "within 4 seconds" in calls[1]["error"]
    assert [event.data["what"] for event in episode.events if event.kind == "limit"] == ["2 tool calls"]
    assert [(f.where, f.fatal) for f in episode.errors] == [("tool", False)]
    assert (episode.answer, episode.supported, episode.usage.tool_calls) == ("4,210", True, 2)
    (quote,) = episode.evidence
    assert (quote.title, quote.quote) == ("population", "Kelm has 4,210 inhabitants.")


@pytest.mark.slow
async def test_a_call_that_hangs_ends_in_time_and_the_next_one_works(example_url: str) -> None:
    await listening(example_url)
    server = McpServer(read_place(f"mcp[hang,population]:{example_url}"), seconds=60)
    try:
        tools = {tool.name: tool for tool in await server.tools()}
        server._seconds = 1.0
        with pytest.raises(ToolError, match="did not answer within 1 seconds"):
            await tools["hang"].call({"seconds": 20.0})
        server._seconds = 60.0
        assert await tools["population"].call({"town": "Pell"}) == "Pell has 88 inhabitants."
    finally:
        await server.close()


# ---- servers that misbehave


async def test_a_hundred_megabytes_are_refused_and_the_server_is_started_again() -> None:
    async with opened(hostile("huge")) as tools:
        with pytest.raises(ToolError, match=r"^it sent a message of more than 16 MB$"):
            await tools["say"].call({"much": True})
        assert await tools["say"].call({}) == "said"


async def test_a_server_that_lies_about_its_schemas() -> None:
    """Its results are texts all the same, nothing is fetched, and no pattern of its is run."""
    async with Loopback() as loopback, opened(hostile("lies", f"{loopback.url}/schema.json")) as tools:
        for name in ("announced", "no_schema", "elsewhere", "pattern", "circle"):
            told = await tools[name].call({"a": "a" * 40 + "!"})
            assert told.startswith("the sum is 3, {"), name
        assert loopback.posts == []
        assert loopback.requests == []
        assert "elsewhere(a?: " in tools["elsewhere"].signature()


async def test_what_is_no_text_is_named() -> None:
    async with opened(hostile("parts")) as tools:
        told = await tools["say"].call({})
    assert told == "a picture:\n(image, image/png, 6 bytes)\nthe file says hello\nb file:///b.txt"


async def test_a_greeting_on_the_standard_output_is_skipped() -> None:
    async with opened(hostile("greets")) as tools:
        assert await tools["say"].call({}) == "said"


async def test_a_reply_that_is_no_result_is_a_failure() -> None:
    async with opened(hostile("nonsense")) as tools:
        with pytest.raises(ToolError):
            await tools["say"].call({})


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("many", r"offers 500 tools; a model can be given 64: name those to use, as in mcp\[tool_0,tool_1\]:"),
        ("ends", "the server ended: set LICENCE=…"),
        ("no-tools", "its reply does not follow the protocol: tools: Input should be a valid list$"),
        ("broken", "does not follow the protocol: tools.0.inputSchema.properties: Input should be a valid dictionary$"),
    ],
)
async def test_a_server_that_cannot_be_used_is_refused(kind: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        async with opened(hostile(kind)):
            pass
    assert str(refused.value).startswith("--tools mcp:")
    assert "\n" not in str(refused.value)


async def test_some_of_many_tools_can_be_chosen() -> None:
    place = hostile("many").replace("mcp:", "mcp[tool_7, tool_499]:")
    async with opened(place) as tools:
        assert list(tools) == ["tool_7", "tool_499"]
    with pytest.raises(UsageError, match="the server has no tool 'tool_900'; it has tool_0, tool_1"):
        async with opened(place.replace("tool_499", "tool_900")):
            pass


async def test_a_list_without_an_end_has_one() -> None:
    async with opened(hostile("endless")) as tools:
        assert len(tools) == 50


async def test_a_silent_server_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "START_SECONDS", 1.0)
    with pytest.raises(UsageError, match="the server did not answer within 1 seconds"):
        async with opened(hostile("silent")):
            pass


async def test_a_program_that_does_not_end_is_ended_with_what_it_started() -> None:
    server = McpServer(read_place(hostile("stays")), seconds=60)
    await server.tools()
    assert server._process is not None
    assert server._process._process is not None
    group = server._process._process.pid
    os.killpg(group, 0)
    await server.close()
    for _ in range(6000):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it still runs")


# ---- how servers are written


def test_places() -> None:
    env = {"KEY": "abcdefgh-1", "PORT": "80"}
    program = read_place("mcp:A=1 B=$KEY uvx 'a server' --port $PORT", env)
    assert program.command == ("uvx", "a server", "--port", "$PORT")
    assert program.environment == {"A": "1", "B": "abcdefgh-1"}
    assert (program.url, program.only) == ("", ())
    assert read_place("mcp:python -m server.py").short_name == "server"
    address = read_place("mcp[ a, b]:key=${KEY} https://host.example:8443/mcp/?team=7", env)
    assert (address.url, address.only) == ("https://host.example:8443/mcp", ("a", "b"))
    assert address.short_name == "host.example"
    assert address.address is not None
    assert address.address.headers == {"Authorization": "Bearer abcdefgh-1"}
    assert address.address.query == {"team": "7"}
    assert masking.mask("abcdefgh-1") == "[secret]"
    read_place("mcp:FOLDER=/srv/towns-and-ferries WEATHER_KEY=k-of-the-weather server", env)
    assert masking.mask("/srv/towns-and-ferries k-of-the-weather") == "/srv/towns-and-ferries [secret]"
    with pytest.raises(UsageError, match=r"key=\[secret\] https://host.example"):
        read_place("mcp:key=k-of-the-other-host https://host.example/mcp more", env)
    assert is_mcp("mcp[a]:x")
    assert not is_mcp("mine.py:f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mcp:", "names no server: write mcp:COMMAND or mcp:http"),
        ("mcp:A=1", "names no server"),
        ("mcp:A=$NOWHERE x", "the environment variable NOWHERE is not set"),
        ("mcp:say 'hello", "No closing quotation: check its quotes"),
        ("mcp:http://", "cannot be right"),
        ("mcp:http://host/a b", "nothing may follow the address"),
        ("mcp:token=a http://host/a", "has no token; its key is key="),
    ],
)
def test_what_is_no_place_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_place(text, {})


async def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(UsageError, match="the program 'no-such-program' cannot be started: No such file or directory"):
        async with opened("mcp:no-such-program --fast"):
            pass


async def test_without_the_sdk_the_command_that_installs_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(UsageError, match=r"is not installed. Install it with: pip install 'subquest\[mcp\]'"):
        async with opened(hostile("plain")):
            pass


async def test_an_address_where_nobody_listens_is_named() -> None:
    with pytest.raises(UsageError, match=r"--tools mcp:http://127.0.0.1:\d+/mcp: "):
        async with opened(f"mcp:http://127.0.0.1:{free_port()}/mcp"):
            pass


@pytest.mark.parametrize(
    ("schema", "arguments", "problem"),
    [
        ({"type": "object", "required": ["a"]}, {}, "'a' is a required property"),
        ({"properties": {"a": {"minimum": 3}}}, {"a": 1}, "a: 1 is less than the minimum of 3"),
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "a.1: 1 is not of type 'string'"),
        ({"type": "nothing"}, {}, ""),
        ({"properties": {"a": {"pattern": "^b"}}}, {"a": "c"}, ""),
        ({"$ref": "#/nowhere"}, {}, ""),
    ],
)
def test_arguments_by_a_schema(schema: dict[str, Any], arguments: dict[str, Any], problem: str) -> None:
    assert argument_check(schema)(arguments) == problem
