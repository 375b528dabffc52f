"""DECOR's full prompts, for models never trained on our formats: what they show is what the system reads."""

import re
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.protocol import parse
from subquest.systems.decor import Decor
from subquest.systems.prompting import FOLDER

from .fakes import FakeSearch
from .test_decor import ANSWERER, FILTER, PLANNER, QUESTION

FULL = FOLDER / "full" / "decor"
TAGS = {"planner": "search", "filter": "filter", "answerer": "answer"}
NAMES = ("planner", "planner_remind", "filter", "answerer", "compressor")


def prompt(name: str) -> str:
    return (FULL / f"{name}.md").read_text(encoding="utf-8")


def replies(name: str) -> list[str]:
    """What the worked examples of a prompt reply."""
    return re.findall(r"^Your reply:\n(.*?)(?=\n\n|\n--- user)", prompt(name), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", TAGS)
def test_the_worked_examples_are_in_the_format_that_is_read(name: str) -> None:
    assert len(replies(name)) >= 2
    for reply in replies(name):
        parsed = parse(reply)
        assert not parsed.problems
        assert parsed.outside.strip() == ""
        assert [block.tag for block in parsed.blocks] == ["think", TAGS[name]]


@pytest.mark.parametrize("name", NAMES)
def test_no_tag_holds_a_placeholder_and_no_prompt_is_long(name: str) -> None:
    text = prompt(name)
    inside = re.findall(r"<(?:search|answer|filter|think)>(.*?)</", text, re.DOTALL)
    placeholders = {"query", "answer", "paragraph", "your query", "...", "…", "and", "search query", ""}
    assert not placeholders & {content.strip().casefold() for content in inside}
    assert len(text) / 4 < 720  # about four characters a token


def test_the_planner_is_told_to_think_and_to_search_with_all_that_the_question_says_at_first() -> None:
    text = prompt("planner")
    assert "While the memory is empty, your query must carry every constraint that the question states" in text
    assert "Think first" in text
    assert "take the question apart" in text


def test_the_system_runs_on_them() -> None:
    long = " ".join(f"fact{n}" for n in range(30))
    script = {
        "planner": ["no query", *PLANNER[:1], *PLANNER[1:]],
        "filter": [f"<filter>{long}</filter>", *FILTER[1:]],
        "answerer": ANSWERER,
        "compressor": ["fact0"],
    }
    episode = Decor(ScriptedEngine(script), FakeSearch(), prompts=FULL, memory_tokens=30).ask(QUESTION)
    assert episode.answer == "Kestel"
    first = episode.by_role("planner")[0]
    assert "You are the planner of a team" in first.segments[0].text
    assert "That was no query. Think about" in first.text
    assert f"Question: {QUESTION}\nMemory: empty\nPast queries: none" in first.segments[1].text
    assert "You shorten notes" in episode.by_role("compressor")[0].text
    assert "MARKER-ONE" in episode.by_role("filter")[0].segments[1].text
    assert {Path(name).stem for name in map(str, FULL.glob("*.md"))} == set(NAMES)
