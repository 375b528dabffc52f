"""`subquest bench excerpts`: its shares, worked out by hand for three questions over two passages."""

import gzip
import json
from pathlib import Path

import pytest

from subquest.cli import main

PASSAGES = [
    {
        "id": "d1",
        "title": "Orvane Bridge",
        "text": "The Orvane Bridge is made of stone. It is old. Mila Torrun designed the Orvane Bridge. Cars may pass.",
    },
    {"id": "d2", "title": "Mila Torrun", "text": "Mila Torrun built mills. She had no children. She was born in Varn."},
]
QUESTIONS = [
    {
        "id": "q1",
        "question": "Where was the designer of the Orvane Bridge born?",
        "answers": ["Varn"],
        "supporting_ids": ["d1", "d2"],
        "decomposition": [
            {"question": "Orvane Bridge >> designer", "answer": "Mila Torrun"},
            {"question": "#1 >> born in", "answer": "Varn"},
        ],
    },
    {"id": "q2", "question": "Is the Orvane Bridge old?", "answers": ["yes"], "supporting_ids": ["d1"]},
    {"id": "q3", "question": "Who owns the Orvane Bridge?", "answers": ["Odo Brask"], "supporting_ids": ["d1"]},
]


def put(folder: Path) -> list[str]:
    for name, rows in {"musique_dev": QUESTIONS, "musique_train_corpus": PASSAGES}.items():
        with gzip.open(folder / f"{name}.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return ["--data", str(folder), "--sets", "musique"]


def test_what_is_kept_and_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--json", "excerpts", *put(tmp_path), "-k", "1", "--tokens", "8,100"]) == 0
    told = capsys.readouterr()
    figures = json.loads(told.out)["figures"]
    assert {name: rows["100"]["n"] for name, rows in figures.items()} == {"musique, links": 1, "musique, steps": 2}, (
        "the first question finds the bridge alone, the second asks for yes, the third answer stands nowhere"
    )
    assert all(rows["100"] == {"n": rows["100"]["n"], "read": 1, "kept": 1, "head": 1} for rows in figures.values())
    steps = figures["musique, steps"]["8"]
    assert steps["kept"] == 0.5, "Mila Torrun designed it; who was born in Varn does not fit beside its sentence"
    assert steps["head"] == 0
    assert 0.2 < steps["read"] < 0.5
    assert "musique, steps (2)" in told.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", "many"], "--tokens many: give numbers of tokens"),
        (["--tokens", "100,0"], "--tokens 100,0: give numbers of tokens"),
        (["--split", "test"], "no question set of the split 'test'"),
    ],
)
def test_options_that_cannot_be_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert main(["bench", "excerpts", *put(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
