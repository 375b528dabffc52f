"""A forced answer is worth what an empty one is, in every reward: what the policy did not write is not paid."""

from typing import Any

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.errors import EngineRefused
from subquest.limits import Limits
from subquest.record import Episode, Segment, Trajectory
from subquest.rewards import Reward, load, written_answer
from subquest.systems.apex import APEX
from subquest.systems.baselines.search_agent import AutoRefine, SearchR1
from subquest.systems.coda import CoDA
from subquest.systems.decor import DECOR
from tests.systems import test_decor as decor
from tests.systems.fakes import FakeSearch

from .test_rewards import QUESTION

TASK = "<task>Where was Mila Torrun born?</task>"
SEARCH = "<search>Mila Torrun born</search>"
REFINED = "<refine>She was born in Kestel.</refine>"
RESULT = f"{REFINED}<result>Kestel</result>"
ANSWER = "<answer>Kestel</answer>"


async def coda(planner: list[Any], executor: list[str], **settings: object) -> Episode:
    return await CoDA(ScriptedEngine({"planner": planner, "executor": executor}), FakeSearch(), **settings).solve(
        QUESTION
    )


async def reward(name: str, episode: Episode, **parts: Any) -> Reward:
    return (await load(name, **parts).score([episode]))[0]


def test_turns_of_its_own_accord() -> None:
    segments = (Segment("prompt", "p"), Segment("agent", "a"), Segment("env", "e"), Segment("agent", "b"))
    assert Trajectory("1", "agent", "", segments=segments).written_turns == ("a", "b")
    assert Trajectory("1", "agent", "", segments=segments, forced=True).written_turns == ("a",)
    assert Trajectory("1", "agent", "", forced=True).written_turns == ()


@pytest.mark.parametrize("preset", ["coda", "coda-code", "coda-em"])
@pytest.mark.parametrize("force", [True, False])
async def test_coda_planner(force: bool, preset: str) -> None:
    """The executor did its work: 1 for its format, 0.5 for its refinement; the planner never answered: -3 and 0."""
    episode = await coda([TASK, ANSWER], [SEARCH, RESULT], turns=1, force=force)
    assert (episode.answer, episode.forced) == (("Kestel", True) if force else ("", False))
    assert written_answer(episode) == ""
    found = await reward(preset, episode)
    assert found.terms == {"answer": -3.0, "format_planner": 0.0, "format_executor": 1.0, "refine": 0.5}
    assert found.roles == {"planner": -1.5, "executor": -1.5}
    own = await reward(preset, await coda([TASK, ANSWER], [SEARCH, RESULT], turns=2, force=force))
    assert own.terms == {"answer": 3.0, "format_planner": 1.0, "format_executor": 1.0, "refine": 0.5}


@pytest.mark.parametrize("preset", ["coda", "coda-code"])
@pytest.mark.parametrize("force", [True, False])
async def test_coda_executor(force: bool, preset: str) -> None:
    """Neither the format nor the refinement of a forced result; the planner's own answer counts."""
    episode = await coda([TASK, ANSWER], [SEARCH, RESULT], executor_turns=1, force=force)
    assert episode.by_role("executor")[0].result == ("Kestel" if force else "No result was found.")
    assert (await reward(preset, episode)).terms == {
        "answer": 3.0,
        "format_planner": 1.0,
        "format_executor": 0.0,
        "refine": 0.0,
    }


async def test_coda_refinement_before_a_forced_turn() -> None:
    """What was refined unforced is paid, however the executor ended."""
    executor = [SEARCH, f"{REFINED}<search>Kestel</search>", "<result>Kestel</result>"]
    episode = await coda([TASK, ANSWER], executor, executor_turns=2)
    assert episode.by_role("executor")[0].forced
    assert (await reward("coda", episode)).terms["refine"] == 0.5


@pytest.mark.parametrize("last", [EngineRefused("401"), ""])
async def test_coda_answers_taken_from_a_result(last: object) -> None:
    episode = await coda([TASK, last], [SEARCH, RESULT], turns=1 if last == "" else 6)
    assert (episode.answer, episode.forced, episode.stop_reason) == ("Kestel", True, "forced")
    assert (await reward("coda", episode)).total == -3.0 + 0.0 + 1.0 + 0.5


@pytest.mark.parametrize("force", [True, False])
async def test_search_r1(force: bool) -> None:
    async def asked(turns: int) -> Episode:
        return await SearchR1(ScriptedEngine([SEARCH, ANSWER]), FakeSearch(), turns=turns, force=force).solve(QUESTION)

    forced = await asked(1)
    assert (forced.answer, forced.forced) == (("Kestel", True) if force else ("", False))
    assert (await reward("search-r1", forced)).total == 0.0
    assert (await reward("search-r1", await asked(2))).total == 1.0


@pytest.mark.parametrize("force", [True, False])
async def test_autorefine(force: bool) -> None:
    async def asked(*turns: str) -> Reward:
        system = AutoRefine(ScriptedEngine([*turns, f"{REFINED}{ANSWER}"]), FakeSearch(), turns=len(turns), force=force)
        return await reward("autorefine", await system.solve(QUESTION))

    assert (await asked(SEARCH)).terms == {"f1": 0.0, "refine": 0.0}, "refined in the forced turn"
    assert (await asked(SEARCH, f"{REFINED}<search>Kestel</search>")).terms == {"f1": 0.0, "refine": 0.1}
    assert (await asked(SEARCH, f"{REFINED}{ANSWER}")).terms == {"f1": 1.0, "refine": 0.0}


async def test_decor() -> None:
    """R_team is 0 and the answerer has no answer: 0.6 x 0 + 0.4 x (-1); planner and filter did well: 0.4 x 1."""

    async def asked(limits: Limits) -> Episode:
        script = {"planner": decor.PLANNER, "filter": decor.FILTER, "answerer": decor.ANSWERER}
        return await DECOR(ScriptedEngine(script), FakeSearch(), limits=limits).solve(QUESTION)

    forced = await asked(Limits(calls=5))
    assert (forced.answer, forced.forced) == ("Kestel", True)
    found = await reward("decor", forced)
    assert found.terms["team"] == 0.0
    assert found.roles == pytest.approx({"planner": 0.4, "filter": 0.4, "answerer": -0.4})
    assert (await reward("decor-f1", forced)).total == 0.0
    assert (await reward("decor-em", forced)).total == 0.0
    assert (await reward("decor", await asked(Limits()))).roles == pytest.approx(
        {"planner": 1.0, "filter": 1.0, "answerer": 1.0}
    )


async def test_apex_pays_the_plan_however_the_answer_came_about() -> None:
    script = {
        "planner": ["<plan>\n1. Who designed the Orvane Bridge?\n2. Where was #1 born?\n</plan>"],
        "executor": ["answer", "<answer>Mila Torrun</answer>", "answer", "<answer>Kestel</answer>"],
        "synthesizer": [ANSWER],
    }
    episode = await APEX(ScriptedEngine(script), FakeSearch(), limits=Limits(calls=5)).solve(QUESTION)
    assert (episode.answer, episode.forced, written_answer(episode)) == ("Kestel", True, "")

    def letters(texts: list[str]) -> list[list[int]]:
        return [[text.count(c) for c in "abcdefghijklmnopqrstuvwxyz#"] for text in texts]

    assert (await reward("apex-plan", episode, embedder=letters, tau=0.99)).total == 1.0
