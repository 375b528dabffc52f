"""The choice of the best weights: forced answers are seen, and not what chooses."""

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from subquest.codec import from_dict
from subquest.engine.scripted import ScriptedEngine
from subquest.record import Question
from subquest.systems.coda import CoDA
from subquest.train.recipe import Recipe
from subquest.train.trainer import Evaluator
from tests.systems.fakes import FakeSearch

RECIPE = from_dict(
    Recipe,
    {"name": "r", "kind": "rl", "system": "coda", "model": {"path": "m"}, "data": [{"questions": "q.jsonl"}]},
)


class Kept:
    """A run that notes which weights it was told to keep."""

    recipe = RECIPE
    deadline = SimpleNamespace(timed=lambda name: contextlib.nullcontext())

    def __init__(self) -> None:
        self.best: list[dict[str, Any]] = []

    def save_best(self, policy: object, figures: dict[str, Any]) -> None:
        self.best.append(figures)

    def keep(self, step: int, episodes: object) -> None:
        pass


def answering(*planner: str) -> CoDA:
    engine = ScriptedEngine({"planner": planner, "executor": ["<result>Kestel</result>"]})
    return CoDA(engine, FakeSearch(), turns=1)


async def test_the_best_weights_answer_unforced() -> None:
    run: Any = Kept()
    dev = [Question("q", "Where was Mila Torrun born?", ("Kestel",))]
    evaluator = Evaluator(run, None, answering("<task>Where?</task>", "<answer>Kestel</answer>"), dev)  # type: ignore[arg-type]
    forced = await evaluator.evaluate(1)
    assert (forced["dev_em"], forced["dev_f1"], forced["dev_f1_written"], forced["dev_forced"]) == (1.0, 1.0, 0.0, 1.0)
    evaluator.greedy = answering("<answer>Kestel, perhaps</answer>")
    own = await evaluator.evaluate(2)  # precision 1 / 2, recall 1: F1 2 / 3
    assert (own["dev_em"], own["dev_forced"]) == (0.0, 0.0)
    assert own["dev_f1"] == own["dev_f1_written"] == pytest.approx(2 / 3)
    assert [figures["step"] for figures in run.best] == [1, 2]
    evaluator.greedy = answering("<task>Where?</task>", "<answer>Kestel</answer>")
    await evaluator.evaluate(3)
    assert [figures["step"] for figures in run.best] == [1, 2], "a forced answer is none"
