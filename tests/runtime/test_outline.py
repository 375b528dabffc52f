"""Outlines as models of all sizes write them."""

import pytest

from subquest.runtime.outline import MAX_SECTIONS, Planned, read_outline

ASKED = "Tell me about the Orvane Bridge."
TWO = [
    Planned("Design", "Who designed the Orvane Bridge?"),
    Planned("Opening", "When was the Orvane Bridge opened?"),
]


@pytest.mark.parametrize(
    "text",
    [
        "Design: Who designed the Orvane Bridge?\nOpening: When was the Orvane Bridge opened?",
        "Here is the outline:\n\n1. **Design**: Who designed the Orvane Bridge?\n2. **Opening**: "
        "When was the Orvane Bridge opened?\n\nI hope this helps!",
        "## Design - Who designed the Orvane Bridge?\n## opening — When was the Orvane Bridge opened?",
        '{"Design": "Who designed the Orvane Bridge?",\n"Opening": "When was the Orvane Bridge opened?"}',
        "- Design | Who designed the Orvane Bridge?\n- Opening | When was the Orvane Bridge opened?\n"
        "- Again | Who designed the Orvane Bridge?",
    ],
)
def test_sections_are_found_in_what_surrounds_them(text: str) -> None:
    assert read_outline(text, ASKED) == TWO


def test_a_question_alone_is_its_own_title() -> None:
    assert read_outline("Who designed the Orvane Bridge?", ASKED) == [
        Planned("Who designed the Orvane Bridge", "Who designed the Orvane Bridge?")
    ]


@pytest.mark.parametrize("text", ["", "The bridge is old.", "What?", "Title: " + "x " * 900 + "?", "\x00\ud83d"])
def test_an_unusable_outline_gives_one_section(text: str) -> None:
    assert read_outline(text, ASKED) == [Planned("", ASKED)]


def test_sections_that_share_a_title_are_told_apart() -> None:
    text = "Quay: What must workers on the quay wear?\nQuay: Who is told of accidents?\nFuel: Where is diesel sold?"
    assert [section.title for section in read_outline(text, "Q?")] == [
        "What must workers on the quay wear", "Who is told of accidents", "Fuel"
    ]  # fmt: skip


def test_there_is_a_limit_to_sections() -> None:
    text = "\n".join(f"Part {n}: What happened in the year {n}?" for n in range(50))
    assert len(read_outline(text, ASKED)) == MAX_SECTIONS
