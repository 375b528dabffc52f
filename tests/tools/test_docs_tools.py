"""What docs/tools.md shows of tools of one's own works as it stands there, but for the model's address."""

import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="the MCP SDK is not installed")

from subquest.cli import main
from subquest.config import load_config
from subquest.record import Episode

TEXT = (Path(__file__).parents[2] / "docs" / "tools.md").read_text(encoding="utf-8")
SECTION = TEXT[TEXT.index("## Your own tools") : TEXT.index("## Settings")]
FILES = dict(re.findall(r"```python\n# ([\w.]+)\n(.*?)```", SECTION, re.DOTALL))
EXPERTS = SECTION.index("### HiRA")
COMMANDS = re.findall(r"^    (subquest .*)$", SECTION[:EXPERTS], re.MULTILINE)


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


SCRIPT = [
    ("planner", "<task>Find it.</task>"),
    ("planner", "<answer>4,210</answer>"),
    ("executor", call("population", town="Kelm")),
    ("executor", "<result>4,210</result>"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in FILES.items():
        (tmp_path / name).write_text(code.replace("openai:NAME@URL", "scripted:script.jsonl"))
    (tmp_path / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in SCRIPT))
    return tmp_path


def run(command: str) -> int:
    words = shlex.split(command.replace("openai:NAME@URL", "scripted:script.jsonl"))[1:]
    return main([word.replace("mcp:python", f"mcp:{shlex.quote(sys.executable)}") for word in words])


def test_a_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing, asking = [command for command in COMMANDS if "towns.py:population" in command]
    assert run(listing) == 0
    assert "population         (town: string (the name of the town)) How many people live" in capsys.readouterr().out
    assert run(f"{asking} --json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["answer"], told["supported"]) == ("4,210", True)


def test_a_function_in_python(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        runpy.run_path("ask_towns.py")
    finally:
        sys.modules.pop("towns", None)
    assert capsys.readouterr().out == "4,210 True ['population']\n"


@pytest.mark.slow
def test_a_server(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    listing, asking = [command for command in COMMANDS if "town_server.py" in command]
    assert run(listing) == 0
    assert capsys.readouterr().out.split(None, 2)[1:] == ["mayor", "(town: string) The mayor of a town.\n"]
    script = [("executor", call("mayor", town="Kelm")), ("executor", "<result>Ida Brandt</result>")]
    script += [("planner", "<task>Find it.</task>"), ("planner", "<answer>Ida Brandt</answer>")]
    (folder / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in script))
    assert run(f"{asking} --json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["answer"], told["supported"]) == ("Ida Brandt", True)
    assert [quote["quote"] for quote in told["evidence"]] == ["Ida Brandt is the mayor of Kelm."]


@pytest.mark.slow
def test_an_expert_calls_tools(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (asking,) = re.findall(r"^    (subquest .*)$", SECTION[EXPERTS:], re.MULTILINE)
    (tree,) = re.findall(r"```text\n(.*?)```", SECTION[EXPERTS:], re.DOTALL)
    made = json.dumps({"name": "mayor", "arguments": {"town": "Kelm"}})
    script = [
        ("planner", "<|begin_call_subtask|>Who is the mayor of Kelm?<|end_call_subtask|>"),
        ("coordinator", '{"selected_agent_name": "toolbox"}'),
        ("toolbox", f"<|begin_tool_call|>{made}<|end_tool_call|>"),
        ("toolbox", "\\boxed{Ida Brandt}"),
        ("coordinator", '{"conclusion": {"final_conclusion": "Ida Brandt"}, "memory": {}}'),
        ("planner", "\\boxed{Ida Brandt}"),
    ]
    (folder / "script.jsonl").write_text("\n".join(json.dumps({"role": r, "reply": t}) for r, t in script))
    assert run(f"{asking} --trace t.json") == 0
    said = capsys.readouterr()
    _, *shown = said.err.splitlines()
    assert "\n".join(line[2:] for line in shown) + "\n" == tree
    assert said.out.splitlines()[:2] == [
        "Ida Brandt",
        '  "Ida Brandt is the mayor of Kelm." - mayor [mayor({"town": "Kelm"})]',
    ]
    episode = Episode.from_json(Path("t.json").read_text())
    assert "Kelm." not in episode.by_role("planner")[0].text.replace("Who is the mayor of Kelm?", "")
    assert "population" in episode.by_role("coordinator")[0].text  # the description of the expert lists both


def test_settings(folder: Path) -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", SECTION, re.DOTALL)
    (folder / "subquest.toml").write_text(shown)
    tools = load_config(env={}).tools
    assert tools.use == tuple(tomllib.loads(shown)["tools"]["use"])
    assert (tools.most_calls, tools.seconds_per_call) == (20, 30.0)
