"""Tools of users by options and settings: `ask --tools`, `[tools] use`, `doctor --tools`."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

import subquest as sq
from subquest.assemble import AgentSpec, open_agent
from subquest.cli import main
from subquest.config import load_config
from subquest.errors import UsageError
from subquest.runs import RunStore
from subquest.serve.agents import open_agents
from subquest.serve.settings import Settings
from subquest.tools.tool_options import ToolOptions

HOSTILE = Path(__file__).parents[1] / "tools" / "mcp_hostile.py"
SAY = f"mcp:{shlex.join([sys.executable, str(HOSTILE), 'plain'])}"
FUNCTION = '''
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number
'''
QUESTION = "What is twice 21?"


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


@pytest.fixture
def place(place: Path) -> Path:
    script = [
        ("planner", f"<task>{QUESTION}</task>"),
        ("planner", "<answer>42</answer>"),
        ("executor", call("double", number=21)),
        ("executor", call("say")),
        ("executor", "<result>42</result>"),
    ]
    (place / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in script))
    (place / "mine.py").write_text(FUNCTION)
    return place


MODEL = ("--model", "scripted:script.jsonl")


def test_ask_with_a_function_and_a_server(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", QUESTION, *MODEL, "--tools", "mine.py:double", "--tools", SAY, "--trace", "t.json"]) == 0
    trace = json.loads(Path("t.json").read_text())
    made = [e["data"] for e in trace["events"] if e["kind"] == "code"]
    assert [(m["tool"], m["output"]) for m in made] == [("double", "42"), ("say", "said")]
    assert trace["settings"]["tools"] == ["double", "say"]
    shown = capsys.readouterr()
    assert "double(" in shown.err + shown.out


def test_settings_name_tools_for_the_systems_that_can_call_them(place: Path) -> None:
    (place / "subquest.toml").write_text(f"[tools]\nuse = [{json.dumps(SAY)}, 'mine.py:double']\ncalls = 1\n")
    assert main(["ask", QUESTION, *MODEL, "--trace", "t.json"]) == 0
    trace = json.loads(Path("t.json").read_text())
    assert [e["data"]["tool"] for e in trace["events"] if e["kind"] == "code"] == ["double"]
    assert [e["data"]["what"] for e in trace["events"] if e["kind"] == "limit"] == ["1 tool calls"]
    Path("script.jsonl").write_text(json.dumps({"role": "answerer", "reply": "<answer>42</answer>"}))
    assert main(["ask", QUESTION, "--system", "direct", *MODEL]) == 0  # it has no use for them


def test_tools_of_a_run_are_stored_without_secrets(place: Path) -> None:
    Path("q.jsonl").write_text(json.dumps({"id": "1", "question": QUESTION, "answers": ["42"]}) + "\n")
    say = SAY.replace("mcp:", "mcp:SAY_KEY=s4y-k3y-of-ann ")
    given = [*MODEL, "--tools", say, "--tools", "mine.py:double", "--index", "docs.sq"]
    assert main(["eval", "q.jsonl", *given, "--out", "run"]) == 0
    with RunStore.open(Path("run")) as store:
        assert "s4y-k3y" not in json.dumps(store.settings, default=str)
        assert "mine.py:double" in json.dumps(store.settings, default=str)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tools", "mine.py:triple"], "defines no 'triple'"),
        (["--tools", "none.py:f"], "there is no file none.py"),
        (["--tools", "weather"], "--tools 'weather': write mcp:COMMAND, mcp:http://HOST/PATH or path.py:function"),
        (["--tools", "mcp:"], "names no server"),
        (["--tools", "mcp:no-such-program"], "the program 'no-such-program' cannot be started"),
        (["--tools", "mine.py:double", "--system", "rag", "--index", "docs.sq"], "rag has no role that calls tools"),
        (["--tools", "mcp:https://h.example/mcp", "--egress", "private"], "egress is private, and the tools of https:"),
        (["--tools", "mcp:https://h.example/mcp", "--index", "docs.sq"], "adaptive, and there are private documents"),
    ],
)
def test_what_cannot_be_used_is_one_line_and_status_2(
    place: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", QUESTION, *MODEL, *options]) == 2
    said = capsys.readouterr().err.strip()
    assert message in said
    assert "\n" not in said


def test_a_settings_file_of_a_parent_folder_starts_no_program(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    touched = place / "touched"
    (place / "subquest.toml").write_text(f"[tools]\nuse = ['mcp:touch {touched}']\n")
    below = place / "below"
    below.mkdir()
    monkeypatch.chdir(below)
    assert main(["ask", QUESTION, "--model", f"scripted:{place}/script.jsonl"]) == 2
    assert "tools.use starts programs, which a file in a parent folder may not name" in capsys.readouterr().err
    (place / "subquest.toml").chmod(0o666)  # now anybody may have written it: ignored, with a warning
    assert load_config(env={}).tools.use is None
    assert not touched.exists()


def test_doctor_lists_tools(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--tools", "mine.py:double", "--tools", SAY]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split(None, 2)[1:] for line in said] == [
        ["double", "(number: integer) Twice a number."],
        ["say", "() Says something."],
    ]
    assert main(["doctor", "--tools", "mcp:no-such-program"]) == 2


async def test_python_users_give_functions_and_servers(place: Path) -> None:
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    spec = sq.AgentSpec(model="scripted:script.jsonl", tools=[double, SAY])
    async with sq.open_agent(spec) as agent:
        episode = await agent.solve(QUESTION)
    assert [e.data["output"] for e in episode.events if e.kind == "code"] == ["42", "said"]
    with pytest.raises(UsageError, match="decor has no role that calls tools"):
        async with sq.open_agent(spec.replace(system="decor")):
            pass
    with pytest.raises(UsageError, match="AgentSpec: tools must be a list, not 'mcp:x'"):
        async with open_agent(AgentSpec(tools="mcp:x")):
            pass


def test_more_tools_than_endpoints_take_are_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [",".join(f"tool_{n}" for n in range(start, start + 60)) for start in (0, 60, 120)]
    many = [SAY.replace("mcp:", f"mcp[{some}]:").replace("plain", "many") for some in names]
    assert main(["doctor", *(word for tool in many for word in ("--tools", tool))]) == 2
    assert "180 tools are more than a model can be given, 128: choose some" in capsys.readouterr().err


def test_ask_in_one_call(place: Path) -> None:
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    episode = sq.ask(QUESTION, model="scripted:script.jsonl", tools=[double, SAY])
    assert [e.data["output"] for e in episode.events if e.kind == "code"] == ["42", "said"]
    with pytest.raises(UsageError, match="there is nothing to search"):
        sq.ask(QUESTION, model="scripted:script.jsonl")


async def test_a_server_gives_tools_to_the_systems_that_can_call_them(place: Path) -> None:
    spec = AgentSpec(model="scripted:script.jsonl", tools=[SAY, "mine.py:double"], tool_options=ToolOptions(calls=3))
    async with open_agents(
        spec, {"other": "scripted:script.jsonl"}, {}, Settings(Path("runs"), Path("indexes"), read_only=True)
    ) as agents:
        assert [tool.name for tool in agents.get("coda").tools] == ["say", "double"]
        assert [tool.name for tool in agents.get("hira", "other").tools] == ["say", "double"]
        assert agents.get("direct").tools == ()
        episode = await agents.get("coda").solve(QUESTION)
    assert [e.data["output"] for e in episode.events if e.kind == "code"] == ["42", "said"]
    assert asyncio.all_tasks() == {asyncio.current_task()}
