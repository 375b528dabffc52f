"""Optimiser steps that leave out what does not teach: the same gradient from fewer tokens."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from subquest.train.batch import Batch, Rollout, pack
from subquest.train.loss import LOSSES, LossSettings
from subquest.train.optimiser import WITHOUT_GRADIENTS, Optimiser, logprobs_of, micro_batch_unit
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import OptimiserPart

from .episodes import episode, trajectory
from .test_rl import RECIPE, finish, trainer

torch.set_num_threads(1)
SOURCE = tiny_source("llama", vocabulary=260)


def rollouts() -> list[Rollout]:
    """Three rollouts: one that did better, one without any advantage, one with a flat executor."""
    return [
        Rollout(
            episode(
                name,
                trajectory(f"{name}0", "planner", ("prompt", [1, 2, 3]), ("agent", [4 + n, 5, 7])),
                trajectory(f"{name}1", "executor", ("prompt", [9, 8 + n]), ("agent", [11, 12])),
            ),
            {f"{name}0": planner, f"{name}1": executor},
        )
        for n, (name, planner, executor) in enumerate((("a", 1.0, 1.0), ("b", 0.0, 0.0), ("c", -1.0, 0.0)))
    ]  # fmt: skip


def batch_for(loss: LossSettings) -> Batch:
    return pack(rollouts(), aggregation=loss.aggregation, length=loss.length)


def gradients(
    loss: LossSettings, *, skip: bool, micro_tokens: int = 4096
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """The gradients of one step in fp32 and its figures; the step itself is not taken."""
    torch.manual_seed(0)
    policy = Policy(SOURCE)
    optimiser = Optimiser(policy, OptimiserPart(micro_tokens=micro_tokens, clip=0.0), 10)
    found: dict[str, torch.Tensor] = {}

    def keep() -> float:
        found.update({name: p.grad.clone() for name, p in policy.trained().items() if p.grad is not None})
        return 0.0

    optimiser._step = keep  # type: ignore[method-assign]
    batch = batch_for(loss)
    only = batch.teaching(whole=micro_batch_unit(loss)) if skip else None
    reference = logprobs_of(policy, batch, temperature=1.0, micro_tokens=micro_tokens, only=only) if loss.kl else None
    shifted = None if reference is None else reference + 0.3
    stepped = optimiser.policy_step(batch, loss, temperature=1.0, old=None, reference=shifted, only=only)
    return found, stepped.figures


def test_what_teaches() -> None:
    batch = pack(rollouts())
    assert batch.teaching() == [0, 1, 4]
    assert batch.teaching(whole="rollout") == [0, 1, 4, 5], "a rollout stays whole where its ratio is pooled"
    flat = replace(batch, advantages=torch.zeros_like(batch.advantages))
    assert flat.teaching() == [1], "the shortest stands for all"
    assert flat.teaching(whole="rollout") == [0, 1]
    assert sorted(at for chosen in batch.bins(8, only=[0, 1, 4]) for at in chosen) == [0, 1, 4]


@pytest.mark.parametrize("name", [name for name, loss in LOSSES.items() if not loss.kl and not loss.entropy])
def test_leaving_out_the_flat_is_exact_without_kl_and_entropy(name: str) -> None:
    all_of_it, full = gradients(LOSSES[name], skip=False)
    some, less = gradients(LOSSES[name], skip=True)
    assert less["packed"] < full["packed"]
    assert any(float(g.abs().max()) > 1e-4 for g in all_of_it.values())
    assert all_of_it.keys() == some.keys()
    for part, gradient in all_of_it.items():
        torch.testing.assert_close(some[part], gradient, rtol=1e-4, atol=1e-7)


def test_with_kl_the_policy_term_is_exact_and_the_rest_is_that_of_the_others() -> None:
    """By hand: the loss of all, minus the KL and entropy that the flat trajectories brought in."""
    loss = LOSSES["coda"]
    assert loss.kl
    assert loss.entropy
    skipped, figures = gradients(loss, skip=True)
    plain, _ = gradients(replace(loss, kl=0.0, entropy=0.0), skip=False)
    stay = pack([Rollout(r.episode, {k: v for k, v in r.advantages.items() if v}) for r in rollouts()])
    policy = Policy(SOURCE)
    weight = 1 / batch_for(loss).rows.numel()  # that of a token in the whole batch
    new = policy(stay, entropy=True)
    assert new.entropy is not None
    d = new.logprobs.detach() + 0.3 - new.logprobs
    ((loss.kl * (d.exp() - d - 1) - loss.entropy * new.entropy).sum() * weight).backward()
    for name, parameter in policy.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(skipped[name], plain[name] + parameter.grad, rtol=1e-3, atol=1e-6)
    assert figures["entropy"] == pytest.approx(float(new.entropy.detach().mean()), rel=1e-4)
    assert figures["kl"] == pytest.approx(0.3498588 - 0.3, abs=1e-5)  # exp(0.3) - 0.3 - 1


def test_figures_and_log_probs_of_a_whole_batch() -> None:
    loss = LOSSES["coda"]
    _, figures = gradients(loss, skip=False, micro_tokens=8)
    batch, policy = batch_for(loss), Policy(SOURCE)
    assert figures["packed"] == batch.token_ids.numel()
    wanted = policy(batch).logprobs.detach()
    torch.testing.assert_close(logprobs_of(policy, batch, temperature=1.0, micro_tokens=8), wanted)
    some = logprobs_of(policy, batch, temperature=1.0, micro_tokens=8, only=[0, 4])
    inside = torch.isin(batch.layout.trajectory, torch.tensor([0, 4]))
    torch.testing.assert_close(some[inside], wanted[inside])
    assert batch.behaviour is not None
    assert torch.equal(some[~inside], batch.behaviour[~inside])


def test_the_first_mini_batch_needs_no_pass_for_old_log_probs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[int] = []

    def counted(*args: object, **settings: object) -> torch.Tensor:
        passes.append(1)
        return logprobs_of(*args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr("subquest.train.rl.logprobs_of", counted)
    recipe = replace(RECIPE, loss="dapo", evaluate_every=9)
    one = finish(trainer(tmp_path / "one", replace(recipe, optimiser=replace(recipe.optimiser, steps=1))))
    assert not passes, "on-policy, one step, no KL: the update is the only pass"
    assert 0 < one[1]["mismatch"] < 1e-3, "the update's own log-probs are held against the engine's"
    several = replace(recipe.optimiser, steps=1, minibatches=4)
    found = finish(trainer(tmp_path / "four", replace(recipe, optimiser=several)))
    assert len(passes) == 3
    assert found[1]["mismatch"] < 1e-3


def test_skip_flat_is_a_setting(tmp_path: Path) -> None:
    """A group of one has no spread: every trajectory is flat, and the step is taken on the shortest."""
    recipe = replace(RECIPE, rollout=replace(RECIPE.rollout, group=1, questions=4), evaluate_every=9)
    for skip in (False, True):
        settings = replace(recipe.optimiser, steps=1, skip_flat=skip)
        figures = finish(trainer(tmp_path / str(skip), replace(recipe, optimiser=settings)))[1]
        assert (figures["skipped"] > 0.5) is skip
        assert figures["learning_rate"] > 0


@pytest.mark.parametrize("name", ["coda-paper-sum", "decor", "dr-grpo", "coda"])
def test_kl_and_entropy_are_means_whatever_the_loss_divides_by(name: str) -> None:
    """The guards hold them against bounds in nats: a loss that sums over tokens must not look like a collapse."""
    loss = replace(LOSSES[name], kl=0.5)
    _, figures = gradients(loss, skip=False)
    torch.manual_seed(0)
    with torch.no_grad():
        entropy = Policy(SOURCE)(batch_for(loss), entropy=True).entropy
    assert entropy is not None
    assert figures["kl"] == pytest.approx(0.3498588 - 0.3, abs=1e-5)  # exp(0.3) - 0.3 - 1, at every token
    assert float(entropy.min()) <= figures["entropy"] <= float(entropy.max())


def two_roles(rollouts: int = 8) -> Batch:
    """Rollouts with long instructions for each of two roles, and lengths that would mix the roles."""
    episodes = [
        episode(
            f"e{n}",
            trajectory(f"{n}p", "planner", ("prompt", [1] * 300), ("env", [5 + n]), ("agent", [7] * (10 + 3 * n))),
            trajectory(f"{n}e", "executor", ("prompt", [2] * 300), ("env", [6 + n]), ("agent", [8] * (11 + 3 * n))),
        )
        for n in range(rollouts)
    ]
    return pack([Rollout(e, {t.id: 1.0 for t in e.trajectories}) for e in episodes])


def test_trajectories_that_begin_alike_share_a_micro_batch() -> None:
    batch = two_roles()

    def computed(alike: bool) -> int:
        parts = [batch.select(chosen).sharing() for chosen in batch.bins(1400, alike=alike)]
        assert sorted(n for chosen in batch.bins(1400, alike=alike) for n in chosen) == list(range(16))
        return sum(p.computed for p in parts)

    assert computed(True) < 0.75 * computed(False)
    assert len(batch.bins(1400, alike=True)) <= len(batch.bins(1400)) + 1


def test_a_micro_batch_is_as_large_as_its_distinct_tokens_allow() -> None:
    """What is computed once takes memory once: eight planners of 311 to 332 tokens are 300 and eight times 11 to 32."""
    batch = two_roles()
    assert len(batch.bins(1400)) == 4
    bins = batch.bins(1400, alike=True)
    own = sum(11 + 3 * n + 12 + 3 * n for n in range(8))
    assert [batch.select(chosen).sharing().computed for chosen in bins] == [2 * 300 + own]
    assert [n for chosen in bins for n in sorted(chosen)] == list(range(16))


def test_passes_without_gradients_take_more_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, batch = Policy(SOURCE), two_roles(4)
    wanted = logprobs_of(policy, batch, temperature=1.0, micro_tokens=100_000, share=False)
    sizes: list[int] = []
    forward = Policy.forward

    def counted(policy: Policy, part: Batch, **settings: object) -> object:
        sizes.append(part.computed)
        return forward(policy, part, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Policy, "forward", counted)
    found = logprobs_of(policy, batch, temperature=1.0, micro_tokens=120)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    assert len(sizes) == 2
    assert 120 < max(sizes) <= WITHOUT_GRADIENTS * 120


@pytest.mark.parametrize("kind", ["policy", "imitation"])
def test_without_room_the_same_gradients_come_from_smaller_micro_batches(
    kind: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The second micro-batch does not fit: what the first one left must not be counted twice."""
    loss = replace(LOSSES["coda"], kl=0.0)
    batch = batch_for(loss)

    def weights(micro_tokens: int, room: int) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        policy = Policy(SOURCE)
        optimiser = Optimiser(policy, OptimiserPart(micro_tokens=micro_tokens, share_prompts=False), 10)
        forward, seen = policy.hidden, []

        def fits(part: Batch, *given: Any, **named: Any) -> torch.Tensor:
            seen.append(part.computed)
            if part.computed > room and len(seen) > 1:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return forward(part, *given, **named)

        monkeypatch.setattr(policy, "hidden", fits)
        for _ in range(2):
            if kind == "policy":
                optimiser.policy_step(batch, loss, temperature=1.0, old=None, reference=None)
            else:
                optimiser.sft_step(batch)
        assert optimiser.micro_tokens == 9
        assert optimiser.step_count == 2
        return {name: p.detach().clone() for name, p in policy.trained().items()}

    expected = weights(9, 100)
    assert not caplog.records
    found = weights(18, 11)
    assert [r.getMessage() for r in caplog.records] == [
        "the GPU has too little memory: going on with micro-batches of 9 tokens"
    ]
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, msg=name)
    with pytest.raises(torch.OutOfMemoryError):  # micro-batches of 9, then of 4 tokens: a quarter would be less than 3
        weights(9, 3)
