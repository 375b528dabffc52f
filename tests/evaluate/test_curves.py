"""Training runs as curves: what is drawn, what is averaged, and what is refused."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from subquest.cli import main
from subquest.errors import DataError
from subquest.evaluate.report import Curves
from subquest.evaluate.report.curves import averaged
from subquest.runs import RunStore

from .actors import make_run


def training(path: Path, rewards: list[float], recipe: str = "peco") -> Path:
    with RunStore.create(path, settings={"recipe": recipe, "kind": "rl"}) as store:
        for step, reward in enumerate(rewards, 1):
            store.add_metrics(step, {"reward": reward, "kl": reward / 10})
        if rewards:
            store.add_metrics(0, {"dev_em": 0.25})
    return path


def test_many_steps_are_averaged() -> None:
    points = averaged([(step, float(step)) for step in range(1, 8)], most=3)  # threes: 1-3, 4-6, 7
    assert [(p.x, p.y) for p in points] == [(2, 2), (5, 5), (7, 7)]
    assert points[0].note == "steps 1 to 3: 2"
    assert points[2].note == "step 7: 7"
    assert [p.y for p in averaged([(1, 0.5), (2, 0.25)])] == [0.5, 0.25]


def test_runs_are_drawn_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = training(tmp_path / "a.sqlite", [0.0, 1.0, 3.0]), training(tmp_path / "b.sqlite", [2.0], "other")
    out = tmp_path / "curves.svg"
    assert main(["report", str(a), str(b), "--out", str(out)]) == 0
    drawn = ElementTree.fromstring(out.read_text())
    words = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"held-out EM, by step", "reward of the rollouts, by step", "recipe=peco", "recipe=other"} <= set(words)
    assert "kl, by step" not in words
    dots = list(drawn.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == 3 + 1 + 2  # rewards of both, the held-out EM of both
    capsys.readouterr()
    assert main(["report", str(a), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["a"]["kl"] == [[1, 0.0], [2, 0.1], [3, 0.3]]
    assert main(["report", str(a), "--metric", "kl", "--out", str(out)]) == 0
    assert "kl, by step" in out.read_text()


def test_what_cannot_be_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = training(tmp_path / "a.sqlite", [0.0])
    with pytest.raises(DataError, match="no training figures yet"):
        Curves([training(tmp_path / "empty.sqlite", [])])
    for arguments, said in (
        ([str(a), str(make_run(tmp_path, questions=2, k=3))], "report them apart"),
        ([str(a), "--metric", "kll"], "no run has a figure 'kll'"),
        ([str(a), "--latex"], "drawn as curves"),
    ):
        assert main(["report", *arguments, "--out", str(tmp_path / "no.svg")]) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "no.svg").exists()
