"""Scores that need a model: verdicts are kept, unclear ones asked for again, plans compared with gold ones."""

from pathlib import Path

import pytest

from subquest.engine.scripted import Context, ScriptedEngine
from subquest.errors import EngineUnavailable
from subquest.evaluate.model_scores import judge_answers, judge_plans
from subquest.evaluate.result_table import scored, table
from subquest.judge import ModelJudge
from subquest.record import Episode, Question, Step, Trajectory
from subquest.runs import RunStore

STEPS = (Step("Who built it?", "Mila"), Step("Where was #1 born?", "Kestel"))


def fill(store: RunStore, count: int = 4) -> None:
    for i in range(count):
        question = Question(f"q{i}", f"Which {i}?", (f"answer {i}",), dataset="toy", decomposition=STEPS)
        planner = Trajectory("p", "planner", "x")
        tasks = tuple(Trajectory(f"e{n}", "executor", STEPS[n].question, parent="p") for n in range(i % 3))
        store.add_episode(Episode(str(i), question, "coda", "m", (planner, *tasks), answer=f"it is {i}"))
    store.flush()


def cell(store: RunStore) -> dict:
    return table(scored(store))["toy"]["coda"]


async def test_verdicts_are_kept_and_unclear_ones_asked_for_again(tmp_path: Path) -> None:
    replies = {"it is 0": "yes", "it is 1": "no", "it is 2": "hm", "it is 3": "yes"}

    def reply(context: Context) -> str:
        return next(said for answer, said in replies.items() if answer in context.text)

    with RunStore.create(tmp_path / "run") as store:
        fill(store)
        judge = ModelJudge(ScriptedEngine(reply), cache=None)
        assert await judge_answers(store, judge) == 1
        assert cell(store)["judge"] == pytest.approx(2 / 3, abs=1e-6)
        assert cell(store)["judge_undecided"] == 0.25
        replies["it is 2"] = "no"
        again = ModelJudge(ScriptedEngine(reply))
        assert await judge_answers(store, again) == 0
        assert again.usage.model_calls == 1
        assert cell(store)["judge"] == 0.5
        assert cell(store)["judge_undecided"] == 0
        await judge.close()
        await again.close()


async def test_a_judge_that_fails_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.evaluate.model_scores.BATCH", 2)

    def reply(context: Context) -> str | Exception:
        return EngineUnavailable("down") if "it is 3" in context.text else "yes"

    with RunStore.create(tmp_path / "run") as store:
        fill(store)
        with pytest.raises(EngineUnavailable):
            await judge_answers(store, ModelJudge(ScriptedEngine(reply)))
        assert {row.question.id for row in scored(store) if "judge" in row.scores} == {"q0", "q1"}


def test_plans(tmp_path: Path) -> None:
    texts: list[str] = []

    def embedder(found: list[str]) -> list[list[float]]:
        """Each text is a direction of its own."""
        texts.extend(t for t in found if t not in texts)
        return [[float(t == other) for other in [*texts, *[""] * 20][:20]] for t in found]

    with RunStore.create(tmp_path / "run") as store:
        fill(store, 3)
        assert judge_plans(store, embedder=embedder) == 3
        found = {row.question.id: row.scores["sepr"] for row in scored(store)}
        assert found == pytest.approx({"q0": 0.0, "q1": 2 / 3, "q2": 1.0})  # 0, 1, 2 tasks of 2 gold steps
        assert judge_plans(store, embedder=embedder) == 0


def test_who_only_helps_is_no_step_of_a_plan(tmp_path: Path) -> None:
    """HiRA's coordinator and DECOR's compressor work below a planner that has handed them no task."""
    question = Question("q", "Where was its builder born?", ("Kestel",), dataset="toy", decomposition=STEPS)
    helpers = [Trajectory("c", "coordinator", "select: Who built it?", parent="p")]
    helpers += [Trajectory("m", "compressor", "memory", parent="p")]
    tasks = [Trajectory(f"e{n}", "search", step.question, parent="p") for n, step in enumerate(STEPS)]
    with RunStore.create(tmp_path / "run") as store:
        store.add_episode(Episode("1", question, "hira", "m", (Trajectory("p", "planner", "x"), *helpers, *tasks)))
        store.flush()
        embedded: list[str] = []
        judge_plans(store, embedder=lambda texts: [embedded.append(t) or [1.0, 0.0] for t in texts])
        assert {row.scores["sepr"] for row in scored(store)} == {1.0}
    assert embedded == [step.question for step in STEPS]
