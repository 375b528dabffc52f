"""How answers are worked out of results, against hand-made thoughts."""

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.record import Question, Step
from subquest.train.conclusions import conclusion, count_up, in_both, measure
from subquest.train.facts import facts_of


def thought(kind: str, answer: str, results: tuple[str, ...], operation: list[object] | None, tasks: str = "") -> str:
    asked = tasks.split("|") if tasks else [f"Step {'abcd'[n]}?" for n in range(len(results))]
    steps = tuple(Step(task, result) for task, result in zip(asked, results, strict=True))
    meta = {"operation": operation} if operation else {}
    question = Question("q", "?", (answer,), decomposition=steps, type=kind, meta=meta)
    return conclusion(question, facts_of(question), results)


@pytest.mark.parametrize(
    ("answer", "results", "operation", "said"),
    [
        ("21", ("1961", "1982"), ["years", 1, 2], "1961 to 1970 9, 1980 19, 1982 21"),
        ("21", ("1982", "1961"), ["years", 1, 2], "1961 to 1970 9, 1980 19, 1982 21"),
        (
            "56",
            ("October 28, 1916", "23 February 1973"),
            ["age", 1, 2],
            "1916 to 1920 4, 1930 14, 1940 24, 1950 34, 1960 44, 1970 54, 1973 57; 02-23 is before 10-28: 57 - 1 = 56",
        ),
        ("4", ("1 May 1916", "2 May 1920"), ["age", 1, 2], "1916 to 1920 4; 05-02 is not before 05-01: 4"),
        ("no", ("1,037 metres", "98 metres"), ["order", 1, 2], "1037 is larger than 0098"),
        ("yes", ("1901", "3 May 1902"), ["order", 1, 2], "1901 is earlier than 1902"),
        ("yes", ("Ys", "Ys"), ["same", 1, 2], "Ys and Ys are the same"),
        ("no", ("1931",), ["is", 1, "1934"], "1931 and 1934 are not the same"),
        ("£1,250", ("£1,200", "£50"), ["sum", 1, 2], "1200 + 50 = £1,250"),
        ("£1,150", ("£1,200", "£50"), ["difference", 1, 2], "1200 - 50 = £1,150"),
        ("no", ("Ys", "Ker"), ["same", 1, 2], "Ys and Ker are not the same"),
        ("A", ("24 m", "176 metres"), ["pick", 1, 2, "min"], "the smaller of 024 and 176 is 024: A"),
        ("A", ("3 May 1901", "4 May 1901"), ["pick", 1, 2, "max"], "the later of 1901-05-03 and 1901-05-04 is 1901-05-04: A"),  # noqa: E501
        ("A", ("1901", "4 May 1901"), ["pick", 1, 2, "max"], ""),
        ("A", ("tall", "76"), ["pick", 1, 2, "max"], ""),
        ("Bee", ("Ant and Bee", "Bee and Cow"), ["both", 1, 2], "in both: Bee"),
    ],
)  # fmt: skip
def test_operations_of_worlds(answer: str, results: tuple[str, ...], operation: list[object], said: str) -> None:
    told = thought("temporal", answer, results, operation)
    assert told.removeprefix("; ".join(f"Step {'abcd'[n]}: {r}" for n, r in enumerate(results))) == (
        f"; {said}" if said else ""
    )


@pytest.mark.parametrize(
    ("answer", "tasks", "results", "said"),
    [
        ("full moon", "When was Full Moon out?|When was Eight out?", ("1981", "1967"), "of 1981 and 1967 is 1981"),
        (
            "Eight",
            "Who made Full Moon?|Who made Eight?|When was Larry born?|When was George born?",
            ("Larry", "George", "15 July 1936", "29 December 1891"),
            "the earlier of 1936 and 1891 is 1891: Eight",
        ),
        ("no", "Where is A?|Where is B?", ("France", "Italy"), "France and Italy are not the same"),
        ("Else", "When was A out?|When was B out?", ("1981", "1967"), ""),
    ],
)  # fmt: skip
def test_operations_are_found_from_the_answer(answer: str, tasks: str, results: tuple[str, ...], said: str) -> None:
    told = thought("bridge_comparison", answer, results, None, tasks)
    assert said in told if said else told.endswith(results[-1])


def test_a_chain_has_nothing_to_work_out() -> None:
    assert thought("compositional", "B", ("A", "B"), ["last"]) == ""


@given(st.integers(1, 2100), st.integers(1, 400))
def test_counting_up_adds_up(start: int, gap: int) -> None:
    first, _, steps = count_up(start, start + gap).partition(" to ")
    assert int(first) == start
    at = start
    for step in steps.split(", "):
        year, passed = map(int, step.split())
        assert year - start == passed
        assert at < year <= at + 10
        assert year % 10 == 0 or year == start + gap
        at = year
    assert at == start + gap


def test_items_are_looked_up_until_one_is_in_both_lists() -> None:
    assert in_both(["Ant", "Bee", "Cow"], "Bee") == "Ant no, Bee yes; in both: Bee"


@given(st.dates(datetime.date(1000, 1, 1)))
def test_dates_are_read_in_both_orders(date: datetime.date) -> None:
    for form in (f"{date.day} {date:%B} {date.year}", f"{date:%B} {date.day}, {date.year}"):
        found = measure(form)
        assert found is not None
        assert found.shown == date.isoformat()
        assert found.key == (date.year, date.month, date.day)


@pytest.mark.parametrize(
    ("text", "shown", "dated"),
    [("76 metres", "76", False), ("1,157 m", "1157", False), ("2.5 million", "2500000", False), ("1901", "1901", True)],
)  # fmt: skip
def test_numbers_and_years(text: str, shown: str, dated: bool) -> None:
    found = measure(text)
    assert found is not None
    assert (found.shown, found.dated) == (shown, dated)
