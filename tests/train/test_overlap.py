"""Rollouts that overlap the update: one step off-policy, weighed, learnt from, and resumed exactly."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from subquest.errors import ConfigError
from subquest.record import Episode
from subquest.train.batch import Batch, Rollout, pack
from subquest.train.loss import Level, LossSettings, importance
from subquest.train.optimiser import Optimiser, StepResult, logprobs_of
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import OptimiserPart, Recipe

from .episodes import episode, trajectory
from .test_rl import RECIPE, finish, trainer

OVERLAPPED = replace(RECIPE, rollout=replace(RECIPE.rollout, overlap=True), checkpoint_every=4)


def test_importance_weights_by_hand() -> None:
    old = torch.tensor([-1.0, -1.0, -3.0])
    behaviour = torch.tensor([-1.5, -3.0, -1.0])
    found = importance(old, behaviour, cap=2.0)
    assert found.weights.tolist() == pytest.approx([math.exp(0.5), 2.0, math.exp(-2.0)])
    assert found.truncated.tolist() == [False, True, False]
    # one weight a unit: the first two tokens have a mean gap of 1.25, which is cut
    pooled = importance(old, behaviour, cap=2.0, units=torch.tensor([0, 0, 1]))
    assert pooled.weights.tolist() == pytest.approx([2.0, 2.0, math.exp(-2.0)])
    assert pooled.truncated.tolist() == [True, True, False]
    # the first token is the old policy's own: its log-probs differ by rounding, and do not count
    mixed = importance(old, behaviour, cap=2.0, older=torch.tensor([False, True, True]))
    assert mixed.weights.tolist() == pytest.approx([1.0, 2.0, math.exp(-2.0)])
    pooled = importance(old, behaviour, cap=9.0, units=torch.tensor([0, 0, 1]), older=torch.tensor([False, True, True]))
    assert pooled.weights.tolist() == pytest.approx([math.exp(1.0), math.exp(1.0), math.exp(-2.0)])


def test_weights_of_the_sampling_policy_itself_are_one() -> None:
    old = torch.tensor([-0.1, -2.0])
    found = importance(old, old, cap=2.0)
    assert found.weights.tolist() == [1.0, 1.0]
    assert not found.truncated.any()


@pytest.mark.parametrize("level", ["token", "trajectory", "role"])
@pytest.mark.parametrize("updates", [1, 2])
def test_a_step_on_older_samples_weighs_advantages(level: Level, updates: int) -> None:
    """The gradient is that of advantages times min(old / behaviour, cap), the old log-probs from a pass of their own.

    Turns are by the weights that are improved (version 4) or by those before (3).
    """
    loss = LossSettings(level, clip_low=0.2, clip_high=0.2)
    episodes = [
        episode(f"e{n}", *(
            trajectory(f"{n}-{role}", role, ("prompt", [5, 6 + n]), ("agent", [7, 8 + n]), ("env", [3]), ("agent", [9]))
            for role in ("planner", "executor")
        ))
        for n in range(3)
    ]  # fmt: skip
    numbered = [with_versions(e, [3, 4] if n else [4, 4]) for n, e in enumerate(episodes)]
    worth = [{t.id: 1.0 + at - n for at, t in enumerate(e.trajectories)} for n, e in enumerate(numbered)]
    batch = pack(list(map(Rollout, numbered, worth)), version=4)
    assert batch.older is not None
    assert batch.older.tolist() == [False] * 6 + [True, True, False] * 4
    source = tiny_source("llama", vocabulary=260)

    def gradients(
        batch: Batch, cap: float | None, old: torch.Tensor | None
    ) -> tuple[dict[str, torch.Tensor], StepResult]:
        policy = Policy(source)
        optimiser = Optimiser(policy, OptimiserPart(micro_tokens=24, learning_rate=0.0, clip=0.0), 1)
        found: dict[str, torch.Tensor] = {}
        step = optimiser.adam.step

        def kept() -> None:
            found.update({name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None})
            step()

        optimiser.adam.step = kept  # type: ignore[method-assign, assignment]
        return found, optimiser.policy_step(batch, loss, temperature=1.0, old=old, reference=None, cap=cap)

    before = logprobs_of(Policy(source), batch, temperature=1.0, micro_tokens=1000)
    noise = 0.7 * torch.sin(torch.arange(before.numel()) + 1.0)
    batch = replace(batch, behaviour=before + noise)
    assert batch.behaviour is not None
    by = importance(before, batch.behaviour, cap=1.2, units=batch.layout.units(level), older=batch.older)
    assert by.truncated.any()
    ours, result = gradients(batch, 1.2, before if updates == 2 else None)
    by_hand, plain = gradients(replace(batch, advantages=batch.advantages * by.weights, older=None), None, before)
    assert ours.keys() == by_hand.keys() != set()
    for name, gradient in by_hand.items():
        torch.testing.assert_close(ours[name], gradient, rtol=1e-4, atol=1e-6)
    assert result.figures["importance"] == pytest.approx(float(by.weights.mean()), rel=1e-5)
    assert result.figures["truncated"] == pytest.approx(float(by.truncated.float().mean()))
    assert "importance" not in plain.figures


def with_versions(e: Episode, versions: list[int]) -> Episode:
    """The episode with the versions of the weights that wrote its turns, in each of its trajectories."""
    trajectories = []
    for t in e.trajectories:
        left = iter(versions)
        segments = tuple(replace(s, policy=next(left)) if s.kind == "agent" else s for s in t.segments)
        trajectories.append(replace(t, segments=segments))
    return replace(e, trajectories=tuple(trajectories))


def test_older_samples_need_log_probs() -> None:
    e = with_versions(episode("e", trajectory("t", "planner", ("prompt", [5]), ("agent", [7]))), [2])
    bare = replace(e.trajectories[0], segments=tuple(replace(s, logprobs=None) for s in e.trajectories[0].segments))
    with pytest.raises(ConfigError, match="an engine that gives log-probs"):
        pack([Rollout(replace(e, trajectories=(bare,)), {"t": 1.0})], version=3)


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
        optimiser=replace(RECIPE.optimiser, steps=24),
        rollout=replace(OVERLAPPED.rollout, questions=8),
        checkpoint_every=30,
    )
    curves = finish(trainer(tmp_path, recipe))
    # the curve depends on how a processor rounds, and may fall back for a while
    rewards = [curves[step]["reward"] for step in range(1, 25)]
    first, *later = (sum(rewards[at : at + 4]) / 4 for at in range(0, 24, 4))
    assert max(later) > 1.5 * first
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
    for step, figures in unbroken.items():
        for name in ("reward", "gradient_norm", "total", "kl", "entropy", "importance", "em", "dev_f1"):
            if name in figures:
                assert resumed[step][name] == pytest.approx(figures[name], rel=1e-4, abs=1e-6), (step, name)
