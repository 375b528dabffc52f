"""What CoDA's planner and executors write is what is answered and carried out, right or wrong."""

from dataclasses import replace

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import UsageError
from subquest.record import Document, Episode
from subquest.systems.coda import MAX_PARALLEL_TASKS, CoDA

from .fakes import FakeSearch

PHYSICIST = Document("d", "Relativity", "General relativity was the work of Einstien, a physicist.")


def asked(question: str, planner: list[str], executor: list[str], **settings: object) -> Episode:
    engine = ScriptedEngine({"planner": planner, "executor": executor})
    return CoDA(engine, FakeSearch([PHYSICIST]), **settings).ask(question)


@pytest.mark.parametrize(
    ("thought", "answer"),
    [
        ("12 + 15 + 20 = 47", "47"),
        ("1914-1918 = 4", "4"),
        ("1964 to 1968 6", "6"),
        ("44200 is smaller than 40700", "yes"),
        ("the later of 1973 and 2020 is 1973: Ashes", "Ashes"),
        ("in both: Salt Horizon", "Salt Horizon"),
    ],
)
def test_the_answer_is_the_planners(thought: str, answer: str) -> None:
    planner = [
        "<task>First?</task><task>Second?</task>",
        f"<think>{thought}</think><answer>{answer}</answer>",
        "<answer>never asked for</answer>",
    ]
    episode = asked("How many?", planner, ["<result>1964</result>", "<result>1968</result>"])
    assert (episode.answer, episode.forced, episode.stop_reason) == (answer, False, "answered")
    (written,) = episode.by_role("planner")
    assert written.result == answer
    assert [s.text for s in written.segments if s.kind == "agent"] == planner[:2]
    assert "error" not in [e.kind for e in episode.events]


def test_a_task_is_carried_out_as_it_stands() -> None:
    planner = ["<task>What is the capital of Austria?</task>", "<answer>Vienna</answer>"]
    episode = asked("What is the capital of Australia?", planner, ["<result>Vienna</result>"])
    (executor,) = episode.by_role("executor")
    assert executor.task == "What is the capital of Austria?"
    assert executor.segments[1].text == "Task: What is the capital of Austria?"


@pytest.mark.parametrize("name", ["Einstein", "Einsttien"])
def test_a_result_is_handed_back_as_it_stands(name: str) -> None:
    planner = ["<task>Whose work was general relativity?</task>", f"<answer>{name}</answer>"]
    executor = ["<search>general relativity</search>", f"<result>{name}</result>"]
    episode = asked("Whose work was general relativity?", planner, executor)
    assert "Einstien" in episode.by_role("executor")[0].text
    assert episode.by_role("executor")[0].result == name
    assert f"<result>{name}</result>" in episode.by_role("planner")[0].text


@pytest.mark.parametrize("value", [True, False])
def test_the_setting_that_rewrote_answers_is_gone_with_a_reason(value: bool) -> None:
    with pytest.raises(UsageError, match=r"'check' of system 'coda' was removed: it changed answers"):
        CoDA(ScriptedEngine([]), FakeSearch(), check=value)


def test_stored_episodes_that_had_it_are_read() -> None:
    episode = asked("Who?", ["<answer>Ana</answer>"], [])
    stored = replace(episode, settings={**episode.settings, "check": True})
    assert Episode.from_json(stored.to_json()) == stored


@pytest.mark.parametrize("refine", [True, False])
def test_nested_executors_refine_only_where_all_do(refine: bool) -> None:
    executor = ["<task>inner</task>", "<result>inner result</result>", "<result>outer result</result>"]
    episode = asked("Who?", ["<task>outer</task>", "<answer>a</answer>"], executor, depth=2, refine=refine)
    outer, inner = (t.segments[0].text for t in episode.by_role("executor"))
    assert ("<refine>" in outer, "<refine>" in inner) == (refine, refine)
    assert "<task>" in outer
    assert "<task>" not in inner


def test_tasks_beyond_the_limit_of_a_turn_are_told() -> None:
    tasks = [f"Who was number {n}?" for n in range(MAX_PARALLEL_TASKS + 2)]
    planner = ["".join(f"<task>{task}</task>" for task in tasks), "<answer>Ana</answer>"]
    episode = asked("Who?", planner, ["<result>Ana</result>"] * MAX_PARALLEL_TASKS)
    assert [t.task for t in episode.by_role("executor")] == tasks[:MAX_PARALLEL_TASKS]
    limits = [(e.data["what"], e.data["message"]) for e in episode.events if e.kind == "limit"]
    assert limits == [("8 tasks in a turn", "Who was number 8?; Who was number 9?")]


@pytest.mark.parametrize("nothing", ["not found", "Unknown.", "No result was found."])
def test_a_result_that_says_nothing_is_no_answer(nothing: str) -> None:
    """Where the planner writes no answer, the newest result that says something stands in its place."""
    planner = ["<task>First?</task><task>Second?</task>", ""]
    results = [f"<result>{text}</result>" for text in ("Kestel", nothing)]
    episode = asked("Where?", planner, results, turns=1)
    assert (episode.answer, episode.forced, episode.stop_reason) == ("Kestel", True, "forced")
    episode = asked("Where?", planner, results[1:] * 2, turns=1)
    assert (episode.answer, episode.forced, episode.stop_reason) == ("", False, "no answer")
