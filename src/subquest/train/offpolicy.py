"""Importance weights for rollouts that an older policy sampled.

When rollouts of the next batch overlap the update, they come from weights one step old. The loss still compares the
new policy with the one before the update (the old policy); that the samples came from a third, the behaviour policy, is
made up for by the weight of each token

    w = min(old(token) / behaviour(token), cap)

which multiplies its advantage. The cap keeps a few unlucky tokens from carrying the batch. Where the loss takes one
ratio a trajectory or role, the weight is taken over the same tokens (their mean log-ratio): both speak of one unit.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .loss import LOG_RATIO_LIMIT, unit_mean


class Importance(NamedTuple):
    weights: Tensor
    """[A] one a token, detached"""
    truncated: float
    """Share of the tokens whose weight was cut at the cap."""


def importance(old: Tensor, behaviour: Tensor, *, cap: float, units: Tensor | None = None) -> Importance:
    """Weights of tokens from their log-probs under the policy before the update and the one that sampled them."""
    gap = old.float() - behaviour.float()
    if units is not None:
        gap = unit_mean(gap, units)
    ratio = torch.exp(gap.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT)).detach()
    return Importance(ratio.clamp(max=cap), float((ratio > cap).float().mean()) if ratio.numel() else 0.0)
