"""Plans: references, order, repairs and fallbacks."""

import pytest

from subquest.systems.plan import PlanStep, lines_of, make_plan, numbered_lines


def test_lines_lose_their_numbers() -> None:
    text = "\n1. Who designed it?\nStep 2: Where was #1 born?\n- And when?\n\n3) Why?"
    assert lines_of(text) == ["Who designed it?", "Where was #1 born?", "And when?", "Why?"]
    assert numbered_lines("Sure!\n1. One?\nand\n2. Two?") == ["One?", "Two?"]


def test_references_are_dependencies() -> None:
    plan = make_plan(["A?", "B?", "C of #1 and #2?", "D of #3?"], "Q", 5)
    assert [step.needs for step in plan.steps] == [(), (), (0, 1), (2,)]
    assert plan.ancestors(3) == [0, 1, 2]
    assert plan.ancestors(0) == []
    assert plan.repairs == ()


def test_references_are_resolved() -> None:
    steps = (PlanStep("A?"), PlanStep("B of #1, #1 and #2?", (0, 1)))
    assert steps[1].resolve({0: "Ann", 1: "Bo"}, steps) == "B of Ann, Ann and Bo?"
    assert steps[1].resolve({0: "", 1: "Bo"}, steps) == "B of the answer to “A?”, the answer to “A?” and Bo?"


def test_ten_is_not_one() -> None:
    lines = [f"q{i}" for i in range(9)] + ["of #1", "of #10"]
    plan = make_plan(lines, "Q", 20)
    assert plan.steps[10].resolve({9: "ten", 0: "one"}, plan.steps) == "of ten"


def test_a_forward_reference_is_put_into_order_and_renumbered() -> None:
    plan = make_plan(["Where was #2 born?", "Who designed it?", "Who rules #1?"], "Q", 5)
    assert [step.question for step in plan.steps] == ["Who designed it?", "Where was #1 born?", "Who rules #2?"]
    assert [step.needs for step in plan.steps] == [(), (0,), (1,)]
    assert "forward reference" in plan.repairs[0]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "empty"),
        (["A of #1?"], "circle"),
        (["A of #2?", "B of #1?"], "circle"),
        (["A?", "B of #7?"], "no step #7"),
        (["A of #0?"], "no step #0"),
    ],
)
def test_what_cannot_be_repaired_falls_back_to_the_question(lines: list[str], problem: str) -> None:
    plan = make_plan(lines, "Q?", 5)
    assert plan.steps == (PlanStep("Q?"),)
    assert problem in plan.repairs[-1]


def test_a_long_plan_is_cut() -> None:
    plan = make_plan([f"q{i}?" for i in range(8)], "Q", 5)
    assert len(plan.steps) == 5
    assert plan.repairs == ("8 steps were cut to 5",)
    assert make_plan(["a #2", "b #3", "c"], "Q", 2).steps == (PlanStep("Q"),)


def test_numbers_that_no_plan_has_are_survived() -> None:
    """Python refuses to read a number of five thousand digits; a model may write one."""
    plan = make_plan([f"who made #{'9' * 5000}?", "where?"], "the question?", 5)
    assert plan.steps[0].question == "the question?"
    assert "there is no step" in plan.repairs[0]
