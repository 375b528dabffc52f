"""Questions written in each form and read back."""

import json
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.question_export import write_questions
from subquest.errors import UsageError
from subquest.record import Question, Step

QUESTIONS = [
    Question(
        "a/1",
        "Who built Orvane?",
        ("Mila Torrun", "M. Torrun"),
        dataset="toy",
        split="dev",
        hops=2,
        type="bridge",
        supporting_titles=("Orvane",),
        decomposition=(Step("Which bridge?", "Orvane"), Step("Who built #1?", "Mila Torrun")),
        level="hard",
        meta={"lang": "en"},
    ),
    Question("a/2", "東京は?", ("日本",), dataset="toy", split="dev"),
]


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("form", ["subquest", "flashrag"])
def test_everything_comes_back(tmp_path: Path, form: str, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    write_questions(QUESTIONS, tmp_path / f"out{ending}", form)
    assert read_questions(tmp_path / f"out{ending}") == QUESTIONS
    assert [p.name for p in tmp_path.iterdir()] == [f"out{ending}"]


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_verl_keeps_what_a_trainer_needs(tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    write_questions(QUESTIONS, tmp_path / f"out{ending}", "verl")
    back = read_questions(tmp_path / f"out{ending}")
    assert [(q.id, q.question, q.answers, q.dataset, q.split, q.hops) for q in back] == [
        (q.id, q.question, q.answers, q.dataset, q.split, q.hops) for q in QUESTIONS
    ]


def test_verl_row(tmp_path: Path) -> None:
    write_questions(QUESTIONS, tmp_path / "out.jsonl", "verl")
    row = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert row["prompt"] == [{"role": "user", "content": "Who built Orvane?"}]
    assert row["reward_model"] == {"style": "rule", "ground_truth": {"target": ["Mila Torrun", "M. Torrun"]}}
    assert row["extra_info"]["index"] == 0


@pytest.mark.parametrize(
    ("name", "form", "message"),
    [("out.xml", "verl", "known endings"), ("no/out.jsonl", "verl", "no folder"), ("out.jsonl", "x", "unknown form")],
)
def test_wrong_usage(tmp_path: Path, name: str, form: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        write_questions(QUESTIONS, tmp_path / name, form)
