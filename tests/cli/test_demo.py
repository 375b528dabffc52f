"""`subquest demo` says plainly what was right, what was wrong, and how long it took."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.cli.demo import OFFICE
from subquest.engine.scripted import ScriptedEngine
from subquest.retrieval import Index
from subquest.worlds import make_world

WORLD = make_world(seed=2026, articles=240, questions=8, split="test", hops=(2, 3))
GOLD = {question.question: question.answers[0] for question in WORLD.questions}
GOLD |= {question: answers[0] for question, answers in OFFICE.items()}


class Knowing(ScriptedEngine):
    """Answers every question but the second from its knowledge."""

    adapter = None

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, context: Any) -> str:
        question = context.messages[1].content.removeprefix("Question: ")
        known = question != WORLD.questions[1].question
        return f"<answer>{GOLD[question] if known else 'the moon'}</answer>"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("subquest.embedded", Knowing)
    return tmp_path


def test_right_and_wrong_are_told_apart(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out, err = capsys.readouterr()
    first, second, _ = WORLD.questions[:3]
    assert "4 of 5 right in " in out
    lines = [line.strip() for line in out.splitlines()]
    assert f"right  {first.question}" in lines
    assert f"answered: {first.answers[0]}" in lines
    assert lines[lines.index(f"wrong  {second.question}") + 1] == (
        f"answered: the moon; the right answer is {second.answers[0]}"
    )
    assert "is often wrong" in out
    assert err.count("  right (") == 4
    assert f"  wrong: the answer is {second.answers[0]} (" in err
    assert "no trained adapter" in err
    assert (place / "demo" / "docs.sq").is_dir()
    for question, answers in OFFICE.items():
        assert lines[lines.index(f"right  {question}") + 1] == f"answered: {answers[0]}"


def test_the_papers_hold_what_is_asked_about_them(place: Path) -> None:
    assert main(["demo", "--questions", "1"]) == 0
    index = Index.open(place / "demo" / "office.sq")
    for question, answers in OFFICE.items():
        (found,) = asyncio.run(index.retrieve([question], 20))
        assert any(answers[0] in hit.document.text for hit in found)
    index.close()


def test_the_command_that_is_suggested_is_one_that_runs(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = place / "bin" / "subquest"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program.with_name("python")))
    for path, shown in ((str(program.parent), "subquest"), ("", str(program))):
        monkeypatch.setenv("PATH", path)
        assert main(["demo", "--questions", "1", "--out", "d"]) == 0
        assert f'Ask your own: {shown} ask "..." --index d/docs.sq' in capsys.readouterr().out


def test_json(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json", "--questions", "2", "--out", "d"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["right"], found["n"]) == (3, 4)
    assert [row["right"] for row in found["questions"]] == [True, False, True, True]
    assert all(0 <= row["seconds"] <= found["seconds"] + 0.1 for row in found["questions"])
    assert found["questions"][1]["answer"] == "the moon"
    assert found["questions"][1]["expected"][0] == WORLD.questions[1].answers[0]


def test_no_questions_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--questions", "0"]) == 2
    assert "--questions 0: ask at least one" in capsys.readouterr().err
    assert not (place / "demo").exists()


def test_more_questions_than_the_world_has(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--questions", "1000000000"]) == 2
    assert "at most 1,000" in capsys.readouterr().err
    assert not list(place.iterdir())


def test_another_world_in_the_folder_of_a_demo(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--questions", "1"]) == 0
    assert main(["demo", "--questions", "1"]) == 0
