"""The custom system that docs/systems.md shows, run as it stands there."""

import json
import re
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.engine.scripted import ScriptedEngine
from subquest.retrieval import Index
from subquest.systems import registry

from .fakes import DOCUMENTS, FakeSearch

DOCS = Path(__file__).resolve().parents[2] / "docs" / "systems.md"
_BLOCK = re.compile(r"```(?:python|markdown)\n(?:# |<!-- )([\w./]+)(?: -->)?\n(.*?)```", re.DOTALL)
SCRIPT = {
    "reader": ["<search>Orvane Bridge</search>", "<refine>The Orvane Bridge was designed by Mila Torrun.</refine>"],
    "writer": ["<answer>Mila Torrun</answer>"],
}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    for name, text in _BLOCK.findall(DOCS.read_text(encoding="utf-8")):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "notes.py"


def test_the_documented_system_runs(example: Path) -> None:
    notes = registry.get(f"{example}:Notes")
    episode = notes(ScriptedEngine(SCRIPT), FakeSearch()).ask("Who designed the Orvane Bridge?")
    assert (episode.system, episode.answer, episode.stop_reason) == ("notes", "Mila Torrun", "answered")
    assert [e.quote for e in episode.evidence] == ["The Orvane Bridge was designed by Mila Torrun."]
    reader, writer = episode.trajectories
    assert "MARKER-ONE" in reader.text
    assert "MARKER" not in writer.text
    assert len(example.read_text().splitlines()) < 40


def test_the_command_of_the_page(
    example: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(example.parent)
    Index.build("docs.sq", DOCUMENTS).close()
    lines = [json.dumps({"role": role, "reply": reply}) for role, replies in SCRIPT.items() for reply in replies]
    Path("script.jsonl").write_text("\n".join(lines))
    command = ["ask", "Who designed the Orvane Bridge?", "--system", "notes.py:Notes", "--index", "docs.sq"]
    assert main([*command, "--model", "scripted:script.jsonl"]) == 0
    assert capsys.readouterr().out.startswith("Mila Torrun\n")


def test_its_failures_are_recorded(example: Path) -> None:
    notes = registry.get(f"{example}:Notes")
    episode = notes(ScriptedEngine(SCRIPT), FakeSearch(failures=99)).ask_many(["Who?"])[0]
    assert (episode.answer, episode.stop_reason) == ("", "failed")
    assert [f.where for f in episode.errors] == ["search", "system"]


def test_every_registered_system_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8").lower()
    for name in set(registry.names()) - {"hira"}:  # documented apart
        assert f"`{name}`" in text or f"## {name}" in text or f"**{name}" in text, name
