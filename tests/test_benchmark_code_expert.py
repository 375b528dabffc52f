"""`subquest bench code-expert`: tasks, the check of answers, figures with a scripted model and the real sandbox."""

import importlib
import json
import re
import sys
from datetime import date
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

from subquest.cli import main
from subquest.tools.sandbox import SandboxUnavailable, bubblewrap

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
CODE = "<|begin_code_call|>{}<|end_code_call|>"
NAMES = ("Corvey", "Dunmar")


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("_arithmetic_tasks")


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("_arithmetic_answers")


@pytest.fixture
def sandbox() -> None:
    try:
        bubblewrap.way()
    except SandboxUnavailable as error:
        pytest.skip(str(error))


def test_tasks_come_from_the_seed_and_their_answers_pass_the_check(tasks: ModuleType, answers: ModuleType) -> None:
    drawn = tasks.draw(4 * len(tasks.KINDS), seed=3)
    assert len(tasks.KINDS) >= 15
    assert {task.kind for task in drawn[: len(tasks.KINDS)]} == set(tasks.KINDS)
    assert tasks.draw(9, seed=3) == drawn[:9]
    assert tasks.draw(9, seed=4) != drawn[:9]
    assert len({task.text for task in drawn[:50]}) == 50
    for task in drawn:
        assert answers.is_right(task.answer, str(task.answer), task.text), task
        assert not answers.is_right(task.answer, "", task.text), task
        others = [other.answer for other in drawn if str(other.answer) != str(task.answer)]
        taken = [other for other in others if answers.is_right(task.answer, str(other), task.text)]
        assert not taken, (task, taken)


@pytest.mark.parametrize(
    ("form", "value", "places", "right", "wrong"),
    [
        (
            "number",
            "1496",
            None,
            ["1,496 t", "1496.0", "\\text{1{,}496 t}", "5 trips of 340 t: 1496"],
            ["1495", "1.496"],
        ),
        ("number", "-23.04", 1, ["-23.0", "\u221223%", "-23.0449", "$-23.02", "-$23"], ["23.0", "-23.1", "-22.98"]),
        ("number", "12.5", None, ["12.5 m^2", "12.50 km2", "1.25e1"], ["12.5 or 13", "13", "none"]),
        ("number", "340", None, ["340", "of 5 and 340 it is 340"], ["5"]),
        (
            "list",
            "3 120 999",
            None,
            ["[3, 120, 999]", "3,120,999", "999 3 120: 3, 120, 999"],
            ["3, 999, 120", "120, 999"],
        ),
        ("ratio", "3 4", None, ["3:4", "3 to 4", "340:5 is 3 / 4"], ["4:3", "0.75"]),
        (
            "date",
            "1902-05-19",
            None,
            ["19 May 1902", "May 19th, 1902", "1902-05-19 00:00:00"],
            ["19 May", "9 May 1902"],
        ),
        ("weekday", "Friday", None, ["It was a friday.", "Friday"], ["Monday or Friday", "Fri or so"]),
        ("time", "4 44", None, ["04:44", "4:44 am", "4:44:00 a day later"], ["16:44", "4:44 pm", "4.44"]),
        ("name", "Corvey", None, ["It is Corvey", "corvey"], ["Dunmar", "Corvey or Dunmar"]),
    ],
)
def test_an_answer_is_right_however_it_is_worded(
    answers: ModuleType, form: str, value: str, places: int | None, right: list[str], wrong: list[str]
) -> None:
    read = {
        "number": Fraction,
        "date": date.fromisoformat,
        **dict.fromkeys(("list", "ratio", "time"), lambda text: tuple(map(Fraction, text.split()))),
    }.get(form, str)
    wanted = answers.Answer(form, read(value), places, NAMES)
    task = "A barge carries 340 t on each of 5 trips."
    assert [reply for reply in right if not answers.is_right(wanted, reply, task)] == []
    assert [reply for reply in wrong if answers.is_right(wanted, reply, task)] == []


def run(tmp_path: Path, replies: dict[str, list[str]], *options: str) -> int:
    script = tmp_path / "replies.jsonl"
    script.write_text("".join(json.dumps({"role": r, "reply": t}) + "\n" for r, few in replies.items() for t in few))
    given = ["--model", f"scripted:{script}", "--concurrency", "1", "--prompts", "full", *options]
    return main(["bench", "code-expert", *given, "--json"])


def test_figures_of_the_expert(
    sandbox: None, tasks: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Five tasks: solved by code, no code, code that fails, no answer, a wrong answer."""
    first = tasks.draw(5, seed=7)[0]
    printed = CODE.format(f"print({str(first.answer)!r})")
    replies = [printed, f"\\boxed{{{first.answer}}}", "\\boxed{none}", CODE.format("1 / 0"), "\\boxed{none}"]
    replies += [CODE.format("print(1)"), *[""] * 3, CODE.format("print(2)"), "\\boxed{none}"]
    out = tmp_path / "episodes.jsonl"
    assert (
        run(tmp_path, {"code": replies}, "--tasks", "5", "--seed", "7", "--through", "expert", "--out", str(out)) == 0
    )
    said = capsys.readouterr()
    found = json.loads(said.out)
    row = found["figures"]["expert"]
    reasons = ["no code written", "code failed", "not answered", "wrong answer"]
    assert {name: row[name] for name in ("n", "solved", *reasons)} == {"n": 5, "solved": 1} | dict.fromkeys(reasons, 1)
    assert row["with code"] == 4
    assert sum(right for right, _ in row["kinds"].values()) == row["kinds"][first.kind][0] == 1
    assert found["ratios"] == {"expert: solved": 1 / 5}
    assert re.search(rf"{first.kind} +1 of 1", said.err)
    kept = [json.loads(line) for line in out.read_text().splitlines()]
    assert [episode["verdict"] for episode in kept] == ["solved", *reasons]
    assert (kept[0]["question"], kept[0]["gold"]) == (first.text, [str(first.answer)])


def test_figures_of_the_whole_of_hira(
    sandbox: None, tasks: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (task,) = tasks.draw(1, seed=0)
    conclusion = {"conclusion": {"reasoning_process": "Computed it.", "final_conclusion": f"It is {task.answer}."}}
    replies = {
        "planner": [f"<|begin_call_subtask|>{task.text}<|end_call_subtask|>", f"\\boxed{{{task.answer}}}"],
        "coordinator": [json.dumps({"selected_agent_name": "code"}), json.dumps(conclusion)],
        "code": [CODE.format(f"print({str(task.answer)!r})"), f"\\boxed{{{task.answer}}}"],
    }
    assert run(tmp_path, replies, "--tasks", "1", "--through", "hira") == 0
    row = json.loads(capsys.readouterr().out)["figures"]["hira"]
    assert (row["n"], row["solved"], row["with code"]) == (1, 1, 1)


def test_a_task_that_does_not_end_in_time_is_not_answered(
    sandbox: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, {"code": []}, "--tasks", "2", "--through", "expert", "--seconds", "0") == 0
    row = json.loads(capsys.readouterr().out)["figures"]["expert"]
    assert (row["n"], row["solved"], row["not answered"]) == (2, 0, 2)


def test_without_a_sandbox_it_does_not_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SUBQUEST_SANDBOX_URL", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    for cached in (bubblewrap.way, bubblewrap._bwrap):
        cached.cache_clear()
    try:
        assert run(tmp_path, {"code": []}, "--tasks", "1") != 0
    finally:
        for cached in (bubblewrap.way, bubblewrap._bwrap):
            cached.cache_clear()
    if sys.platform == "linux":
        assert "install bubblewrap" in capsys.readouterr().err
