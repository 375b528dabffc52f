"""Plans: references, order, repairs and fallbacks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.systems.apex.plan import PlanStep, lines_of, make_plan, numbered_lines

QUESTIONS = ["Who designed it?", "Where was #1 born?", "When?"]
STYLES = ("{}. {}", "{}) {}", "({}) {}", "Step {}: {}", "**{}.** {}", "**Step {}:** {}", "#{}: {}", "  {}. {}")
BULLETS = ("- {}", "* {}", "• {}", "– {}")
PROSE = st.sampled_from(["", "Here is the decomposition:", "Sure!", "The bridge first, then its designer.", "```"])


@st.composite
def questions(draw: st.DrawFn) -> list[str]:
    words = st.sampled_from(["who", "made", "the", "Orvane", "Bridge", "1. FC Köln", "2. Bundesliga", "1.5", "Vol. 2."])
    asked = st.lists(words, min_size=1, max_size=6).map(lambda found: f"Of {' '.join(found)} or #1?")
    return draw(st.lists(asked, min_size=2, max_size=5))


def test_lines_lose_their_numbers() -> None:
    text = "\n1. Who designed it?\nStep 2: Where was #1 born?\n\n3) When?"
    assert lines_of(text) == QUESTIONS
    assert numbered_lines("Sure!\n1. One?\nand\n2. Two?") == ["One?", "Two?"]


@given(questions(), st.sampled_from(STYLES), PROSE, PROSE)
def test_a_plan_is_its_numbered_lines(asked: list[str], style: str, before: str, after: str) -> None:
    lines = [style.format(n, question) for n, question in enumerate(asked, 1)]
    text = "\n".join([before, *lines, after])
    assert lines_of(text) == numbered_lines(text) == asked


@given(questions(), st.sampled_from(BULLETS), PROSE, PROSE)
def test_a_plan_without_numbers_is_its_bullets(asked: list[str], style: str, before: str, after: str) -> None:
    text = "\n".join([before, *map(style.format, asked), after])
    assert lines_of(text) == numbered_lines(text) == asked


@given(questions(), st.sampled_from(["{}. {}", "{}) {}", "({}) {}", "Step {}: {}"]), st.sampled_from(["", "Plan: "]))
def test_a_numbered_plan_on_one_line_is_several_steps(asked: list[str], style: str, before: str) -> None:
    line = " ".join(style.format(n, question) for n, question in enumerate(asked, 1))
    assert lines_of(before + line) == asked


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Here is the decomposition:\nWho made it?\n---\nWhere is #1?", ["Who made it?", "Where is #1?"]),
        ("1. Find the maker. 2. Find where #1 lived. 3. Who ruled #2?",
         ["Find the maker.", "Find where #1 lived.", "Who ruled #2?"]),
        ("1. Who coached 1. FC Köln in the 2. Bundesliga?", ["Who coached 1. FC Köln in the 2. Bundesliga?"]),
        ("1. Who wrote Songs Vol. 2. in 1901?", ["Who wrote Songs Vol. 2. in 1901?"]),
        ("Who coached 1. FC Köln?\nWhere was #1 born?", ["Who coached 1. FC Köln?", "Where was #1 born?"]),
        ("Who directed it?\n2001: A Space Odyssey had which cast?",
         ["Who directed it?", "2001: A Space Odyssey had which cast?"]),
        ("1.5 million people live in which city?", ["1.5 million people live in which city?"]),
        ("1. Who made it?\n   - look for an architect\n2. Where is #1?", ["Who made it?", "Where is #1?"]),
        ("Here is the decomposition:", []),
        ("", []),
    ],
)  # fmt: skip
def test_what_is_a_step_and_what_is_not(text: str, expected: list[str]) -> None:
    assert lines_of(text) == expected


@given(st.text(alphabet="1. ?:*-#()\nStepab2", max_size=200))
def test_any_text_is_read(text: str) -> None:
    for step in lines_of(text):
        assert step == step.strip()
        assert any(c.isalnum() for c in step)


@pytest.mark.parametrize("part", ["1. a? ", " ", "1", "* ", "? step ", "(1) ", "1. a? 2. b?\n", "?  "])
def test_long_texts_are_read_in_one_pass(part: str) -> None:
    """A pattern that backtracks would not come to an end here."""
    lines_of("1. a?" + part * 100_000)


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
