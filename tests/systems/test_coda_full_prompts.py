"""CoDA's full prompts: names and fields of the compact ones, examples that our parser accepts, no placeholders."""

import re
from pathlib import Path

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.protocol import parse
from subquest.record import Segment, Trajectory
from subquest.rewards.format import well_formed
from subquest.systems.coda import CoDA
from subquest.systems.prompting import FOLDER

from .fakes import FakeSearch
from .test_coda import EXECUTOR, PLANNER, QUESTION

COMPACT, FULL = FOLDER / "compact" / "coda", FOLDER / "full" / "coda"
NAMES = sorted(file.stem for file in COMPACT.glob("*.md"))
PLACEHOLDERS = re.compile(
    r"<(\w+)>\s*(?:\1|sub-?questions?|sub-?tasks?|query|queries|facts?|your [\w ]+|\.{3}|…|\$\w+)?\s*</\1>"
)
WORDS = 420
"""About 700 tokens of a prompt with tags in it."""


def turns_of(name: str) -> list[list[str]]:
    """The turns of each worked example, as the model is shown to write them."""
    system = (FULL / f"{name}.md").read_text(encoding="utf-8").partition("\n--- user\n")[0]
    examples = re.split(r"^(?:Question|Task): .*\n", system, flags=re.MULTILINE)[1:]
    return [re.findall(r"You write:\n(.*?)(?=\nYou get back:|\n\n|\Z)", example, re.DOTALL) for example in examples]


@pytest.mark.parametrize("name", NAMES)
def test_names_fields_and_length(name: str) -> None:
    compact, full = ((folder / f"{name}.md").read_text(encoding="utf-8") for folder in (COMPACT, FULL))
    assert re.findall(r"\$[a-z_]+", full) == re.findall(r"\$[a-z_]+", compact)
    assert ("\n--- user\n" in full) == ("\n--- user\n" in compact)
    assert not PLACEHOLDERS.search(full)
    assert len(full.split()) < WORDS
    assert ("<refine>" in full) == ("<refine>" in compact)


def test_there_are_no_others() -> None:
    assert sorted(file.stem for file in FULL.glob("*.md")) == NAMES


@pytest.mark.parametrize("name", [name for name in NAMES if "--- user" in Path(COMPACT / f"{name}.md").read_text()])
def test_examples_are_what_the_system_reads(name: str) -> None:
    examples = turns_of(name)
    assert examples
    for turns in examples:
        assert len(turns) >= 2
        segments = tuple(Segment("agent", turn) for turn in turns)
        assert well_formed(Trajectory("1", name.partition("_")[0], "", segments=segments)), turns


def test_the_planner_is_shown_a_chain_and_a_comparison() -> None:
    chain, comparison = turns_of("planner")
    assert [len(parse(turn).all("task")) for turn in chain] == [1, 1, 1, 0]
    assert [len(parse(turn).all("task")) for turn in comparison] == [2, 0]


def test_the_system_runs_on_them() -> None:
    engine = ScriptedEngine({"planner": ["Hm.", *PLANNER], "executor": EXECUTOR})
    episode = CoDA(engine, FakeSearch(), prompts=FULL).ask(QUESTION)
    assert episode.answer == "Kestel"
    planner = episode.by_role("planner")[0]
    assert planner.segments[0].text.startswith("You are the planner.")
    assert planner.segments[1].text == f"Question: {QUESTION}"
