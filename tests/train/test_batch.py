"""Packing: masks, positions, mini-batches by rollouts, micro-batches, and zero gradient for what the agent read."""

from dataclasses import replace

import pytest
import torch

from subquest.errors import DataError, UsageError
from subquest.record import Segment, Trajectory
from subquest.train.batch import Batch, Rollout, minibatches, pack
from subquest.train.logprobs import token_logprobs
from subquest.train.loss import LOSSES, LossSettings, policy_loss, sft_loss
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source

from ..runtime.test_window import AGENTS, ask
from .episodes import episode, rollouts_of, trajectory, two_rollouts


def test_layout_by_hand() -> None:
    batch = pack(two_rollouts())
    assert batch.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 1, 8, 9, 2, 4]
    assert batch.lengths.tolist() == [7, 3, 2], "a trajectory without a token of its own is left out"
    assert batch.cu_seqlens.tolist() == [0, 7, 10, 12]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 0, 1]
    assert batch.rows.tolist() == [1, 2, 5, 7, 8, 10]
    assert batch.targets.tolist() == [3, 4, 7, 8, 9, 4]
    assert [batch.roles[i] for i in batch.layout.role.tolist()] == ["planner"] * 3 + ["executor"] * 2 + ["planner"]
    assert batch.layout.trajectory.tolist() == [0, 0, 0, 1, 1, 2]
    assert batch.layout.rollout.tolist() == [0, 0, 0, 0, 0, 1]
    assert batch.advantages.tolist() == [1, 1, 1, 1, 1, -1]
    assert batch.behaviour is not None
    assert batch.behaviour.tolist() == pytest.approx([-0.3, -0.4, -0.7, -0.8, -0.9, -0.4])
    assert batch.weights.tolist() == pytest.approx([1 / 6] * 6)


def test_what_follows_the_last_action_is_left_out() -> None:
    """An observation that overflows the window ends its context, and has no positions that could be computed."""
    source = tiny_source("llama", vocabulary=260)
    window = source.architecture.window
    full = trajectory("a0", "planner", ("prompt", [1, 2]), ("agent", [3]), ("env", [4] * window), ("agent", []))
    other = trajectory("a1", "executor", ("prompt", [1]), ("agent", [8, 9]), ("env", [5]), ("agent", [6]), ("env", [7]))
    batch = pack([Rollout(episode("a", full, other), {"a0": 1.0, "a1": 1.0})])
    assert batch.token_ids.tolist() == [1, 2, 3, 1, 8, 9, 5, 6]
    assert batch.lengths.tolist() == [3, 5]
    assert batch.rows.tolist() == [1, 3, 4, 6]
    assert torch.isfinite(Policy(source)(batch).logprobs).all()


def test_a_forced_turn_has_no_advantage() -> None:
    """Its answer is not paid, so nothing that it says is worth more or less than anything else."""
    planner = trajectory("a0", "planner", ("prompt", [1, 2]), ("agent", [3]), ("env", [4]), ("agent", [5, 6]))
    answerer = trajectory("a1", "answerer", ("prompt", [1]), ("agent", [7]))
    forced = episode("a", replace(planner, forced=True), replace(answerer, forced=True))
    batch = pack([Rollout(forced, {"a0": 1.0, "a1": 1.0})])
    assert batch.token_ids.tolist() == [1, 2, 3]
    assert batch.targets.tolist() == [3]
    assert batch.weights.tolist() == [1.0]
    assert [t.action_mask for t in forced.trajectories] == [(0, 0, 1, 0, 0, 0), (0, 0)]
    assert forced.trajectories[0].logprobs == pytest.approx((0, 0, -0.3, 0, 0, 0))


def test_a_context_that_was_opened_again_is_trained_on_turn_by_turn() -> None:
    """Each of its sessions is a row of its own; each turn is an action in one of them."""
    found = ask("autorefine", AGENTS["autorefine"], k=10)
    batch = pack([Rollout(found, {t.id: 1.0 for t in found.trajectories})])
    assert batch.lengths.numel() == len(found.trajectories) > 1
    assert batch.rows.numel() == found.by_role("agent")[0].action_mask.count(1)


class Toy(torch.nn.Module):
    """A causal model small enough to differentiate by row: a running sum of embeddings within each trajectory."""

    def __init__(self) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(0)
        self.table = torch.nn.Parameter(torch.randn(12, 6, generator=g))

    def states(self, batch: Batch) -> torch.Tensor:
        parts = batch.token_ids.split(batch.lengths.tolist())
        return torch.cat([self.table[p].cumsum(0).tanh() for p in parts])


def loss_of(model: Toy, batch: Batch, settings: LossSettings, states: torch.Tensor) -> torch.Tensor:
    out = token_logprobs(states[batch.rows], model.table, batch.targets, entropy=True)
    assert batch.behaviour is not None
    return policy_loss(
        out.logprobs,
        batch.behaviour,
        batch.advantages,
        batch.weights,
        settings,
        units=batch.layout.units(settings.level),
        reference=batch.behaviour,
        entropy=out.entropy,
    ).total


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_tokens_the_agent_read_have_no_gradient(name: str) -> None:
    settings = LOSSES[name]
    batch = pack(two_rollouts(), aggregation=settings.aggregation, length=settings.length)
    states = Toy().states(batch).detach().requires_grad_()
    loss_of(Toy(), batch, settings, states).backward()
    assert states.grad is not None
    touched = states.grad.abs().sum(1).nonzero().squeeze(1).tolist()
    allowed = batch.rows.tolist()
    assert set(touched) <= set(allowed)
    assert touched, "the actions themselves do have one"
    if name in ("coda-paper-sum", "apex", "search-r1"):
        assert touched == allowed


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_micro_batches_change_nothing(name: str) -> None:
    settings = LOSSES[name]
    rollouts = two_rollouts() * 3
    whole = pack(rollouts, aggregation=settings.aggregation, length=settings.length)
    one, many = Toy(), Toy()
    loss_of(one, whole, settings, one.states(whole)).backward()
    parts = whole.split(12, whole="rollout" if settings.level == "role" else "trajectory")
    assert len(parts) > 1
    assert sum(p.rows.numel() for p in parts) == whole.rows.numel()
    for part in parts:
        loss_of(many, part, settings, many.states(part)).backward()
    torch.testing.assert_close(many.table.grad, one.table.grad, rtol=1e-6, atol=1e-6)


def test_split_respects_the_limit_and_keeps_rollouts_whole() -> None:
    batch = pack(two_rollouts() * 4)
    for part in batch.split(14):
        assert part.token_ids.numel() <= 14
    seen: list[int] = []
    for part in batch.split(14, whole="rollout"):
        seen += part.layout.rollout.unique().tolist()
    assert sorted(seen) == list(range(8))
    assert [p.token_ids.numel() for p in batch.split(1)][:1] == [7], "what is longer than the limit goes alone"


def test_minibatches_count_rollouts_not_executors() -> None:
    few = [rollouts_of(str(i), {"planner": 1}) for i in range(10)]
    many = [rollouts_of(str(i), {"planner": 1, "executor": 9}) for i in range(10)]
    assert [len(b) for b in minibatches(few, 4)] == [len(b) for b in minibatches(many, 4)] == [2, 3, 2, 3]
    assert [e.id for b in minibatches(few, 4) for e in b] == [str(i) for i in range(10)]
    with pytest.raises(UsageError, match="10 rollouts cannot make 11"):
        minibatches(few, 11)


def test_sft_over_the_same_records() -> None:
    batch = pack(two_rollouts())
    model = Toy()
    out = token_logprobs(model.states(batch)[batch.rows], model.table, batch.targets)
    logits = model.states(batch) @ model.table.t()
    expected = torch.nn.functional.cross_entropy(logits[[1, 2, 5, 7, 8, 10]], torch.tensor([3, 4, 7, 8, 9, 4]))
    assert sft_loss(out.logprobs, batch.weights).item() == pytest.approx(expected.item(), rel=1e-5)


def test_records_that_cannot_be_trained_on_are_named() -> None:
    textual = Trajectory("t", "planner", "", segments=(Segment("prompt", "hi"), Segment("agent", "x", (1,), (-1.0,))))
    with pytest.raises(DataError, match="trajectory t has text without token ids"):
        pack([Rollout(episode("e", textual), {"t": 1.0})])
    with pytest.raises(DataError, match="nothing predicts its first token"):
        pack([Rollout(episode("e", trajectory("t", "planner", ("agent", [1]))), {"t": 1.0})])
    with pytest.raises(DataError, match="nothing to train on"):
        pack([Rollout(two_rollouts()[0].episode, {})])
