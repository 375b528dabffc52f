"""MCP, spoken by the official client to the real command."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from subquest import Index
from subquest.cli import main

from ..cli.conftest import SCRIPT
from ..ports import free_port
from ..systems.fakes import DOCUMENTS
from .conftest import QUESTION
from .test_episode_handlers import until

ARGUMENTS = ["--model", "scripted:script.jsonl", "--index", "docs.sq"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    lines = [json.dumps({"role": role, "reply": reply}) for role, reply in SCRIPT]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    return tmp_path


def told(result: Any) -> dict[str, Any]:
    assert not result.is_error, result
    return json.loads(result.content[0].text)


async def use(client: Client) -> None:
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == {"search", "ask", "read_document"}
    assert all("docs" in (tool.description or "") for tool in tools)
    (hit,) = told(await client.call_tool("search", {"query": "Orvane Bridge", "k": 1}))["hits"]
    assert hit["id"] == "d1"
    assert told(await client.call_tool("read_document", {"id": "d2"}))["title"] == "Mila Torrun"
    steps: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message or "")

    found = told(await client.call_tool("ask", {"question": QUESTION}, progress_callback=heard))
    assert (found["answer"], found["supported"]) == ("Kestel", True)
    assert [e["quote"] for e in found["evidence"]][1] == "She was born in Kestel in 1889."
    assert steps[:2] == ["task: Who designed the Orvane Bridge?", "search: Orvane Bridge designer"]
    wrong = await client.call_tool("search", {"query": "x", "index": "../etc"})
    assert wrong.is_error
    assert "no index" in wrong.content[0].text  # type: ignore[union-attr]
    listed = await client.read_resource("subquest://runs")
    assert json.loads(listed.contents[0].text) == []  # type: ignore[union-attr]


async def test_over_standard_input(place: Path) -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "subquest", "mcp", *ARGUMENTS], cwd=place)
    async with Client(stdio_client(command)) as client:
        await use(client)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def address(place: Path) -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "subquest", "mcp", "--http", str(port), *ARGUMENTS], cwd=place)
    try:
        until(lambda: _listens(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(120)


@pytest.mark.slow
async def test_over_http(address: str) -> None:
    async with Client(address) as client:
        await use(client)


def test_help_names_the_tools(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--help"]) == 0
    assert "--http PORT" in capsys.readouterr().out


def test_a_port_that_is_taken_is_told_first(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["mcp", "--http", str(port), "--model", "scripted:not-there.jsonl"]) == 2
    assert f"cannot serve on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
