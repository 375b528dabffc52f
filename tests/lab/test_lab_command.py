"""The command without a model: the plan, packed results and what is refused."""

import json
from pathlib import Path

import pytest
import run as lab

from subquest.study.results import Results

from ..study.small_study import write_small_study


@pytest.fixture
def recipes(tmp_path: Path) -> list[str]:
    write_small_study(tmp_path)
    return ["--recipes", str(tmp_path), "--runs", str(tmp_path / "runs")]


def printed(command: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert lab.main(command) == 0
    return capsys.readouterr().out


def test_the_plan(recipes: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    plan = json.loads(printed([*recipes, "--plan", "--json", "--workers", "2"], capsys))
    assert plan["rows"] == {"done": 1, "left": 2, "stale": 0}
    assert plan["slices"][0]["trainings"] == ["rl"]
    assert sum(sum(s["questions"].values()) for s in plan["slices"]) == 4
    assert "1 trainings: rl" in printed([*recipes, "--plan", "--workers", "2"], capsys)


def test_results_are_packed_and_unpacked(
    recipes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed([*recipes, "--pack", str(tmp_path / "out")], capsys)
    printed([*recipes, "--unpack", str(tmp_path / "out"), "--out", str(tmp_path / "there")], capsys)
    assert Results(tmp_path / "there").stored("rag@none") == Results(tmp_path / "results").stored("rag@none")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--unpack", "nowhere"], "--unpack: there is no folder nowhere"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--workers", "2", "--trainers", "3"], "--trainers must be from 1 to the number of --workers, 2"),
        (["--use", "shipped"], "write NAME=PLACE"),
        (["--plan", "--minutes", "0.5"], "--minutes 0.5: a slice takes 30 seconds before its first question"),
        (["--run", "--only", "nothing"], "no variant or claim is called nothing"),
    ],
)
def test_what_is_refused(
    recipes: list[str], capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    assert lab.main([*recipes, *options]) == 2
    assert words in capsys.readouterr().err
