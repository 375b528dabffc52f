"""The full prompts of HiRA and its baselines: for models that were never trained on our formats."""

import datetime
import re

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.systems.baselines.react_tools import ReActTools
from subquest.systems.hira import HiRA
from subquest.systems.hira.tolerant import first_object
from subquest.systems.prompting import COMPACT, FULL
from subquest.systems.replies import boxed

from .test_hira import CALL, Facts, distilled, prompts, selection

FILES = [path for name in ("hira", "plan-experts", "react-tools") for path in sorted((COMPACT / name).glob("*.md"))]
GIVEN = {"date"}
"""Fields that the code gives and only full prompts use."""


def fields(path):
    return set(re.findall(r"\$([a-z_]+)", path.read_text()))


def test_there_is_a_full_prompt_for_every_compact_one_and_no_other():
    ours = {path.relative_to(COMPACT) for path in FILES}
    assert {
        p.relative_to(FULL) for p in FULL.glob("*/*.md") if COMPACT / p.parent.name in {f.parent for f in FILES}
    } == ours


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_full_prompt_has_the_fields_and_the_parts_of_the_compact_one(path):
    full = FULL / path.relative_to(COMPACT)
    assert fields(full) - GIVEN == fields(path)
    assert ("--- user\n" in full.read_text()) == ("--- user\n" in path.read_text())


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_stands_between_tags_that_a_model_could_copy_for_an_action(path):
    """Concrete examples: a model copies `<|begin_x|>query<|end_x|>` as it is."""
    text = (FULL / path.relative_to(COMPACT)).read_text()
    inside = [m[2].strip() for m in re.finditer(r"<\|begin_(\w+)\|>(.*?)<\|end_\1\|>", text, re.DOTALL)]
    generic = {"and", "query", "code", "name", "result", "sub-task", "output", "page", "answer", "findings", "text"}
    assert not [content for content in inside if "…" in content or content.casefold() in generic]
    assert not re.search(r"\\boxed\{(?:answer|your answer|\.\.\.|…)\}", text)


@pytest.mark.parametrize("role", ["planner", "planner_no_transfer", "deep", "explorer", "code", "multimodal"])
def test_the_worked_example_is_read_as_it_is_meant(role):
    """Every call of the example is one that the system would carry out, and each has its result."""
    example = (FULL / f"hira/{role}.md").read_text().partition("\nExample\n")[2].partition("--- user")[0]
    called = re.findall(r"<\|end_(call_subtask|search_query|click_link|code_call|multimodal_call)\|><\|begin_", example)
    assert len(called) >= 2
    assert boxed(example) or "Final Information: " in example


def test_the_json_of_the_examples_can_be_read():
    for name, key in (("select", "selected_agent_name"), ("search", "query_plan"), ("distil", "memory")):
        assert key in first_object((FULL / f"hira/{name}.md").read_text().partition("\nExample")[2])
    assert first_object((FULL / "plan-experts/planner.md").read_text())["plan"]


async def test_hira_runs_on_the_full_prompts_and_tells_the_searcher_the_date():
    replies = {
        "planner": [CALL.format("Who is the mayor of Kelm?"), "\\boxed{Ida Brandt}"],
        "coordinator": [selection("search"), distilled("Ida Brandt")],
        "search": ['{"query_plan": ["mayor Kelm"]}', "\\boxed{Ida Brandt}"],
    }
    episode = await HiRA(ScriptedEngine(replies), Facts(), prompts="full").solve("Who is the mayor of Kelm?")
    assert (episode.answer, episode.errors) == ("Ida Brandt", ())
    today = datetime.date.today().year
    assert f"Today is {today}" in prompts(episode, "search")[0]
    react = await ReActTools(ScriptedEngine(["\\boxed{x}"]), prompts="full").solve("q")
    assert f"Today is {today}" in prompts(react, "agent")[0]
