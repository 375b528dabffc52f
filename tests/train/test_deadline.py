"""A slice ends in time: what the next step brings with it is counted, by a clock that only the test moves."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from subquest.train import run
from subquest.train.rl import RLTrainer
from subquest.train.run import Deadline, TrainRun
from subquest.train.sft import SFTTrainer
from subquest.train.traces import traces_of

from .episodes import rollouts_of
from .test_rl import QUESTIONS, RECIPE, trainer


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand(monkeypatch: pytest.MonkeyPatch) -> Hand:
    clock = Hand()
    monkeypatch.setattr(run, "monotonic", clock)
    return clock


def test_the_longest_of_each_part_counts_with_a_fifth_on_top(hand: Hand) -> None:
    slice_ = Deadline(minutes=2)  # 120 s
    assert not slice_.is_near(evaluates=True)
    for part, seconds in (("step", 9.0), ("step", 10.0), ("step", 8.0), ("export", 5.0), ("checkpoint", 15.0)):
        with slice_.timed(part):  # type: ignore[arg-type]
            hand.now += seconds
    slice_.record("evaluation", 25.0)
    # 47 s have gone; a step with the end is 1.2 × (10 + 5 + 15) = 36 s, with an evaluation 1.2 × 55 = 66 s
    assert not slice_.is_near(evaluates=True)
    hand.now += 7.5
    assert slice_.is_near(evaluates=True)
    assert not slice_.is_near(evaluates=False)
    hand.now += 29
    assert not slice_.is_near(evaluates=False)
    hand.now += 1
    assert slice_.is_near(evaluates=False)


def test_without_minutes_there_is_always_time(hand: Hand) -> None:
    endless = Deadline()
    endless.record("evaluation", 1e9)
    hand.now += 1e9
    assert not endless.is_near(evaluates=True)


def slow(t: RLTrainer | SFTTrainer, hand: Hand) -> None:
    """By the test's clock a step takes 10 s, an evaluation 60 s, a checkpoint 20 s."""
    solve, save, one_step = t.evaluator.greedy.solve, t.run.checkpoints.save, t.one_step
    each = 60 / len(t.evaluator.dev)

    async def slow_solve(*args: Any, **kwargs: Any) -> Any:
        hand.now += each
        return await solve(*args, **kwargs)

    def slow_save(*args: Any, **kwargs: Any) -> Any:
        hand.now += 20
        return save(*args, **kwargs)

    def slow_figures(figures: Mapping[str, float]) -> dict[str, float]:
        hand.now += 10
        return {**figures, "seconds": 10.0}

    async def slow_rl_step() -> Any:
        figures, episodes = await one_step()  # type: ignore[misc]
        return slow_figures(figures), episodes

    def slow_sft_step() -> Any:
        return slow_figures(one_step())  # type: ignore[arg-type]

    parts: tuple[tuple[Any, str, Any], ...] = (
        (t.evaluator.greedy, "solve", slow_solve),
        (t.run.checkpoints, "save", slow_save),
        (t, "one_step", slow_rl_step if isinstance(t, RLTrainer) else slow_sft_step),
    )
    for thing, name, method in parts:
        setattr(thing, name, method)


def seconds_of(t: RLTrainer | SFTTrainer, hand: Hand) -> float:
    """What a slice takes from its start to its end."""
    slow(t, hand)
    start = hand.now

    async def work() -> None:
        await t.train()
        await t.engine.close()

    asyncio.run(work())
    t.run.close()
    return hand.now - start


@pytest.mark.parametrize(("minutes", "last"), [(2.6, 1), (3.6, 1), (3.7, 2)])
def test_a_step_is_left_to_the_next_slice_with_its_evaluation(
    tmp_path: Path, hand: Hand, minutes: float, last: int
) -> None:
    """The first evaluation and checkpoint are over after 80 s, the first step with its checkpoint after 110 s. The
    second with its evaluation may take 1.2 × (10 + 60 + 20) = 108 s: it begins where the slice has 218 s."""
    recipe = replace(RECIPE, optimiser=replace(RECIPE.optimiser, steps=2), evaluate_every=2)
    t = trainer(tmp_path, recipe, minutes=minutes)
    assert seconds_of(t, hand) <= 60 * minutes
    assert (t.step, max(t.run.checkpoints.steps())) == (last, last)


@pytest.mark.parametrize(("minutes", "last"), [(3.0, 3), (4.2, 3), (4.5, 4)])
def test_fine_tuning_keeps_the_time_too(tmp_path: Path, hand: Hand, minutes: float, last: int) -> None:
    """Three steps, each with a checkpoint, and the evaluation after the second are over after 150 s. The fourth with
    its evaluation may take 1.2 × (10 + 60 + 20) = 108 s: it begins where the slice has 258 s."""
    parts = trainer(tmp_path / "parts")
    parts.run.close()
    recipe = replace(RECIPE, kind="sft", optimiser=replace(RECIPE.optimiser, batch=1, steps=4), evaluate_every=2)
    traces = traces_of([rollouts_of(name, {"planner": 1}) for name in "abcd"])
    training = TrainRun(tmp_path / "run", recipe, minutes=minutes)
    t = SFTTrainer(training, parts.policy, parts.engine, parts.evaluator.greedy, traces, QUESTIONS[:2])
    assert seconds_of(t, hand) <= 60 * minutes
    assert (t.step, max(training.checkpoints.steps())) == (last, last)
