"""Rollouts that overlap the update: one step off-policy, weighed, learnt from, and resumed exactly."""

import asyncio
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subquest.train.batch import Rollout, pack
from subquest.train.loss import importance
from subquest.train.recipe import Recipe

from .episodes import episode, trajectory
from .test_rl import RECIPE, finish, trainer

OVERLAPPED = replace(RECIPE, rollout=replace(RECIPE.rollout, overlap=True), checkpoint_every=4)


def test_importance_weights_by_hand() -> None:
    old = torch.tensor([-1.0, -1.0, -3.0])
    behaviour = torch.tensor([-1.5, -3.0, -1.0])
    found = importance(old, behaviour, cap=2.0)
    assert found.weights.tolist() == pytest.approx([math.exp(0.5), 2.0, math.exp(-2.0)])
    assert found.truncated == pytest.approx(1 / 3)
    # one weight a unit: the first two tokens have a mean gap of 1.25, which is cut
    pooled = importance(old, behaviour, cap=2.0, units=torch.tensor([0, 0, 1]))
    assert pooled.weights.tolist() == pytest.approx([2.0, 2.0, math.exp(-2.0)])
    assert pooled.truncated == pytest.approx(2 / 3)


def test_weights_of_the_sampling_policy_itself_are_one() -> None:
    old = torch.tensor([-0.1, -2.0])
    found = importance(old, old, cap=2.0)
    assert found.weights.tolist() == [1.0, 1.0]
    assert found.truncated == 0.0


def test_a_step_on_old_samples_weighs_advantages(tmp_path: Path) -> None:
    """The update sees advantage times min(old / behaviour, cap), token by token; -0.1 * id was the behaviour."""
    t = trainer(tmp_path, OVERLAPPED)
    e = episode("e", trajectory("t", "planner", ("prompt", [5, 6]), ("agent", [7, 8, 9])))
    batch = pack([Rollout(e, {"t": 2.0})])
    old = torch.tensor([-0.7 + 0.5, -0.8 - 1.0, -0.9 + 3.0])
    (weighed,), mean, cut = t._weighed([batch], [old])
    expected = [math.exp(0.5), math.exp(-1.0), 2.0]
    assert weighed.advantages.tolist() == pytest.approx([2 * w for w in expected], rel=1e-5)
    assert mean == pytest.approx(sum(expected) / 3, rel=1e-5)
    assert cut == pytest.approx(1 / 3)
    asyncio.run(t.engine.close())
    t.run.close()


@pytest.mark.slow
def test_each_batch_is_one_step_old_except_after_a_checkpoint(tmp_path: Path) -> None:
    t = trainer(tmp_path, replace(OVERLAPPED, optimiser=replace(RECIPE.optimiser, steps=6)))
    seen: list[tuple[int, set[int | None]]] = []
    one_step = t.one_step

    async def spied() -> object:
        before = t.step
        figures, episodes = await one_step()
        versions = {s.policy for e in episodes for tr in e.trajectories for s in tr.segments if s.kind == "agent"}
        seen.append((before, versions))
        assert ("importance" in figures) == (versions != {before})
        return figures, episodes

    t.one_step = spied  # type: ignore[method-assign, assignment]
    finish(t)
    assert seen == [(0, {0}), (1, {0}), (2, {1}), (3, {2}), (4, {4}), (5, {4})]


@pytest.mark.slow
def test_it_learns_from_old_samples(tmp_path: Path) -> None:
    recipe = replace(
        OVERLAPPED,
        optimiser=replace(RECIPE.optimiser, steps=16),
        rollout=replace(OVERLAPPED.rollout, questions=8),
        checkpoint_every=20,
    )
    curves = finish(trainer(tmp_path, recipe))
    first, last = (sum(curves[s]["reward"] for s in steps) / 3 for steps in ((1, 2, 3), (14, 15, 16)))
    assert last > 2 * first
    assert curves[5]["importance"] != 1.0
    assert 0.2 < curves[5]["importance"] <= 2.0


@pytest.mark.slow
def test_an_interrupted_run_equals_the_unbroken_one(tmp_path: Path) -> None:
    recipe: Recipe = replace(OVERLAPPED, checkpoint_every=2)
    unbroken = finish(trainer(tmp_path / "a", recipe))

    class Killed(Exception):
        pass

    def kill(step: int, figures: object) -> None:
        if step == 3:
            raise Killed

    with pytest.raises(Killed):
        finish(trainer(tmp_path / "b", recipe, watch=kill))
    t = trainer(tmp_path / "b", recipe)
    assert t.step == 2
    resumed = finish(t)
    # importance weights carry the rounding of behaviour log-probs, which depends on the turns that shared a batch
    for step, figures in unbroken.items():
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "importance", "em", "dev_f1"):
            if name in figures:
                assert resumed[step][name] == pytest.approx(figures[name], rel=1e-4, abs=1e-6), (step, name)
