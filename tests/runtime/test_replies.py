"""Reading replies: answers, boxes, decisions, hedges and refusals."""

import pytest

from subquest.engine import Generation
from subquest.protocol import parse
from subquest.runtime.replies import answer_in, boxed, decides, hedges
from subquest.runtime.statements import declines
from subquest.runtime.turn import Turn


def turn(text: str) -> Turn:
    return Turn(text, parse(text), Generation(text, "end"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so \\boxed{Kestel}.", "Kestel"),
        ("\\boxed{a} then \\boxed{b {c} d}", "b {c} d"),
        ("\\boxed{never closed", "never closed"),
        ("\\boxed{}", ""),
        ("\\boxed{\\text{Kestel}}", "Kestel"),
        ("\\boxed {\\textbf{Mila} \\mathrm{Torrun}}", "Mila Torrun"),
        ("\\boxed{\\frac{1}{2}}", "\\frac{1}{2}"),
        ("no box", ""),
    ],
)
def test_boxed(text: str, expected: str) -> None:
    assert boxed(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>Kestel</answer>", "Kestel"),
        ("<answer>a</answer> no, <answer>b</answer>", "b"),
        ("<answer>\\boxed{Kestel}</answer>", "Kestel"),
        ("It is \\boxed{Kestel}", "Kestel"),
        ("<think>hm</think>Kestel", "Kestel"),
        ("<think>never ends", ""),
        ("<answer>cut off", "cut off"),
    ],
)
def test_answer_in(text: str, expected: str) -> None:
    assert answer_in(turn(text)) == expected


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("retrieve", True, False),
        ("Answer.", False, True),
        ("**answer**", False, True),
        ("answer, not retrieve", False, True),
        ("I cannot answer; retrieve", True, True),
        ("I cannot answer; retrieve", False, False),
        ("We should retrieve", True, False),
        ("<answer>answer</answer>", False, True),
        ("<think>retrieve?</think>answer", False, True),
        ("", True, True),
        ("", False, False),
        ("Answer: retrieve", True, False),
        ("**Answer:** Retrieve", True, False),
        ("Answer: answer", False, True),
    ],
)
def test_decides(text: str, default: bool, expected: bool) -> None:
    assert decides(turn(text), "answer", "retrieve", default=default) is expected


@pytest.mark.parametrize("text", ["unknown", "Unknown.", "I don't know", "N/A", "cannot be determined", "Not found."])
def test_declines(text: str) -> None:
    assert declines(text)
    assert not declines(f"{text} Kestel")


def test_a_result_may_say_what_was_not_found() -> None:
    assert declines("Not found: the documents do not say to whom Tor Vik is married.")
    assert not declines("Unknown: Das Leben der Ada Torrun")
    assert not declines("Not far from Kestel: in Varn.")


@pytest.mark.parametrize(
    "text",
    [
        *("perhaps Kestel", "It is not specified.", "The text does not say", "probably 1889", "Probably 1889"),
        *(
            "Maybe it was Kestel.",
            "Kestel. Possibly Orvane, as some say.",
            "Unknown",
            "Not Specified",
            "No Information",
        ),
        *("The Likely Lads, perhaps", "A. Maybe not him", "(Maybe it was Kestel)"),
    ],
)
def test_hedges(text: str) -> None:
    assert hedges(text)


@pytest.mark.parametrize(
    "text",
    [
        *("Kestel", "May 1889", "The Unknowable Mountain", "Knowles", "The Likely Lads", "Maybe", "Perhaps Love", ""),
        *("It was made for The Likely Lads.", "Tomb of the Unknown Soldier", "“Maybe” by The Ink Spots"),
    ],
)
def test_plain_answers_do_not_hedge(text: str) -> None:
    assert not hedges(text)
