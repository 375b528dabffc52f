"""The code of CONTRIBUTING.md, run as it stands there: a system of one's own is asked, evaluated and trained."""

import json
import re
from pathlib import Path

import pytest

from subquest import CoDA, Document, Index, ScriptedEngine, system
from subquest.cli import main
from subquest.rewards import load
from subquest.systems import registry

from .systems.fakes import DOCUMENTS

PAGE = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
_BLOCK = re.compile(r"```(?:python|markdown|toml)\n(?:# |<!-- )([\w./]+)(?: -->)?\n(.*?)```", re.DOTALL)
QUESTION = "Who designed the Orvane Bridge?"
SCRIPT = [
    ("searcher", "<search>Orvane Bridge</search>"),
    ("searcher", "<refine>The Orvane Bridge was designed by Mila Torrun.</refine>"),
    ("writer", "<answer>Mila Torrun</answer>"),
]
SCOUT = "scout/system.py:Scout"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the files of the page, an index and a script."""
    monkeypatch.chdir(tmp_path)
    for name, text in _BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    lines = [json.dumps({"role": role, "reply": reply}) for role, reply in SCRIPT]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    question = {"id": "1", "question": QUESTION, "answers": ["Mila Torrun"]}
    (tmp_path / "questions.jsonl").write_text(json.dumps(question))
    return tmp_path


def test_a_system_with_two_roles_is_one_folder_and_few_lines(place: Path) -> None:
    assert len((place / "scout/system.py").read_text().splitlines()) <= 40
    scout = system(SCOUT)
    assert scout.prompt_folder() == place / "scout/prompts"
    assert scout(ScriptedEngine([]), preset="wide").settings.k == 10


def test_it_is_asked_from_the_command_line(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["--model", "scripted:script.jsonl", "--index", "docs.sq"]
    assert main(["ask", QUESTION, "--system", SCOUT, *model, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["system"], found["answer"]) == ("scout", "Mila Torrun")
    assert found["evidence"][0]["quote"] == "The Orvane Bridge was designed by Mila Torrun."


def test_it_is_evaluated(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--system", SCOUT, "--set", "k=5", "--model", "scripted:script.jsonl", "--index", "docs.sq"]
    assert main(["eval", "questions.jsonl", *options, "--out", "run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [scores["em"] for systems in found.values() for scores in systems.values()] == [1.0]


async def test_its_reward_and_loss_are_found_beside_it(place: Path) -> None:
    replies = {role: [reply for r, reply in SCRIPT if r == role] for role in ("searcher", "writer")}
    with Index.open(place / "docs.sq") as index:
        episode = await system(SCOUT)(ScriptedEngine(replies), index).solve(QUESTION)
    (reward,) = await load(SCOUT, options={"notes": 0.5}).score([episode])
    assert reward.terms == {"f1": 0.0, "notes": 0.5}
    assert registry.declared("reward", "LOSSES", SCOUT)[SCOUT]["clip_high"] == 0.28


@pytest.mark.slow
def test_it_is_trained_for_one_step(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    assert main(["train", "scout/recipe.toml", "--out", "scout-run", "--device", "cpu"]) == 0
    from subquest.train.recipe import load_recipe

    recipe = load_recipe("scout/recipe.toml")
    assert recipe.objective.aggregation == "sequence-mean"
    assert list(Path("scout-run").rglob("adapter_model.safetensors"))


async def test_a_tool_is_called_inside_the_reasoning(place: Path) -> None:
    replies = ["10 miles are <|begin_convert|>10<|end_convert|>", "\\boxed{16.1 km}"]
    episode = await system("units/system.py:Units")(ScriptedEngine(replies)).solve("How far are 10 miles?")
    assert (episode.answer, episode.stop_reason) == ("16.1 km", "answered")
    assert "<|begin_converted|>16.1 km<|end_converted|>" in episode.trajectories[0].text


async def test_a_search_of_ones_own(place: Path) -> None:
    search = registry.load_object("shelf/search.py:Titles", "search")([Document("1", "Kestel", "A town.")])
    replies = {
        "planner": ["<task>t</task>", "<answer>a</answer>"],
        "executor": ["<search>Kestel</search>", "<result>r</result>"],
    }
    episode = await CoDA(ScriptedEngine(replies), search).solve("Where?")
    assert "A town." in episode.by_role("executor")[0].text
