"""Looking back: runs compared, curves, tokens, and the other attempts at a question."""

import json
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.evaluate.statistics import compare
from subquest.record import Episode, Question, Segment, Trajectory
from subquest.runs import RunStore
from subquest.serve.episode_view import byte_alphabet, pieces_of_run, token_texts
from subquest.serve.settings import Settings

from .conftest import Start

QUESTIONS = [Question(f"q{n}", f"Question {n}?", ("yes",), dataset="small") for n in range(12)]


def evaluated(folder: Path, name: str, right: list[int]) -> None:
    with RunStore.create(folder / f"{name}.sqlite") as store:
        for place, question in enumerate(QUESTIONS):
            em = float(place in right)
            episode = Episode(f"{name}-{place}", question, "coda", "m", answer="yes" if em else "no")
            store.add_episode(episode).wait()
            store.add_scores(episode.id, {"em": em, "f1": em}).wait()


def test_runs_are_compared_question_by_question(start: Start, settings: Settings) -> None:
    settings.runs.mkdir()
    evaluated(settings.runs, "old", [0, 1, 2])
    evaluated(settings.runs, "new", [0, 1, 2, 3, 4, 5, 6, 7, 8])
    with start() as server, server.client() as client:
        found = client.get("/api/compare?runs=old,new").json()
        for wrong in ("", "old,nowhere"):
            assert client.get(f"/api/compare?runs={wrong}").status_code in (400, 404)
    assert found["sides"] == ["old · coda", "new · coda"]
    assert found["table"]["small"]["new · coda"]["em"] == 0.75
    em = next(test for test in found["paired"] if test["metric"] == "em")
    expected = compare([1.0] * 9 + [0.0] * 3, [1.0] * 3 + [0.0] * 9)
    assert (em["a"], em["b"], em["n"]) == ("new · coda", "old · coda", 12)
    assert em["difference"] == pytest.approx(0.5)
    assert em["mcnemar"] == pytest.approx(2 * 0.5**6)  # six questions, all won by the same side
    assert (em["low"], em["high"], em["p"]) == pytest.approx((expected.low, expected.high, expected.p))
    assert len(found["differences"]) == 6
    first = found["differences"][0]["sides"]
    assert (first["old · coda"]["em"], first["new · coda"]["em"]) == (0.0, 1.0)


def test_what_json_has_not_can_be_looked_at(start: Start, settings: Settings, tmp_path: Path) -> None:
    """Halves of signs and huge numbers of a question file stand in runs, and on no page's way."""
    settings.runs.mkdir()
    asked = Question("q", "Which?", ("Kestel \ud83d",), meta={"number": 2**80, "gap": float("nan")})
    with RunStore.create(settings.runs / "odd.sqlite") as store:
        store.add_episode(Episode("one", asked, "coda", "m", answer="Kestel"), scores={"em": 0.0}).wait()
    with start() as server, server.client() as client:
        assert client.get("/api/runs/odd/episodes").json()["episodes"][0]["expected"] == ["Kestel \ud83d"]
        assert client.get("/api/runs/odd/episodes/one").json()["question"]["meta"] == {"number": 2**80, "gap": None}
        assert client.get("/api/runs/odd/episodes/one/html").status_code == 200
    assert main(["report", str(settings.runs / "odd.sqlite"), "--out", str(tmp_path / "odd.html")]) == 0


def test_curves_grow(start: Start, settings: Settings) -> None:
    settings.runs.mkdir()
    with RunStore.create(settings.runs / "train.sqlite") as store, start() as server, server.client() as client:
        store.add_metrics(1, {"reward": 0.1}).wait()
        assert client.get("/api/runs/train/curves").json()["curves"] == {"reward": [[1, 0.1]]}
        store.add_metrics(2, {"reward": 0.2, "kl": 0.0}).wait()
        assert client.get("/api/runs/train/curves?after=1").json()["curves"] == {"reward": [[2, 0.2]], "kl": [[2, 0.0]]}


def trained(name: str, attempt: int, reward: float) -> Episode:
    segments = (
        Segment("prompt", "Who?", (1, 2)),
        Segment("agent", "né", (3, 4, 5), (-0.5, -1.25, -2.0), policy=7),
        Segment("env", "x", (6,)),
    )
    trajectory = Trajectory("1", "planner", "Who?", segments=segments)
    return Episode(name, QUESTIONS[0], "coda", "tiny", (trajectory,), rewards={"answer": reward})


def test_tokens_and_siblings_of_a_training_group(start: Start, settings: Settings) -> None:
    folder = settings.runs / "train"
    folder.mkdir(parents=True)
    spelled = {byte: character for character, byte in byte_alphabet().items()}
    pieces = [b"n", b"\xc3", b"\xa9"]
    vocabulary = {"".join(spelled[b] for b in piece): 3 + place for place, piece in enumerate(pieces)}
    described: dict[str, Any] = {"model": {"vocab": vocabulary}, "added_tokens": [{"id": 1, "content": "<s>"}]}
    (folder / "tokenizer.json").write_text(json.dumps(described))
    with RunStore.create(folder / "run.sqlite") as store:
        for attempt, name, reward in ((0, "other", 0.0), (1, "a", 1.0), (1, "b", 0.0)):
            store.add_episode(trained(name, attempt, reward), attempt=attempt).wait()
    with start() as server, server.client() as client:
        view = client.get("/api/runs/train/episodes/a/tokens").json()
        siblings = client.get("/api/runs/train/episodes/a/siblings").json()["siblings"]
        assert client.get("/api/runs/train/episodes/z/tokens").status_code == 404
        assert client.get("/api/runs/train/episodes/z/siblings").status_code == 404
    assert view["rewards"] == {"answer": 1.0}
    (trajectory,) = view["trajectories"]
    assert (trajectory["tokens"], trajectory["written"]) == (6, 3)
    prompt, agent, env = trajectory["segments"]
    assert (prompt["mask"], prompt["texts"], prompt["logprobs"]) == (0, ["<s>", "[2]"], None)
    assert (agent["mask"], agent["texts"], agent["policy"]) == (1, ["n", "", "é"], 7)
    assert agent["logprobs"] == [-0.5, -1.25, -2.0]
    assert env["texts"] == ["[6]"]
    assert [(s["id"], s["group"]) for s in siblings] == [("other", False), ("a", True), ("b", True)]


def test_text_of_tokens_that_split_characters() -> None:
    pieces = [b"a", b"\xf0\x9f", b"\x98\x80b", b"\xff", b"c"]
    assert token_texts(range(5), lambda n: pieces[n]) == ["a", "", "😀b", "�", "c"]


def test_a_run_without_a_vocabulary_shows_numbers(tmp_path: Path) -> None:
    assert pieces_of_run(tmp_path / "run.sqlite") is None
    (tmp_path / "recipe.json").write_text('{"model": {"path": "random:qwen3"}}')
    assert pieces_of_run(tmp_path / "run.sqlite") is None


def test_a_page_of_a_long_run_is_read_alone(tmp_path: Path) -> None:
    evaluated(tmp_path, "long", [1, 5])
    with RunStore.open(tmp_path / "long.sqlite") as store:
        total, page = store.latest(offset=2, limit=3)
        assert (total, [s.id for s in page]) == (12, ["long-9", "long-8", "long-7"])
        assert store.latest(system="coda", limit=1)[0] == 12
        assert store.latest(system="nobody") == (0, [])
        assert store.latest(ending="failed") == (0, [])
        everything = {s.id: s for s in store.summaries()}
        assert all(everything[s.id] == s for s in page)
