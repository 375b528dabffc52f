"""`subquest bench two-hop`: its figures, computed by hand for a scripted model over two files."""

import json
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

from subquest.cli import main
from tests.readers.made import put

REPLIES = [
    ("planner", "<task>Who designed the Orvane Bridge?</task>"),
    ("executor", "<search>Orvane Bridge designer</search>"),
    ("executor", "<result>Mila Torrun</result>"),
    ("planner", "<answer>Kestel</answer>"),
]
QUESTIONS = [
    {"id": "one", "question": "Who designed the Orvane Bridge?", "answers": ["Mila Torrun"], "hops": 1},
    {"id": "two", "question": "Where was the designer of the Orvane Bridge born?", "answers": ["Kestel"], "hops": 2},
    {"id": "three", "question": "When was the designer of the Orvane Bridge born?", "answers": ["1871"], "hops": 2},
]


def test_right_answers_seconds_and_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = {
        "questions.jsonl": QUESTIONS,
        "replies.jsonl": [{"role": r, "reply": text} for r, text in REPLIES],
        "silent.jsonl": [{"role": "planner", "reply": "<answer></answer>"}],
    }
    for name, rows in lines.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    docs = put(tmp_path / "docs", {"bridge.md": "The Orvane Bridge was designed by Mila Torrun.\n"})
    model, silent = (f"scripted:{tmp_path / name}.jsonl" for name in ("replies", "silent"))
    options = ["--folder", str(docs), "--questions", str(tmp_path / "questions.jsonl")]
    options += ["--models", f"{model},{silent}", "--systems", "coda"]
    assert main(["bench", "--json", "two-hop", *options]) == 0
    told = capsys.readouterr()
    figures = json.loads(told.out)["figures"]
    row, quiet = (figures[f"{name}, coda"] for name in (model, silent))
    assert (quiet["n"], quiet["right"]) == (2, 0), "a question without an answer counts"
    assert (row["n"], row["right"], row["calls"]) == (2, 1, 4), "the question with one hop is not asked"
    assert [list(roles) for roles in row["roles"]] == [["planner", "executor"]] * 2
    assert row["wrote"] == sum(role["wrote"] for role in row["roles"][0].values()) > 0
    assert min(row["cold cpu"], row["cpu"], row["seconds"]) > 0
    assert "Kestel: wrong (1871)" in told.err
    assert "only on an idle machine" in told.err


def test_other_documents_need_questions_about_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "two-hop", "--folder", str(tmp_path)]) == 2
    assert "--folder needs --questions" in capsys.readouterr().err
