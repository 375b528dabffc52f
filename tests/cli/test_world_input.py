"""`subquest world` on folders and files that are not as it writes them: status 2 and a word on what is wrong."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert main(["world", "make", "--articles", "160", "--questions", "4", "--out", "w"]) == 0
    return tmp_path / "w"


@pytest.mark.parametrize(
    ("action", "file", "key", "value"),
    [
        ("check", "facts.jsonl", "id", None),
        ("check", "facts.jsonl", "facts", "x"),
        ("check", "corpus.jsonl", "text", None),
        ("check", "corpus.jsonl", "title", []),
        ("sample", "questions.jsonl", "decomposition", None),
        ("sample", "corpus.jsonl", "title", ...),
        ("site", "facts.jsonl", "aliases", ...),
        ("plans", "questions.jsonl", "question", 5),
    ],
)
def test_rows_of_another_shape(
    action: str, file: str, key: str, value: Any, world: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others = (world / file).read_text().splitlines()
    row = {**json.loads(first), key: value}
    if value is ...:
        del row[key]
    (world / file).write_text("\n".join([json.dumps(row), *others]) + "\n")
    options = {"sample": ["-n", "160"], "site": ["--write", "site"]}.get(action, [])
    place = "w/questions.jsonl" if action == "plans" else "w"
    status = main(["world", action, place, *options])
    error = capsys.readouterr().err
    assert (status, error.count("\n")) == (2, 1) if status != 1 else "problem" in error
    assert "Traceback" not in error


@pytest.mark.parametrize("content", [b"\xff\xfe\x00binary", b"[1, 2]\n", b"5\n"])
def test_files_that_hold_no_lines(content: bytes, world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (world / "questions.jsonl").write_bytes(content)
    for command in (["plans", "w/questions.jsonl"], ["check", "w"], ["sample", "w"]):
        assert main(["world", *command]) == 2, command
        assert "questions.jsonl" in capsys.readouterr().err


def test_a_packed_file_that_is_cut_off(world: Path, capsys: pytest.CaptureFixture[str]) -> None:
    packed = gzip.compress((world / "questions.jsonl").read_bytes())
    for content in (packed[:200], b"not packed at all", packed[:50] + b"x" * 300):
        (world / "q.jsonl.gz").write_bytes(content)
        assert main(["world", "plans", "w/q.jsonl.gz"]) == 2
        assert "q.jsonl.gz: not readable" in capsys.readouterr().err
