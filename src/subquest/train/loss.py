"""Policy losses over action tokens.

Everything here is flat: one entry per action token, of whatever trajectory. Prompt and environment tokens do
not appear at all, so they cannot get a gradient (CoDA 3.3.3). How tokens add up to one number is a weight a token,

    loss = sum over tokens of weight * (surrogate + kl_coefficient * kl - entropy_coefficient * entropy)

and the weights are computed once, over the whole optimiser batch (`Layout.weights`). A micro-batch carries its slice
of them, so gradients do not depend on how a batch was cut. All arithmetic is in float32.

The ratio of new to old policy is taken per token (CoDA eq. 3), per trajectory (GSPO) or per rollout and role, pooled
over the role's turns (DECOR eq. 5): there the exponent is the mean log-ratio over the action tokens of the unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import ConfigError
from .loss_settings import LOSSES as LOSSES
from .loss_settings import Aggregation as Aggregation
from .loss_settings import Level as Level
from .loss_settings import LossSettings as LossSettings

LOG_RATIO_LIMIT = 20.0
"""Log-ratios are clamped to this, so that a single token cannot make the loss infinite."""


class Layout(NamedTuple):
    """Which trajectory, rollout and role each action token belongs to; three index vectors of equal length."""

    trajectory: Tensor
    rollout: Tensor
    role: Tensor

    def units(self, level: Level) -> Tensor | None:
        """An index of the unit that shares one ratio with each token; None where every token has its own."""
        if level == "token":
            return None
        if level == "trajectory":
            return self.trajectory
        units: Tensor = torch.unique(torch.stack([self.rollout, self.role]), dim=1, return_inverse=True)[1]
        return units

    def weights(self, aggregation: Aggregation, *, length: float | None = None) -> Tensor:
        """The weight of each token in the loss of this batch.

        token-mean     every action token counts the same (DAPO; CoDA's code)
        sequence-mean  every trajectory counts the same, its tokens share (GRPO)
        rollout-mean   every rollout counts the same, its tokens share, so long episodes do not dominate
        rollout-sum    tokens add up within a rollout; mean over rollouts (CoDA's J)
        role-mean      each role's tokens share within a rollout, roles add up; mean over rollouts (DECOR eq. 4)
        constant       tokens add up; divided by the number of trajectories times `length` (Dr. GRPO)
        """
        n = self.trajectory.numel()
        ones = torch.ones(n, dtype=torch.float32, device=self.trajectory.device)
        if n == 0:
            return ones
        rollouts = _distinct(self.rollout)
        if aggregation == "token-mean":
            return ones / n
        if aggregation == "sequence-mean":
            return 1 / (_size_of_own(self.trajectory) * _distinct(self.trajectory))
        if aggregation == "rollout-mean":
            return 1 / (_size_of_own(self.rollout) * rollouts)
        if aggregation == "rollout-sum":
            return ones / rollouts
        if aggregation == "role-mean":
            units = self.units("role")
            assert units is not None
            return 1 / (_size_of_own(units) * rollouts)
        if aggregation == "constant":
            if not length:
                raise ConfigError("aggregation 'constant' needs `length`, the number of tokens to divide by")
            return ones / (_distinct(self.trajectory) * length)
        raise ConfigError(f"unknown aggregation {aggregation!r}")


def _distinct(index: Tensor) -> int:
    return int(torch.bincount(index).count_nonzero())


def _size_of_own(index: Tensor) -> Tensor:
    """For each token, how many tokens share its index."""
    return torch.bincount(index)[index].float()


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss and what it is made of. Every field of one optimiser step's micro-batches adds up (except `ratio_max`)."""

    total: Tensor
    """What to call `backward` on."""
    policy: Tensor
    kl: Tensor
    """Weighted sum of k3, coefficient not included."""
    entropy: Tensor
    tokens: int
    clipped_low: Tensor
    """Tokens whose ratio was cut off below, with a negative advantage."""
    clipped_high: Tensor
    """Tokens whose ratio was cut off above, with a positive advantage."""
    clipped_dual: Tensor
    log_ratio: Tensor
    """Sum of old minus new log-probs over tokens: with the number of tokens, the plain estimate of KL(old, new)."""
    ratio_max: Tensor


def policy_loss(
    new: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    settings: LossSettings,
    *,
    units: Tensor | None = None,
    reference: Tensor | None = None,
    entropy: Tensor | None = None,
) -> Loss:
    """The loss of a batch or micro-batch of action tokens.

    `new`, `old`, `reference`: log-probs under the policy being trained, the one that sampled, and the frozen one.
    `units`: from `Layout.units(settings.level)`; a unit must not be cut by micro-batches.
    """
    if settings.level != "token" and units is None:
        raise ConfigError(f"a ratio per {settings.level} needs `units`: pass Layout.units({settings.level!r})")
    if settings.kl and reference is None:
        raise ConfigError("the KL term needs the reference policy's log-probs")
    if settings.entropy and entropy is None:
        raise ConfigError("the entropy bonus needs the entropy of each position")
    new, old, advantages = new.float(), old.detach().float(), advantages.detach().float()
    log_ratio = new - old
    exponent = log_ratio if settings.level == "token" or units is None else unit_mean(log_ratio, units)
    ratio = torch.exp(exponent.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    cut = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    bounded = ratio if settings.dual_clip is None else ratio.clamp(max=settings.dual_clip)
    surrogate = torch.minimum(bounded * advantages, cut * advantages)
    policy = -(weights * surrogate).sum()
    total = policy
    zero = policy.detach().new_zeros(())
    kl = bonus = zero
    if reference is not None:
        kl = (weights * _k3(new, reference.detach().float(), ratio, settings)).sum()
        total = total + settings.kl * kl if settings.kl else total
    if entropy is not None:
        bonus = (weights * entropy.float()).sum()
        total = total - settings.entropy * bonus if settings.entropy else total
    with torch.no_grad():
        above, below = advantages > 0, advantages < 0
        dual = zero if settings.dual_clip is None else (below & (ratio > settings.dual_clip)).sum()
        return Loss(
            total=total,
            policy=policy.detach(),
            kl=kl.detach(),
            entropy=bonus.detach(),
            tokens=new.numel(),
            clipped_low=(below & (ratio < 1 - settings.clip_low)).sum(),
            clipped_high=(above & (ratio > 1 + settings.clip_high)).sum(),
            clipped_dual=dual,
            log_ratio=-log_ratio.detach().sum(),
            ratio_max=ratio.max() if ratio.numel() else zero,
        )


def unit_mean(values: Tensor, units: Tensor) -> Tensor:
    """For each token, the mean over its unit."""
    n = int(units.max()) + 1 if units.numel() else 0
    sums = torch.zeros(n, dtype=torch.float32, device=values.device).index_add(0, units, values)
    return (sums / torch.bincount(units, minlength=n).clamp(min=1))[units]


def _k3(new: Tensor, reference: Tensor, ratio: Tensor, settings: LossSettings) -> Tensor:
    difference = (reference - new).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)
    k3 = torch.expm1(difference) - difference
    if settings.kl_limit is not None:
        k3 = k3.clamp(max=settings.kl_limit)
    return k3 * ratio if settings.kl_correction else k3


def sft_loss(logprobs: Tensor, weights: Tensor) -> Tensor:
    """Supervised fine-tuning on the same records: cross-entropy of the action tokens, weighted as any other loss."""
    return -(weights * logprobs.float()).sum()


def summary(losses: Iterable[Loss]) -> dict[str, float]:
    """One optimiser step's figures from its micro-batches: losses as they add up, the rest as means over tokens."""
    parts = list(losses)
    tokens = sum(p.tokens for p in parts)
    means = ("clipped_low", "clipped_high", "clipped_dual", "log_ratio")
    out: dict[str, float] = {"tokens": float(tokens)}
    for name in (f.name for f in fields(Loss)):
        values = [float(torch.as_tensor(getattr(p, name)).detach()) for p in parts]
        if name in means:
            out[name] = sum(values) / max(tokens, 1)
        elif name == "ratio_max":
            out[name] = max(values, default=0.0)
        elif name != "tokens":
            out[name] = sum(values)
    return out


class Importance(NamedTuple):
    """Importance weights for rollouts that an older policy sampled.

    When rollouts of the next batch begin before an update (`rollout.overlap`, `rollout.ahead`), tokens of it come from
    weights that are one step old. The loss still compares the new policy with the one before the update (the old
    policy). That these tokens came from a third, the behaviour policy, is corrected by a weight per token,

        w = min(old(token) / behaviour(token), cap)

    which multiplies its advantage. The cap keeps a few unlucky tokens from dominating the batch. If the loss takes one
    ratio per trajectory or role, the weight is taken over the same tokens (their mean log-ratio). Tokens that the old
    policy sampled itself count with a ratio of exactly 1.
    """

    weights: Tensor
    """[A] one a token, detached"""
    truncated: Tensor
    """[A] whether its weight was cut at the cap"""


def importance(
    old: Tensor, behaviour: Tensor, *, cap: float, units: Tensor | None = None, older: Tensor | None = None
) -> Importance:
    """Weights of tokens from their log-probs before the update and under the policy that sampled them; `older` says
    which ones another policy sampled (all of them where it is left out)."""
    gap = old.detach().float() - behaviour.float()
    if older is not None:
        gap = gap.where(older, 0.0)
    if units is not None:
        gap = unit_mean(gap, units)
    ratio = torch.exp(gap.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
    return Importance(ratio.clamp(max=cap), ratio > cap)
