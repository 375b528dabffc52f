"""Arms over questions, end to end: the oracle in HiRA's seats, a tiny model, and what is not done twice."""

import math
from pathlib import Path

import pytest

from subquest.claims.book import Arm, Book, Source
from subquest.claims.engines import Setup
from subquest.claims.evaluate import evaluate, missing_in, parts_of, prepare
from subquest.claims.oracle import HiraOracle
from subquest.claims.results import Results
from subquest.engine.scripted import ScriptedEngine
from subquest.retrieval.index import Index
from subquest.systems.hira import HiRA
from subquest.systems.registry import get
from subquest.tools.sandbox import SandboxUnavailable, jail

WORLD = Source("world", "world:seed=7,articles=160,questions=10,split=test,hops=1+2+3")
TWO = Source("world", "world:seeds=7-8,articles=160,questions=2,split=test,hops=1")


def book(source: Source, *arms: Arm, folder: Path) -> Book:
    return Book({"world": source}, {a.id: a for a in arms}, {}, (), folder)


def setup(folder: Path, **changes: object) -> Setup:
    return Setup("random:llama", {}, folder / "cache", 8, 0.5, math.inf, "cpu")._replace(**changes)


@pytest.fixture
def asked(tmp_path: Path):
    (part,) = parts_of(WORLD, tmp_path)
    (tmp_path / "cache").mkdir()
    questions, place = prepare(part, tmp_path / "cache")
    with Index.open(place) as index:
        yield [q for q in questions if q.type != "temporal"], index


@pytest.mark.parametrize("system", ["hira", "webthinker", "react-tools"])
async def test_the_oracle_answers_what_search_can_find(asked, system: str) -> None:
    questions, index = asked
    agent = get(system)(ScriptedEngine(HiraOracle(questions)), index)
    episodes = [await agent.solve(q) for q in questions]
    right = [e.answer in e.question.answers for e in episodes]
    assert sum(right) >= len(right) - 1
    assert all(e.answer == "unknown" for e, r in zip(episodes, right, strict=True) if not r)  # it never guesses


@pytest.mark.parametrize(
    ("options", "answer"), [({"preset": "no-search"}, "unknown"), ({"subtasks": 1}, "unknown"), ({}, "gold")]
)
async def test_the_oracle_needs_the_parts(asked, options: dict, answer: str) -> None:
    questions, index = asked
    question = next(q for q in questions if len(q.decomposition) == 3 and q.answers[0] == q.decomposition[-1].answer)
    episode = await HiRA(ScriptedEngine(HiraOracle(questions)), index, **options).solve(question)
    assert episode.answer == (question.answers[0] if answer == "gold" else answer)


async def test_the_oracle_computes_by_code_alone(asked) -> None:
    try:
        jail.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))
    _, index = asked
    from subquest.worlds import make_world

    world = make_world(seed=7, articles=160, questions=20, split="test", types=("temporal",), hops=(2,))
    questions = [q for q in world.questions if q.answers[0].isdigit()][:3]
    oracle = ScriptedEngine(HiraOracle(questions))
    with_code = [await HiRA(oracle, index).solve(q) for q in questions]
    without = [await HiRA(oracle, index, preset="no-code").solve(q) for q in questions]
    assert any(e.answer in e.question.answers for e in with_code)
    assert {e.answer for e in without} == {"unknown"}


def test_what_is_answered_is_not_asked_again(tmp_path: Path) -> None:
    arm = Arm("rag@none", "rag", {"": "none"})
    said: list[str] = []
    results = Results(tmp_path / "results")
    made = book(TWO, arm, folder=tmp_path)
    assert evaluate(made, [arm], results, setup(tmp_path), data=tmp_path, say=said.append) == 0
    assert said[0].startswith("2 units of 1 arms")
    stored = results.arm(arm)
    assert stored is not None
    assert set(stored.units) == {"world-1", "world-2"}
    assert {"em", "f1", "cem", "judge"} == set(stored.units["world-1"].values)
    assert stored.units["world-1"].means["searches"] == 1
    said.clear()
    assert evaluate(made, [arm], Results(tmp_path / "results"), setup(tmp_path), data=tmp_path, say=said.append) == 0
    assert said == ["0 units of 1 arms in 0 jobs"]


def test_what_does_not_fit_into_the_time_is_left(tmp_path: Path) -> None:
    arm = Arm("rag@none", "rag", {"": "none"})
    results = Results(tmp_path / "results")
    late = setup(tmp_path, until=0.0)
    assert evaluate(book(TWO, arm, folder=tmp_path), [arm], results, late, data=tmp_path) == 2
    assert results.arm(arm) is None


def test_missing_adapters_are_named() -> None:
    mixed = Arm("mixed", "apex", {"planner": "apex-plan", "": "none"})
    assert missing_in(mixed, {"sft": "x"}) == "apex-plan"
    assert missing_in(mixed, {"apex-plan": "x"}) == ""
    assert missing_in(Arm("hira@oracle", "hira", {"": "oracle"}), {}) == ""
