"""The runner: resuming, failures, timeouts and the table that comes out."""

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineRefused, UsageError
from subquest.evaluate import evaluate, jobs_for, table
from subquest.evaluate.result_table import broken_down, scored
from subquest.record import Episode, Question
from subquest.runs import RunStore
from subquest.systems.coda import CoDA

from ..systems.fakes import FakeSearch

QUESTIONS = [
    replace(
        Question(f"q{i}", f"What is {i}?", (f"answer {i}",)),
        dataset="toy",
        hops=1 + i % 2,
        supporting_titles=("Orvane Bridge",),
    )
    for i in range(6)
]


def answering(wrong: tuple[int, ...] = (), failing: tuple[int, ...] = ()) -> ScriptedEngine:
    async def reply(context):  # type: ignore[no-untyped-def]
        number = int(context.messages[1].content.split()[-1].rstrip("?")) if context.role == "planner" else -1
        if number in failing:
            return EngineRefused("down")
        if context.role == "planner" and context.turn == 0:
            return "<task>Orvane Bridge</task>"
        if context.role == "executor":
            return "<search>Orvane Bridge</search>" if context.turn == 0 else "<result>x</result>"
        return f"<answer>{'nonsense' if number in wrong else f'Answer {number}.'}</answer>"

    return ScriptedEngine(reply)


def run(store: RunStore, engine: ScriptedEngine, questions: list[Question] = QUESTIONS, **options: object) -> int:
    systems = {"coda": CoDA(engine, FakeSearch())}
    jobs = list(jobs_for(store, {"toy": questions}, systems))
    asyncio.run(evaluate(jobs, systems, store, **options))
    return len(jobs)


async def test_what_is_finished_is_kept_when_an_evaluation_is_cancelled(tmp_path: Path) -> None:
    """Also episodes that wait to be scored and stored at that moment."""
    solved: list[str] = []
    system = CoDA(answering(), FakeSearch())

    class Slow:
        model_name = "slow"

        async def solve(self, question: Question, *, seed: int | None = None, id: str = "") -> Episode:
            if len(solved) == 4:
                await asyncio.sleep(3600)
            episode = await system.solve(question, id=id)
            solved.append(question.id)
            if len(solved) == 4:
                evaluation.cancel()
            return episode

    with RunStore.resume(tmp_path / "run.sqlite") as store:
        jobs = jobs_for(store, {"toy": QUESTIONS}, ["coda"])
        evaluation = asyncio.ensure_future(evaluate(jobs, {"coda": Slow()}, store, concurrency=6))
        with pytest.raises(asyncio.CancelledError):
            await evaluation
        store.flush()
        assert {s.question for s in store.summaries()} >= set(solved[:4])


async def test_a_system_that_times_out_by_itself_has_failed(tmp_path: Path) -> None:
    class Impatient:
        model_name = "impatient"

        async def solve(self, question: Question, *, seed: int | None = None, id: str = "") -> Episode:
            raise TimeoutError("waiting for the sandbox")

    with RunStore.resume(tmp_path / "run.sqlite") as store:
        await evaluate(jobs_for(store, {"toy": QUESTIONS[:1]}, ["x"]), {"x": Impatient()}, store)
        (episode,) = store.episodes()
        assert (episode.stop_reason, episode.errors[0].message) == ("failed", "timed out waiting for the sandbox")


def test_a_defect_of_whoever_is_told_ends_the_evaluation(tmp_path: Path) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    with RunStore.resume(tmp_path / "run.sqlite") as store, pytest.raises(ZeroDivisionError):
        run(store, answering(), concurrency=3, finished=broken)


def test_table(tmp_path: Path) -> None:
    with RunStore.resume(tmp_path / "run.sqlite") as store:
        assert run(store, answering(wrong=(0, 1)), concurrency=3) == 6
        rows = scored(store)
        cell = table(rows)["toy"]["coda"]
        assert cell["n"] == 6
        assert cell["em"] == pytest.approx(4 / 6, abs=1e-6)
        assert cell["em_low"] <= cell["em"] <= cell["em_high"]
        assert cell["searches"] == 1
        assert cell["support_recall"] == 1.0
        assert cell["model_calls"] == 4
        assert cell["peak_planner"] > 0
        assert {k: len(v) for k, v in broken_down(rows, "hops").items()} == {"1": 3, "2": 3}


def test_resume_does_only_what_is_left_and_retries_failures(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with RunStore.resume(path) as store:
        assert run(store, answering(failing=(2,)), QUESTIONS[:4]) == 4
        cell = table(scored(store))["toy"]["coda"]
        assert (cell["failed"], cell["forced"]) == (pytest.approx(0.25), 0.0)
    with RunStore.resume(path) as store:
        assert run(store, answering()) == 3  # the failed one and the two new ones
        cell = table(scored(store))["toy"]["coda"]
        assert (cell["n"], cell["em"], cell["failed"]) == (6, 1.0, 0.0)
        assert run(store, answering()) == 0


def test_changed_questions_do_not_go_into_a_run_that_knows_them(tmp_path: Path) -> None:
    with RunStore.resume(tmp_path / "run.sqlite") as store:
        run(store, answering(), QUESTIONS[:2])
        with pytest.raises(UsageError, match="'q1' of toy with other gold answers"):
            run(store, answering(), [QUESTIONS[0], replace(QUESTIONS[1], answers=("another",))])
        with pytest.raises(UsageError, match="'q0' of toy as another question"):
            run(store, answering(), [replace(QUESTIONS[0], question="Which is 0?")])
        assert run(store, answering(), [replace(QUESTIONS[0], type="bridge")]) == 0


def test_a_question_that_takes_too_long_is_recorded_as_failed(tmp_path: Path) -> None:
    with RunStore.resume(tmp_path / "run.sqlite") as store:
        run(store, ScriptedEngine(["<answer>late</answer>"], latency=5), QUESTIONS[:1], seconds=0.05)
        episode = next(store.episodes())
        assert episode.stop_reason == "failed"
        assert "0.05 seconds" in episode.errors[0].message


def test_one_class_may_run_under_two_names(tmp_path: Path) -> None:
    with RunStore.resume(tmp_path / "run.sqlite") as store:
        systems = {"good": CoDA(answering(), FakeSearch()), "bad": CoDA(answering(wrong=tuple(range(6))), FakeSearch())}
        asyncio.run(evaluate(jobs_for(store, {"toy": QUESTIONS}, systems), systems, store))
        cells = table(scored(store))["toy"]
        assert (cells["good"]["em"], cells["bad"]["em"]) == (1.0, 0.0)


@pytest.mark.slow
def test_only_episodes_under_way_are_in_memory(tmp_path: Path) -> None:
    """Each worker holds the episode it works on and the one that is being written, however many have gone before."""
    questions = [Question(f"q{i}", f"What is {i}?", (f"answer {i}",), dataset="toy") for i in range(120)]
    alive: list[int] = []

    def episodes() -> int:
        return sum(isinstance(o, Episode) for o in gc.get_objects())

    def finished(*_: object) -> None:
        if len(alive) % 20 == 0:
            alive.append(episodes() - before)
        else:
            alive.append(0)

    gc.collect()
    before = episodes()
    with RunStore.create(tmp_path / "run", own_process=True) as store:
        run(store, answering(), questions, concurrency=4, finished=finished)
    assert len(alive) == 120
    assert max(alive) <= 2 * 4
