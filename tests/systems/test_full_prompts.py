"""The full prompts: for models that were never trained on our formats. Same names and fields as the compact ones."""

import re
from pathlib import Path

import pytest

from subquest.systems.baselines.dialect import DIALECTS, Dialect
from subquest.systems.baselines.o2_searcher import O2_SEARCHER
from subquest.systems.baselines.plan_and_solve import PLAN_AND_SOLVE
from subquest.systems.baselines.react import REACT
from subquest.systems.baselines.search_o1 import SEARCH_O1
from subquest.systems.prompting import COMPACT, FULL

SYSTEMS = (
    "autorefine", "search-r1", "research", "recall", "r1-searcher", "simpledeepsearcher", "react", "search-o1", "ircot",
    "o2-searcher", "plan-and-solve", "rag", "cot", "direct",
)  # fmt: skip
SHARED = ("force", "remind", "abstain", "tools")
NAMES = [f"{path.relative_to(COMPACT)}" for name in SYSTEMS for path in sorted((COMPACT / name).glob("*.md"))]
WORDS_ALLOWED = 450
PLACEHOLDER = re.compile(
    r"<(\w+)>\s*(?:an?|the|your|short|sub-?)?\s*(?:quer(?:y|ies)|answers?|tasks?|questions?|sub-?questions?|keywords|facts|"
    r"notes|steps?|results?|\.\.\.|and)\s*</\1>|\[(?:query|answer|short answer)\]|\{answer\}",
    re.IGNORECASE,
)


def fields(text: str) -> set[str]:
    return set(re.findall(r"\$([a-z_]+)", text))


@pytest.mark.parametrize("name", [*NAMES, *(f"{shared}.md" for shared in SHARED)])
def test_a_full_prompt_stands_in_for_the_compact_one(name: str) -> None:
    compact, full = (COMPACT / name).read_text(encoding="utf-8"), (FULL / name).read_text(encoding="utf-8")
    assert fields(full) == fields(compact)
    assert ("\n--- user\n" in full) == ("\n--- user\n" in compact)
    assert PLACEHOLDER.search(full) is None
    assert len(full.split()) < WORDS_ALLOWED


@pytest.mark.parametrize(
    "dialect", [*DIALECTS.values(), REACT, SEARCH_O1, PLAN_AND_SOLVE, O2_SEARCHER], ids=lambda d: d.name
)
def test_the_worked_example_is_spoken_in_the_dialect(dialect: Dialect) -> None:
    """Cut into turns where the stop strings cut, every turn of the example is an action, and the last one answers."""
    folder = Path(dialect.prompts or dialect.name)
    example = (FULL / folder / "agent.md").read_text(encoding="utf-8").partition("--- user")[0]
    example = example[example.index("\nQuestion:") :]
    shown = dialect.observation.partition("$documents")[0].strip()
    turns = [turn for turn in re.split(rf"{re.escape(shown)}", example) if turn]
    actions = [dialect.action(_after_documents(turn, dialect)) for turn in turns]
    assert len(actions) >= 3
    assert all(action is not None and action.queries for action in actions[:-1])
    assert actions[-1] is not None
    assert actions[-1].answer in ("Pellwick", "Joss Penrith")


def _after_documents(turn: str, dialect: Dialect) -> str:
    end = dialect.observation.partition("$documents")[2].strip()
    return turn.rpartition(end)[2] if end else turn


@pytest.mark.parametrize(
    "name", ["force.md", "remind.md", *(n for n in NAMES if n.endswith(("force.md", "remind.md")))]
)
def test_reminders_speak_in_the_voice_of_the_turn_that_they_continue(name: str) -> None:
    text = (FULL / name).read_text(encoding="utf-8")
    chat = name.startswith(("recall/", "plan-and-solve/", "o2-searcher/"))
    assert bool(re.search(r"\bI\b", text)) is not chat


def test_documents_are_data_wherever_they_are_shown() -> None:
    silent = {"direct/answerer.md", "cot/answerer.md", "plan-and-solve/planner.md"}
    for name in NAMES:
        if name not in silent and not name.endswith(("force.md", "remind.md")):
            assert "data" in (FULL / name).read_text(encoding="utf-8"), name
