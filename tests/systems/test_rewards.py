"""Rewards of episodes that the real systems made, from records to packed batches."""

from dataclasses import replace

import pytest

from subquest.engine.interface import Sampling
from subquest.engine.scripted import ScriptedEngine
from subquest.judge import steps_of
from subquest.record import Episode, Question, Step
from subquest.rewards import load
from subquest.systems.apex import APEX
from subquest.systems.coda import CoDA
from subquest.systems.decor import DECOR
from subquest.train.advantage import BASELINES, trajectory_advantages
from subquest.train.batch import Rollout, pack
from subquest.train.loss import LOSSES
from tests.systems import test_coda as coda
from tests.systems import test_decor as decor
from tests.systems.fakes import FakeSearch

QUESTION = Question(
    "b",
    coda.QUESTION,
    ("Kestel",),
    decomposition=(Step("Who designed the Orvane Bridge?", "Mila Torrun"), Step("Where was #1 born?", "Kestel")),
)
SAMPLING = Sampling(logprobs=True, temperature=1.0)


async def coda_episode(planner: list[str], executor: list[str]) -> Episode:
    engine = ScriptedEngine({"planner": planner, "executor": executor})
    return await CoDA(engine, FakeSearch(), sampling=SAMPLING).solve(QUESTION)


async def decor_episode(planner: list[str], filter: list[str], answerer: list[str], *, strict: bool = False) -> Episode:
    engine = ScriptedEngine({"planner": planner, "filter": filter, "answerer": answerer, "compressor": []})
    return await DECOR(engine, FakeSearch(), sampling=SAMPLING, strict=strict).solve(QUESTION)


async def test_coda() -> None:
    good = await coda_episode(coda.PLANNER, coda.EXECUTOR)
    lazy = await coda_episode(["<answer>Kestel</answer>"], [])
    broken = await coda_episode(["<task>Who designed the Orvane Bridge?</task>", "<answer>Lund"], coda.EXECUTOR[:2])
    rewards = await load("coda").score([good, lazy, broken])
    assert [dict(r.terms) for r in rewards] == [
        {"answer": 3.0, "format_planner": 1.0, "format_executor": 1.0, "refine": 0.5},
        {"answer": 3.0, "format_planner": 1.0, "format_executor": 0.0, "refine": 0.0},
        {"answer": -3.0, "format_planner": 0.0, "format_executor": 1.0, "refine": 0.0},
    ]
    advantages = trajectory_advantages([good, lazy, broken], rewards)
    batch = pack([Rollout(e, a) for e, a in zip((good, lazy, broken), advantages, strict=True)])
    assert batch.lengths.numel() == 3 + 1 + 2
    assert batch.behaviour is not None
    written = sum(
        len(s.token_ids) for e in (good, lazy, broken) for t in e.trajectories for s in t.segments if s.kind == "agent"
    )
    assert batch.rows.numel() == written, "every sampled token and no other"


async def test_decor() -> None:
    good = await decor_episode(decor.PLANNER, decor.FILTER, decor.ANSWERER)
    steps = steps_of(good)
    assert [s.role for s in steps] == ["planner", "filter", "planner", "filter", "planner", "answerer"]
    assert "MARKER-ONE" in steps[1].documents
    assert "Query:" not in steps[1].documents
    assert steps[5].memory == (
        "The Orvane Bridge was designed by Mila Torrun.",
        "Mila Torrun was born in Kestel in 1889.",
    )
    repeating = await decor_episode(
        [decor.PLANNER[0], decor.PLANNER[0], decor.PLANNER[2]], decor.FILTER[:1] * 2, ["<answer>Lund</answer>"]
    )
    stopped = await decor_episode(["no tags at all"], [], [], strict=True)
    rewards = await load("decor").score([good, repeating, stopped])
    assert rewards[0].roles == pytest.approx({"planner": 1.0, "filter": 1.0, "answerer": 1.0})
    assert rewards[1].steps["2"] == pytest.approx(-0.4), "the repeated query"
    assert rewards[1].roles["planner"] == pytest.approx(0.4 / 3)
    assert rewards[2].roles == {"planner": -1.0}
    settings = LOSSES["decor"]
    advantages = trajectory_advantages([good, repeating, stopped], rewards, BASELINES["decor"], by="role")
    rollouts = [Rollout(e, a) for e, a in zip((good, repeating, stopped), advantages, strict=True)]
    batch = pack(rollouts, aggregation=settings.aggregation)
    units = batch.layout.units("role")
    assert units is not None
    assert int(units.max()) + 1 == 3 + 3 + 1, "one ratio a rollout and role"


async def test_apex() -> None:
    engine = ScriptedEngine(
        {
            "planner": ["<plan>\n1. Who designed the Orvane Bridge?\n2. Where was #1 born?\n</plan>"],
            "executor": ["<answer>Mila Torrun</answer>", "<answer>Kestel</answer>"],
            "synthesizer": ["<answer>Kestel</answer>"],
        }
    )
    episode = await APEX(engine, FakeSearch(), sampling=SAMPLING).solve(QUESTION)

    def letters(texts: list[str]) -> list[list[int]]:
        return [[text.count(c) for c in "abcdefghijklmnopqrstuvwxyz#"] for text in texts]

    (reward,) = await load("apex-plan", embedder=letters, tau=0.99).score([episode])
    assert (reward.total, dict(reward.roles)) == (1.0, {"planner": 1.0})
    other = replace(episode, question=replace(QUESTION, decomposition=QUESTION.decomposition[:1]))
    (reward,) = await load("apex-plan", embedder=letters, tau=0.99).score([other])
    assert reward.total == pytest.approx(2 / 3)
