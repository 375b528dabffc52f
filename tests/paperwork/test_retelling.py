"""Worlds in other words: what is kept holds every fact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.paperwork.fact_check import DIFFERENT, LOST, NAME, NUMBER
from subquest.paperwork.retelling import RETELL, Retold, retell
from subquest.paperwork.writing import REWORD
from subquest.process import run_sync
from subquest.runtime.statements import sentences
from subquest.worlds import Recipe, write_world
from subquest.worlds.checker import check_world
from subquest.worlds.world_folder import read_articles, read_questions


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    write_world(folder, Recipe(seed=3, articles=160, questions=20, hops=(1, 2)))
    return folder


def backwards(user: str) -> str:
    """The article with its sentences in the opposite order, each a little longer."""
    body = user.split("\n\n", 2)[2]
    told = reversed([body[start:end].strip() for start, end in sentences(body)])
    return " ".join(f"{sentence.rstrip('.')}, as is well known." for sentence in told)


def told(world: Path, out: Path, spoil: Callable[[str], str] = str, *, knows: bool = True) -> Retold:
    def reply(context: Context) -> str:
        system, user = context.messages[0].content, context.messages[-1].content
        if system == RETELL:
            return spoil(backwards(user))
        if system == REWORD:
            return f"Tell me, please: {user}"
        gold = {f"Tell me, please: {q.question}": q.answers[0] for q in read_questions(world)}
        return f"<answer>{gold[user.rpartition('Question: ')[2]] if knows else 'None'}</answer>"

    return run_sync(retell(ScriptedEngine(reply), world, out))


def test_a_retold_world_is_sound(world: Path, tmp_path: Path) -> None:
    made = told(world, tmp_path)
    assert made.articles > 100
    assert made.questions == 20
    report = check_world(tmp_path)
    assert report.sound, report.problems
    assert report.facts == check_world(world).facts
    new, old = ([a.text for a in read_articles(folder)] for folder in (tmp_path, world))
    assert sum(a != b for a, b in zip(new, old, strict=True)) == made.articles


def test_a_question_that_is_not_understood_stays_as_it_was(world: Path, tmp_path: Path) -> None:
    made = told(world, tmp_path, knows=False)
    assert made.questions == 0
    assert made.refused[f"question: {DIFFERENT}"] == 20
    assert (tmp_path / "questions.jsonl").read_bytes() == (world / "questions.jsonl").read_bytes()


def test_a_fact_in_other_capitals_is_lost(world: Path, tmp_path: Path) -> None:
    """Names are compared as they are written: the checker of worlds does so too."""
    made = told(world, tmp_path, str.lower)
    assert made.articles == 0
    assert check_world(tmp_path).sound


def test_a_copy_is_no_retelling(world: Path, tmp_path: Path) -> None:
    made = told(world, tmp_path, lambda text: text.replace(", as is well known", ""))
    assert made.articles == 0
    assert made.refused["article: unchanged"] > 100


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda text: f"{text} It has 7,777 seats.", NUMBER),
        (lambda text: f"{text} This pleased Alice Johnson.", NAME),
        (lambda text: text[len(text) // 3 :], LOST),
    ],
)
def test_what_adds_or_loses_something_stays_as_it_was(
    spoil: Callable[[str], str], reason: str, world: Path, tmp_path: Path
) -> None:
    made = told(world, tmp_path, spoil)
    assert made.articles < 60
    assert made.refused[f"article: {reason}"] > 60
    assert check_world(tmp_path).sound


def test_the_command(world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.jsonl"
    script.write_text("\n".join([json.dumps("nothing useful")] * 400))
    model = f"scripted:{script}"
    out = tmp_path / "out"
    assert main(["world", "retell", str(world), "--out", str(out), "--model", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["articles"] == 0
    assert (out / "corpus.jsonl").read_bytes() == (world / "corpus.jsonl").read_bytes()
    assert main(["world", "retell", str(tmp_path), "--out", str(out), "--model", model]) == 2
    assert "world.json" in capsys.readouterr().err
    assert main(["world", "retell", str(world), "--out", str(world), "--model", model]) == 2
