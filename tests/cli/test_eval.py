"""`subquest eval`: the table, resuming, filters, and bad input."""

import json
from pathlib import Path

import pytest

from subquest import Index
from subquest.cli import main
from subquest.record import Document


@pytest.fixture
def toy(place: Path) -> Path:
    rows = [
        {
            "id": f"q{i}",
            "question": f"Which city {i}?",
            "answers": ["Kestel" if i < 3 else "Other"],
            "hops": 1 + i % 3,
            "type": "bridge",
        }
        for i in range(6)
    ]
    (place / "toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (place / "answers.jsonl").write_text(
        "\n".join(json.dumps({"role": "planner", "reply": "<answer>Kestel</answer>"}) for _ in range(6))
    )
    return place


EVAL = ["eval", "toy.jsonl", "--model", "scripted:answers.jsonl", "--index", "docs.sq", "--out", "run", "--json"]


def test_table_and_resume(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "4"]) == 0
    cell = json.loads(capsys.readouterr().out)["toy"]["coda"]
    assert (cell["n"], cell["em"]) == (4, 0.75)
    assert main(EVAL) == 0
    out, err = capsys.readouterr()
    cell = json.loads(out)["toy"]["coda"]
    assert (cell["n"], cell["em"], cell["f1"], cell["cem"]) == (6, 0.5, 0.5, 0.5)
    assert "4 of 6 are done already" in err


def test_other_settings_cannot_resume_a_run(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "1"]) == 0
    assert main([*EVAL, "--temperature", "0.5"]) == 2
    assert "was begun with sampling" in capsys.readouterr().err


def test_filters_and_samples(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--filter", "hops>=2", "--filter", "type=bridge"]) == 0
    assert json.loads(capsys.readouterr().out)["toy"]["coda"]["n"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--filter", "hops"], "FIELD OPERATOR VALUE"),
        (["--filter", "hops>x"], "is a number"),
        (["--filter", "hops>9"], "no question passes"),
        (["--concurrency", "0"], "at least 1"),
    ],
)
def test_wrong_usage(toy: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main([*EVAL, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_questions_without_gold_answers_are_refused(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "open.jsonl").write_text('{"id": "1", "question": "Which?", "answers": []}')
    assert main(["eval", "open.jsonl", *EVAL[2:]]) == 2
    assert "no gold answer" in capsys.readouterr().err
    assert not (toy / "run").exists()


def test_judge(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (toy / "judge.jsonl").write_text("\n".join(['"yes"'] * 3 + ['"no"']))
    judged = [*EVAL, "--limit", "4", "--judge", "scripted:judge.jsonl"]
    assert main(judged) == 0
    out, err = capsys.readouterr()
    cell = json.loads(out)["toy"]["coda"]
    assert (cell["judge"], cell["judge_undecided"]) == (0.75, 0.0)
    assert "judge: 4 model calls" in err
    assert main(judged) == 0
    assert "judge: 0 model calls" in capsys.readouterr().err
    assert main([*judged, "--judge-instruction", "core"]) == 2
    assert "was begun with judge" in capsys.readouterr().err


def test_a_changed_index_cannot_resume_a_run(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*EVAL, "--limit", "1"]) == 0
    with Index.open(toy / "docs.sq") as index:
        index.add([Document("new", "New", "Something new.")])
    assert main([*EVAL, "--limit", "1"]) == 2
    assert "was begun with index_content" in capsys.readouterr().err


def test_a_world_brings_its_own_index(toy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = toy / "world"
    world.mkdir()
    (world / "questions.jsonl").write_text((toy / "toy.jsonl").read_text())
    (world / "corpus.jsonl").write_text('{"id": "1", "title": "Kestel", "text": "Kestel is a city."}\n')
    arguments = ["eval", "world", "--model", "scripted:answers.jsonl", "--out", "run"]
    assert main(arguments) == 0
    assert "making an index" in capsys.readouterr().err
    assert main(arguments) == 0
    out, err = capsys.readouterr()
    assert "making" not in err
    assert out.splitlines()[1].split()[:4] == ["world", "coda", "6", "0.500"]
