"""`subquest train` says how far it is, what it cannot do and what to do next, and a finished run can be extended."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from subquest.cli import main

pytest.importorskip("torch", reason="the train extra is not installed")

RECIPES = Path(__file__).parents[2] / "recipes"
SMOKE = str(RECIPES / "direct-sft-smoke.toml")
SHORT = ["--set", "optimiser.batch=24", "--set", "evaluate_questions=1"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("train") / "run"
    assert main(["train", SMOKE, "--out", str(out), *SHORT, "--set", "optimiser.steps=1", "--json"]) == 0
    return out


@pytest.mark.slow
def test_a_finished_run_is_extended_by_the_command_that_it_prints(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", SMOKE, "--out", str(finished), *SHORT]
    capsys.readouterr()
    assert main([*command, "--set", "optimiser.steps=3", "--set", "optimiser.epochs=3"]) == 0
    done = capsys.readouterr()
    assert re.search(r"^ +2/3 ", done.out, re.MULTILINE), done.out
    assert re.search(r"^ +3/3 .* 0:00$", done.out, re.MULTILINE), "no time is left after the last step"
    assert "step 3 of 3" in done.err
    assert f"subquest report {finished} --out curves.svg" in done.err
    longer = re.search(r"subquest (train .*?) +# train it longer", done.err)
    assert longer is not None
    assert "optimiser.steps=6" in longer[1]
    assert main([*command, "--set", "optimiser.steps=2", "--set", "optimiser.epochs=3"]) == 2
    assert "optimiser.steps was 3, is 2" in capsys.readouterr().err, "a shorter run would be another one"


def test_a_folder_with_other_things_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.md").write_text("Dear Mila")
    assert main(["train", SMOKE, "--out", str(tmp_path), *SHORT]) == 2
    assert "holds other things, such as letter.md, and no run" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["letter.md"]


@pytest.mark.slow
def test_more_steps_than_the_data_has_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", SMOKE, "--out", str(tmp_path / "run"), *SHORT, "--set", "optimiser.steps=50"]) == 0
    told = capsys.readouterr().err
    assert "24 gold traces (direct 24); questions without one: none" in told
    assert "1 step, not 50: optimiser.epochs = 1, over 24 traces, 24 a step" in told
    assert "raise optimiser.epochs" in told
    assert "--set optimiser.epochs=2 " in told, "what makes it longer"
    assert main(["runs", "list", str(tmp_path)]) == 0
    assert capsys.readouterr().out.rstrip().endswith("finished")


@pytest.mark.slow
def test_the_first_run_visibly_learns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(RECIPES / "first-run.toml")
    assert main(["train", recipe, "--out", str(tmp_path / "run"), "--set", "optimiser.steps=40", "--json"]) == 0
    figures = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    curve = [row["dev_em"] for row in figures if "dev_em" in row]
    assert len(curve) == 4
    assert curve[-1] > curve[0] + 0.4, curve
    assert figures[-1]["loss"] < figures[0]["loss"] / 5


def test_without_torch_it_is_one_line(tmp_path: Path) -> None:
    code = "import sys; sys.modules['torch'] = None; from subquest.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "train", SMOKE, "--out", str(tmp_path / "run")], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "subquest: torch, which training needs, is not installed. Install it with: pip install 'subquest[train]'"
    ]
