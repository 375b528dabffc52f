"""`subquest bench support`: the shares of right and wrong answers it calls supported, for two questions."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main

PASSAGES = [
    {"id": "d1", "title": "Bridge", "text": "The Orvane Bridge was designed by Mila Torrun. Later Odo Brask drew it."},
    {"id": "d2", "title": "Museum", "text": "The Varn Museum was founded by Ilse Quent. Tam Roke once slept there."},
]
QUESTIONS = [
    {"id": "q1", "question": "Who designed the Orvane Bridge?", "answers": ["Mila Torrun"], "supporting_ids": ["d1"]},
    {"id": "q2", "question": "Who founded the Varn Museum?", "answers": ["Ilse Quent"], "supporting_ids": ["d2"]},
]
WAYS = ("one call, single", "read, single", "notes, single")


def put(folder: Path, questions: list[dict[str, Any]], passages: list[dict[str, Any]]) -> list[str]:
    """Writes the files of a question set; gives the options that read them."""
    for name, rows in {"squad_dev": questions, "squad_train_corpus": passages}.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return ["--data", str(folder), "--split", "dev", "--sets", "squad"]


def test_right_answers_are_supported_and_wrong_ones_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = put(tmp_path, [{**question, "hops": 1} for question in QUESTIONS], PASSAGES)
    assert main(["bench", "--json", "support", *options]) == 0
    told = capsys.readouterr()
    found = json.loads(told.out)
    rows = found["figures"]["squad"]
    assert tuple(rows) == WAYS, "no question has a plan"
    assert found["figures"]["all"] == rows
    for way in WAYS:
        assert (rows[way]["right"], rows[way]["n right"]) == (1.0, 2)
        assert rows[way]["n same"] == rows[way]["n other"] == 4, "the two other names of the same form in each passage"
        assert (rows[way]["same"], rows[way]["other"]) == (0.0, 0.0)
        assert found["ratios"][f"{way}, right"] == 1.0
    assert "100.0% of 2 0.0% of 4 0.0% of 4" in " ".join(told.err.split())


def test_an_answer_that_its_passage_does_not_state_counts_as_unsupported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = [{**question, "answers": ["Odo Brask" if question["id"] == "q1" else "Tam Roke"]} for question in QUESTIONS]
    assert main(["bench", "support", *put(tmp_path, wrong, PASSAGES), "--show", "1"]) == 0
    told = capsys.readouterr()
    assert "one call, bridge, right: 0\n" in told.out
    assert "one call / bridge / right: not supported: Who " in told.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "no questions: give --data"),
        (["--data", "nowhere"], "there is no folder nowhere"),
        (["--organisations", "nowhere"], "there is no file nowhere"),
        (["--data", "."], "no questions: give --data"),
    ],
)
def test_nothing_to_read(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "support", *options]) == 2
    assert message in capsys.readouterr().err


def test_questions_without_their_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = put(tmp_path, QUESTIONS, PASSAGES)
    (tmp_path / "squad_train_corpus.jsonl.gz").unlink()
    assert main(["bench", "support", *options]) == 2
    assert "squad_train_corpus.jsonl.gz" in capsys.readouterr().err
