"""Losses: each equation with numbers worked out by hand, and what must not change them."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from subquest.errors import ConfigError
from subquest.train.loss import LOSSES, Layout, LossSettings, policy_loss, sft_loss, summary

# Two rollouts. Rollout 0: planner trajectory of 2 tokens, executors of 1 and 3; rollout 1: planner of 2 tokens.
LAYOUT = Layout(
    trajectory=torch.tensor([0, 0, 1, 2, 2, 2, 3, 3]),
    rollout=torch.tensor([0, 0, 0, 0, 0, 0, 1, 1]),
    role=torch.tensor([0, 0, 1, 1, 1, 1, 0, 0]),
)


def one(log_ratio: float, advantage: float, settings: LossSettings) -> tuple[float, float]:
    """Loss and gradient of a single token of weight 1."""
    new = torch.tensor([log_ratio - 1.0], requires_grad=True)
    loss = policy_loss(new, torch.tensor([-1.0]), torch.tensor([advantage]), torch.ones(1), settings)
    loss.total.backward()
    assert new.grad is not None
    return loss.total.item(), new.grad.item()


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token-mean", [1 / 8] * 8),
        ("sequence-mean", [1 / 8, 1 / 8, 1 / 4, 1 / 12, 1 / 12, 1 / 12, 1 / 8, 1 / 8]),
        ("rollout-mean", [1 / 12] * 6 + [1 / 4] * 2),
        ("rollout-sum", [1 / 2] * 8),
        ("role-mean", [1 / 4, 1 / 4, 1 / 8, 1 / 8, 1 / 8, 1 / 8, 1 / 4, 1 / 4]),
        ("constant", [1 / 400] * 8),
    ],
)
def test_weights_by_hand(aggregation: str, expected: list[float]) -> None:
    weights = LAYOUT.weights(aggregation, length=100)  # type: ignore[arg-type]
    assert weights.tolist() == pytest.approx(expected)


def test_clip_by_hand() -> None:
    """CoDA eq. 3 with epsilon 0.2."""
    s = LossSettings()
    up, down = math.log(1.5), math.log(0.5)
    assert one(0.0, 2.0, s) == pytest.approx((-2.0, -2.0))
    assert one(up, 1.0, s) == pytest.approx((-1.2, 0.0)), "gain beyond 1.2 is not rewarded"
    assert one(down, 1.0, s) == pytest.approx((-0.5, -0.5))
    assert one(up, -1.0, s) == pytest.approx((1.5, 1.5))
    assert one(down, -1.0, s) == pytest.approx((0.8, 0.0))
    wide = LossSettings(clip_high=0.28)
    assert one(up, 1.0, wide) == pytest.approx((-1.28, 0.0))
    assert one(down, -1.0, wide) == pytest.approx((0.8, 0.0))


def test_dual_clip_by_hand() -> None:
    s = LossSettings(dual_clip=3.0)
    assert one(math.log(5), -1.0, s) == pytest.approx((3.0, 0.0)), "a negative advantage counts three times at most"
    assert one(math.log(2), -1.0, s) == pytest.approx((2.0, 2.0))
    assert one(math.log(5), 1.0, s) == pytest.approx((-1.2, 0.0))


def test_kl_by_hand() -> None:
    """k3 = exp(d) - d - 1 with d = ref - new; with the correction, times the ratio."""
    new = torch.tensor([math.log(0.5)], requires_grad=True)
    old, ref = torch.tensor([math.log(0.25)]), torch.tensor([math.log(0.75)])
    k3 = 1.5 - math.log(1.5) - 1
    loss = policy_loss(new, old, torch.zeros(1), torch.ones(1), LossSettings(kl=0.1), reference=ref)
    assert loss.total.item() == pytest.approx(0.1 * k3)
    loss.total.backward()
    assert new.grad is not None
    assert new.grad.item() == pytest.approx(0.1 * (1 - 1.5))  # d k3 / d new = 1 - exp(d)
    corrected = policy_loss(
        new, old, torch.zeros(1), torch.ones(1), LossSettings(kl=0.1, kl_correction=True), reference=ref
    )
    assert corrected.total.item() == pytest.approx(0.1 * k3 * 2)
    far = policy_loss(
        torch.tensor([-9.0]), old, torch.zeros(1), torch.ones(1), LossSettings(kl=1.0, kl_limit=10), reference=ref
    )
    assert far.total.item() == 10.0


def test_decor_ratio_pools_a_roles_turns() -> None:
    """Eq. 4 and 5: the executors of rollout 0 are one unit of 4 tokens; roles add up, rollouts are averaged."""
    log_ratios = torch.tensor([0.2, 0.4, 0.1, -0.1, 0.3, 0.5, -0.2, 0.0])
    advantages = torch.tensor([1.0, 1.0, -2.0, -2.0, -2.0, -2.0, 0.5, 0.5])
    old = torch.full((8,), -1.0)
    s = LossSettings("role", "role-mean", clip_low=0.1, clip_high=0.25)
    loss = policy_loss(old + log_ratios, old, advantages, LAYOUT.weights("role-mean"), s, units=LAYOUT.units("role"))
    planner0 = min(math.exp(0.3) * 1.0, 1.25 * 1.0)  # mean of 0.2, 0.4
    executor0 = min(math.exp(0.2) * -2.0, math.exp(0.2) * -2.0)  # mean of 0.1, -0.1, 0.3, 0.5
    planner1 = min(math.exp(-0.1) * 0.5, 0.9048374 * 0.5)
    assert loss.total.item() == pytest.approx(-(planner0 + executor0 + planner1) / 2, rel=1e-6)
    assert LOSSES["decor"].clip_low == 3e-4


def test_gspo_is_per_trajectory() -> None:
    units = LAYOUT.units("trajectory")
    new = torch.linspace(-2, -1, 8, requires_grad=True)
    old = new.detach() - 0.05
    s = LossSettings("trajectory", "sequence-mean", clip_low=0.5, clip_high=0.5)
    loss = policy_loss(new, old, torch.ones(8), LAYOUT.weights("sequence-mean"), s, units=units)
    assert loss.total.item() == pytest.approx(-math.exp(0.05), rel=1e-6)
    loss.total.backward()
    # each trajectory's ratio moves with the mean of its tokens: gradient -s / (4 |o|)
    expected = [-math.exp(0.05) / (4 * n) for n in (2, 2, 1, 3, 3, 3, 2, 2)]
    assert new.grad is not None
    assert new.grad.tolist() == pytest.approx(expected, rel=1e-5)


def test_entropy_bonus_and_sft() -> None:
    entropy = torch.tensor([1.0, 3.0], requires_grad=True)
    half = torch.full((2,), 0.5)
    logprobs = torch.tensor([-1.0, -2.0])
    loss = policy_loss(logprobs, logprobs, torch.ones(2), half, LossSettings(entropy=0.1), entropy=entropy)
    assert loss.total.item() == pytest.approx(-1.0 - 0.1 * 2.0)
    loss.total.backward()
    assert entropy.grad is not None
    assert entropy.grad.tolist() == pytest.approx([-0.05, -0.05])
    assert sft_loss(logprobs, half).item() == pytest.approx(1.5)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31 - 1),
    st.sampled_from(["token-mean", "sequence-mean", "rollout-mean", "rollout-sum", "role-mean", "constant"]),
    st.sampled_from(["token", "trajectory", "role"]),
)
def test_micro_batches_and_order_change_nothing(seed: int, aggregation: str, level: str) -> None:
    g = torch.Generator().manual_seed(seed)
    rollout = torch.sort(torch.randint(0, 4, (40,), generator=g)).values
    role = torch.randint(0, 2, (40,), generator=g)
    _, trajectory = torch.unique(rollout * 10 + role * 3 + torch.randint(0, 2, (40,), generator=g), return_inverse=True)
    layout = Layout(trajectory, rollout, role)
    s = LossSettings(level, aggregation, kl=0.1, entropy=0.01, dual_clip=3.0, length=50)  # type: ignore[arg-type]
    data = torch.randn(5, 40, generator=g)
    weights = layout.weights(s.aggregation, length=s.length)

    def gradient(parts: list[torch.Tensor]) -> tuple[float, torch.Tensor, dict[str, float]]:
        new = (data[0] - 2).requires_grad_()
        losses = []
        for part in parts:
            sub = Layout(*(t[part] for t in layout))
            loss = policy_loss(
                new[part],
                data[1, part] - 2,
                data[2, part],
                weights[part],
                s,
                units=sub.units(s.level),
                reference=data[3, part] - 2,
                entropy=data[4, part],
            )
            loss.total.backward()
            losses.append(loss)
        assert new.grad is not None
        figures = summary(losses)
        return figures["total"], new.grad, figures

    whole, grad, figures = gradient([torch.arange(40)])
    by_rollout, grad2, figures2 = gradient([(rollout == r).nonzero().squeeze(1) for r in rollout.unique()])
    shuffled, grad3, _ = gradient([torch.randperm(40, generator=g)])
    assert by_rollout == pytest.approx(whole, rel=1e-6, abs=1e-6)
    assert shuffled == pytest.approx(whole, rel=1e-6, abs=1e-6)
    torch.testing.assert_close(grad2, grad, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(grad3, grad, rtol=1e-6, atol=1e-6)
    assert figures2 == pytest.approx(figures, rel=1e-5, abs=1e-6)


def test_half_precision_log_probs_are_raised_before_use() -> None:
    new = torch.tensor([-1.0, -2.0], dtype=torch.bfloat16)
    loss = policy_loss(new, torch.tensor([-1.0001, -2.0]), torch.ones(2), torch.ones(2) / 2, LossSettings())
    assert loss.total.dtype == torch.float32
    assert loss.total.item() == pytest.approx(-(math.exp(1e-4) + 1) / 2, rel=1e-6)


def test_one_broken_token_cannot_make_the_loss_infinite() -> None:
    loss = policy_loss(torch.tensor([0.0]), torch.tensor([-500.0]), -torch.ones(1), torch.ones(1), LossSettings())
    assert math.isfinite(loss.total.item())


def test_settings_are_checked() -> None:
    x = torch.zeros(1)
    with pytest.raises(ConfigError, match="units"):
        policy_loss(x, x, x, x, LOSSES["decor"])
    with pytest.raises(ConfigError, match="reference"):
        policy_loss(x, x, x, x, LOSSES["coda"])
    with pytest.raises(ConfigError, match="entropy of each position"):
        policy_loss(x, x, x, x, LossSettings(entropy=0.1))
    with pytest.raises(ConfigError, match="length"):
        LAYOUT.weights("constant")
    with pytest.raises(ConfigError, match="unknown aggregation"):
        LAYOUT.weights("median")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="clip_low"):
        LossSettings(clip_low=0.0)
    with pytest.raises(ConfigError, match="dual_clip"):
        LossSettings(dual_clip=1.1)
