"""Old conversations of a server are removed, whole, and their space is given back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from operator import methodcaller
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.codec import to_dict
from subquest.errors import UsageError
from subquest.record import Question
from subquest.runs import RunStore
from subquest.runs.prune import prune_run
from subquest.runs.salvage import verify_run
from subquest.runs.writer import Writer

from .samples import episode

DAY = 86_400.0
NOW = time.time()


def asked(path: Path, answered: Mapping[str, float | None], **links: Mapping[str, str]) -> None:
    """The run of a server; for each question when it was answered, in days ago, or None if it never was."""
    RunStore.create(path, settings={"kind": "server"}).close()
    writer = Writer(path)
    for number, (name, days) in enumerate(answered.items()):
        made = episode(name, number)
        question = Question(name, made.question.question, dataset="asked", meta=dict(links.get(name, {})))
        writer.put(methodcaller("question", to_dict(question))).wait()
        if days is None:
            writer.put(methodcaller("events", name, [to_dict(event) for event in made.events])).wait()
        else:
            record = to_dict(replace(made, question=question))
            writer.put(methodcaller("episode", record, 0, NOW - days * DAY, {"em": 1.0})).wait()
    writer.close()


def test_conversations_go_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "asked.sqlite"
    asked(
        path,
        {"old": 50, "old-2": 49, "thread": 40, "lost": None, "beside": 39, "thread-2": 5, "new": 1, "cut": None},
        **{"old-2": {"follows": "old"}, "thread-2": {"follows": "thread"}, "beside": {"beside": "thread"}},
    )
    with RunStore.open(path) as run:
        before = {found.id: found for found in run.episodes()}
    done = prune_run(path, NOW - 30 * DAY)
    assert (done.removed, done.kept) == (3, 5)  # old, old-2 and lost, which nobody answered when they were asked
    assert verify_run(path).sound
    with RunStore.open(path, write=True) as run:
        kept = {found.id: found for found in run.episodes()}
        assert set(kept) == {"thread", "beside", "thread-2", "new"}
        assert all(found == before[name] for name, found in kept.items())
        assert (run.interrupted(), run.settings) == (["cut"], {"kind": "server"})
        assert {score.episode for score in run.scores()} == set(kept)
        run.add_episode(episode("another", 3)).wait()  # it can go on
        assert run.episode("another").answer == episode("another", 3).answer
    assert prune_run(path, NOW - 30 * DAY).removed == 0


def test_space_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "asked.sqlite"
    asked(path, {f"q{number}": 60.0 if number else 1.0 for number in range(120)})
    size = path.stat().st_size
    done = prune_run(path, NOW - 30 * DAY)
    assert (done.removed, done.kept) == (119, 1)
    assert path.stat().st_size < size / 2
    assert done.bytes == size - path.stat().st_size
    assert not [found for found in tmp_path.iterdir() if found != path]


def test_a_run_in_use_and_other_runs_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, other = tmp_path / "asked.sqlite", tmp_path / "eval.sqlite"
    asked(path, {"old": 50, "new": 1})
    with RunStore.open(path, write=True), pytest.raises(UsageError, match="stop the server first"):
        prune_run(path, NOW)
    with RunStore.open(path) as run:
        assert run.counts()["episodes"] == 2
    with RunStore.create(other, settings={"model": "small"}) as run:
        run.add_episode(episode("one")).wait()
    assert main(["runs", "prune", str(other), "--days", "1"]) == 2
    assert "is not the run of a server" in capsys.readouterr().err
    assert main(["runs", "prune", str(path), "--days", "0"]) == 2
    assert main(["runs", "prune", str(tmp_path / "none.sqlite"), "--days", "1"]) == 2
    capsys.readouterr()
    assert main(["runs", "prune", str(path), "--days", "30"]) == 0
    assert "1 question removed, 1 kept" in capsys.readouterr().out
