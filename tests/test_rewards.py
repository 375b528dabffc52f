"""Rewards by name, user terms, plan rewards."""

import importlib
from pathlib import Path

import numpy as np
import pytest

from subquest.errors import ConfigError, DataError, UsageError
from subquest.record import Episode, Question, Segment, Step, Trajectory
from subquest.rewards import find_term, load, names

from .systems.test_coda_reward import GOOD


async def test_a_users_file_adds_a_term(tmp_path: Path) -> None:
    file = tmp_path / "brief.py"
    file.write_text("def brevity(episode):\n    return 1 / len(episode.answer.split())\n")
    reward = (await load("coda", terms={f"{file}:brevity": 0.2}).score([GOOD]))[0]
    assert reward.terms["brevity"] == pytest.approx(0.1)
    assert reward.total == pytest.approx(5.6)
    assert reward.roles == pytest.approx({"planner": 5.6, "executor": 5.6})


async def test_an_installed_package_adds_a_term(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "their_terms-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: their-terms\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text("[subquest.rewards]\nsearches = their_terms:searches\n")
    (tmp_path / "their_terms.py").write_text("def searches(episode):\n    return -episode.usage.searches\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    reward = (await load("search-r1", terms={"searches": 0.01}).score([GOOD]))[0]
    assert set(reward.terms) == {"em", "searches"}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 3\n", "defines no 'term'"),
        ("term = 3\n", "not a function"),
        ("def term(\n", "does not load: SyntaxError"),
    ],
)
def test_bad_term_files_are_named(tmp_path: Path, source: str, words: str) -> None:
    file = tmp_path / "bad.py"
    file.write_text(source)
    with pytest.raises(UsageError, match=words):
        find_term(f"{file}:term")


async def test_bad_names_and_values_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'coda'"):
        load("codda")
    with pytest.raises(UsageError, match="there is no file"):
        find_term(str(tmp_path / "none.py:term"))
    with pytest.raises(UsageError, match="there is no reward term 'nosuch'"):
        load("coda", terms={"nosuch": 1.0})
    file = tmp_path / "text.py"
    file.write_text("def term(episode):\n    return 'much'\ndef hole(episode):\n    return float('nan')\n")
    with pytest.raises(UsageError, match="gave 'much' for episode e"):
        await load("coda", terms={f"{file}:term": 1.0}).score([GOOD])
    with pytest.raises(UsageError, match="must be finite"):
        await load("coda", terms={f"{file}:hole": 1.0}).score([GOOD])


async def test_a_term_may_use_dataclasses_and_numpy(tmp_path: Path) -> None:
    file = tmp_path / "shares.py"
    file.write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass\nimport numpy as np\n\n"
        "@dataclass\nclass Share:\n    value: float\n\n"
        "def half(episode):\n    return np.float32(Share(0.5).value)\n"
    )
    reward = (await load("coda", terms={f"{file}:half": 1.0}).score([GOOD]))[0]
    assert reward.terms["half"] == 0.5


async def test_a_term_that_fails_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("def term(episode):\n    return 1 / 0\n")
    with pytest.raises(UsageError, match=r"'term' failed for episode e: ZeroDivisionError: .*broken\.py:2"):
        await load("coda", terms={f"{file}:term": 1.0}).score([GOOD])


async def test_no_term_hides_another(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text("def answer(episode):\n    return 1.0\n")
    with pytest.raises(UsageError, match="two reward terms named 'answer'"):
        await load("coda", terms={f"{tmp_path}/one.py:answer": 1.0}).score([GOOD])
    both = {f"{tmp_path}/{name}.py:answer": 1.0 for name in ("one", "two")}
    with pytest.raises(UsageError, match="two reward terms named 'answer'"):
        await load("search-r1", terms=both).score([GOOD])


def planned(text: str, *steps: str) -> Episode:
    question = Question("q", "?", ("a",), decomposition=tuple(Step(s) for s in steps))
    return Episode("e", question, "apex", "m", (Trajectory("1", "planner", "", segments=(Segment("agent", text),)),))


def letters(texts: list[str]) -> np.ndarray:
    return np.array([[t.lower().count(c) for c in "abcdefghijklmnopqrstuvwxyz#"] for t in texts], dtype=float)


async def test_plan_reward() -> None:
    episodes = [
        planned("<plan>\n1. Who made it?\n2. Where was #1 born?\n</plan>", "Who made it?", "Where was #1 born?"),
        planned("<plan>\n1. Who made it?\n</plan>", "Who made it?", "Where was #1 born?"),
        planned("1. Who made it?\n2. Where was #1 born?", "Who made it?", "Where was #1 born?"),
    ]
    rewards = await load("apex-plan", embedder=letters, tau=0.99).score(episodes)
    assert [r.total for r in rewards] == pytest.approx([1.0, 2 / 3, 0.0])
    assert rewards[1].roles == pytest.approx({"planner": 2 / 3})
    assert rewards[1].terms["sepr_recall"] == 0.5
    with pytest.raises(DataError, match="has no gold decomposition"):
        await load("apex-plan", embedder=letters).score([GOOD])


def test_every_preset_loads() -> None:
    for name in names():
        assert load(name)


def test_options_change_a_preset() -> None:
    assert load("decor", options={"alpha": 1}).alpha == 1  # type: ignore[attr-defined]
    assert load("coda", options={"refine": False}) == load("coda-no-refine")
    with pytest.raises(UsageError, match="has no setting 'beta'; choose from: alpha, lambda_, match, blame"):
        load("decor", options={"beta": 0.4})
    with pytest.raises(UsageError, match="refine must be true or false, not 0"):
        load("coda", options={"refine": 0})


@pytest.mark.parametrize(
    ("preset", "option", "message"),
    [
        ("coda", {"reading": "cod"}, "reading must be one of code, paper, not 'cod'"),
        ("decor", {"match": "bleu"}, "match must be one of em, f1, not 'bleu'"),
        ("decor", {"blame": "none"}, "blame must be one of all, offender, not 'none'"),
    ],
)
def test_a_choice_that_is_none_is_refused(preset: str, option: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(preset, options=option)
