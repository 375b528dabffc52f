"""`subquest eval`: the table, resuming, filters, and bad input."""

import json
from pathlib import Path

import pytest

from subquest.cli import main


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
