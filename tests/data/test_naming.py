from pathlib import Path

import pytest

from subquest.data.naming import named


def test_sets_have_the_names_of_their_files_and_of_the_registry(tmp_path: Path) -> None:
    (tmp_path / "world").mkdir()
    (tmp_path / "mine.jsonl.gz").touch()
    sources = ["hotpotqa:dev", str(tmp_path / "mine.jsonl.gz"), str(tmp_path / "world")]
    assert named(sources) == dict(zip(("hotpotqa", "mine", "world"), sources, strict=True))


def test_sets_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("a", "b", "c/b"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "questions.jsonl").touch()
    (tmp_path / "b" / "questions.csv").touch()
    assert named(["a/questions.jsonl", "b/questions.jsonl"]) == {
        "a/questions": "a/questions.jsonl",
        "b/questions": "b/questions.jsonl",
    }
    assert len(named(["a/questions.jsonl", "b/questions.jsonl", "b/questions.csv", "c/b/questions.jsonl"])) == 4
    assert named(["hotpotqa:dev", "hotpotqa", "nq"]) == {
        "hotpotqa:dev": "hotpotqa:dev",
        "hotpotqa": "hotpotqa",
        "nq": "nq",
    }
    assert named(["a", "./a", str(tmp_path / "a")]) == {"a": "a"}  # one folder, however it is written
    assert named(["nq", "nq"]) == {"nq": "nq"}
