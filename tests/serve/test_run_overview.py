"""Runs at a glance, and an evaluation question by question, over HTTP."""

import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from subquest.evaluate.statistics import interval
from subquest.events import Event
from subquest.record import Episode, Question
from subquest.runs import RunStore
from subquest.serve.settings import Settings

from .conftest import Start

RIGHT = {"coda": {0, 1, 2, 3, 4}, "decor": {0, 1, 5}}
UNSUPPORTED = {("coda", 0), ("coda", 6)}
PARTS = ("coda", 1)


def compared(folder: Path, name: str = "both", *, systems: tuple[str, ...] = ("coda", "decor"), last: int = 8) -> None:
    """An evaluation of systems on eight questions, of which the last system answers so many."""
    folder.mkdir(exist_ok=True)
    with RunStore.create(folder / f"{name}.sqlite", settings={"model": "smollm2", "seed": 0}) as store:
        for system in systems:
            for place in range(8 if system != systems[-1] else last):
                question = Question(f"q{place}", f"Question {place}?", ("yes",), dataset="odd" if place % 2 else "even")
                em = float(place in RIGHT[system])
                failed = (system, place) == ("decor", 7)
                answer, ending = ("", "failed") if failed else ("yes" if em else "no", "answered")
                identifier = f"{name}-{system}-{place}"
                episode = Episode(identifier, question, system, "smollm2", answer=answer, stop_reason=ending)
                store.add_episode(episode).wait()
                parts = (system, place) == PARTS
                supported = (system, place) not in UNSUPPORTED and not parts
                scores = {"em": em, "f1": em, "supported": float(supported), "parts_supported": float(parts)}
                store.add_scores(episode.id, scores).wait()


def long_ago(path: Path) -> None:
    then = time.time() - 10_000
    for place in (path, path.with_name(f"{path.name}-wal")):
        if place.exists():
            os.utime(place, (then, then))


def overviews(client: Any) -> dict[str, dict[str, Any]]:
    return {run["name"]: run for run in client.get("/api/runs").json()["runs"]}


def test_an_evaluation_in_a_line(start: Start, settings: Settings) -> None:
    compared(settings.runs)
    with start() as server, server.client() as client:
        run = overviews(client)["both"]
        assert (run["kind"], run["data"], run["systems"], run["models"]) == (
            "evaluation", ["even", "odd"], ["coda", "decor"], ["smollm2"],
        )  # fmt: skip
        expected = interval([1.0] * 5 + [0.0] * 3)
        score = run["score"]
        assert (score["metric"], score["system"], score["n"]) == ("em", "coda", 8)
        assert (score["value"], score["low"], score["high"]) == pytest.approx(expected)
        assert run["status"] == "finished"
        with RunStore.open(settings.runs / "both.sqlite", write=True) as store:
            store.add_scores("both-coda-7", {"em": 1.0}).wait()
        assert overviews(client)["both"]["score"]["value"] == pytest.approx(6 / 8)  # what was remembered is not stale


def test_whether_a_run_is_over(start: Start, settings: Settings) -> None:
    compared(settings.runs, "partial", last=5)
    compared(settings.runs, "killed")
    with RunStore.open(settings.runs / "killed.sqlite", write=True) as store:
        store.add_event("killed-9", Event(0, "start", 0.0, data={"question": "Question 9?"}))
        store.flush()
    for name, steps in (("trained", 3), ("learning", 9)):
        folder = settings.runs / name
        folder.mkdir()
        (folder / "recipe.json").write_text(json.dumps({"optimiser": {"steps": steps}, "model": {"path": "x/tiny"}}))
        with RunStore.create(folder / "run.sqlite", settings={"recipe": "peco", "kind": "rl"}) as store:
            for step in range(1, 4):
                store.add_metrics(step, {"reward": 0.1 * step, "dev_em": 0.2 * step, "kl": 0.01}).wait()
    names = ("partial", "killed", "learning/run")
    with ExitStack() as writers, start() as server, server.client() as client:
        found = {name: run["status"] for name, run in overviews(client).items()}
        assert found == {  # nobody writes them any more
            "partial": "stopped", "killed": "stopped", "trained": "finished", "learning": "stopped", "asked": "open",
        }  # fmt: skip
        for name in names:
            writer = writers.enter_context(RunStore.open(settings.runs / f"{name}.sqlite", write=True))
            writer.add_event("again", Event(0, "start", 0.0, data={"question": "Question 9?"}))
            writer.flush()
        found = {name: run["status"] for name, run in overviews(client).items()}
        assert {found[name] for name in ("partial", "killed", "learning")} == {"running"}
        for name in names:
            long_ago(settings.runs / f"{name}.sqlite")
        every = overviews(client)
        assert {every[name]["status"] for name in ("partial", "killed", "learning")} == {"stopped"}
        learning = every["learning"]
        assert (learning["kind"], learning["score"]["metric"]) == ("training", "dev_em")
        assert learning["score"]["value"] == pytest.approx(0.6)
        assert (learning["step"], learning["steps"], learning["models"]) == (3, 9, ["tiny"])


def test_a_damaged_run_does_not_hide_the_others(start: Start, settings: Settings) -> None:
    compared(settings.runs)
    (settings.runs / "torn.sqlite").write_bytes(b"SQLite format 3\0" + bytes(200))
    with start() as server, server.client() as client:
        found = overviews(client)
    assert found["both"]["status"] == "finished"
    assert found["torn"]["error"]


def test_an_evaluation_question_by_question(start: Start, settings: Settings) -> None:
    compared(settings.runs)
    with start() as server, server.client() as client:

        def matrix(**query: Any) -> dict[str, Any]:
            found: dict[str, Any] = client.get("/api/runs/both/questions", params=query).json()
            return found

        every = matrix()
        assert (every["systems"], every["datasets"], every["total"]) == (["coda", "decor"], ["even", "odd"], 8)
        assert every["counts"] == {"": 8, "wrong": 6, "differs": 4}
        by_id = {row["id"]: row for row in every["rows"]}
        first = by_id["q0"]["cells"]
        assert (first["coda"]["verdict"], first["coda"]["unsupported"]) == ("right", True)
        assert (first["decor"]["verdict"], first["decor"]["unsupported"]) == ("right", False)
        parts = by_id["q1"]["cells"]["coda"]
        assert (parts["unsupported"], parts["parts"]) == (False, True)
        assert by_id["q7"]["cells"]["decor"]["verdict"] == "failed"
        assert by_id["q6"]["cells"]["coda"] | {"f1": 0} == {
            "episode": "both-coda-6", "answer": "no", "verdict": "wrong", "unsupported": True, "parts": False, "f1": 0,
        }  # fmt: skip
        assert {row["id"] for row in matrix(only="wrong")["rows"]} == {"q2", "q3", "q4", "q5", "q6", "q7"}
        assert {row["id"] for row in matrix(only="differs")["rows"]} == {"q2", "q3", "q4", "q5"}
        assert {row["id"] for row in matrix(only="differs", dataset="odd")["rows"]} == {"q3", "q5"}
        assert [row["id"] for row in matrix(text="QUESTION 6")["rows"]] == ["q6"]
        assert len(matrix(offset=6, limit=5)["rows"]) == 2
        assert client.get("/api/runs/nowhere/questions").status_code == 404
        assert client.get("/api/runs/both/questions?only=all").status_code == 400
