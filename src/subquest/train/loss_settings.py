"""Objectives by name, without torch: recipes are read where nothing is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ..errors import ConfigError
from ..systems.registry import declared

Level = Literal["token", "trajectory", "role"]
Aggregation = Literal["token-mean", "sequence-mean", "rollout-mean", "rollout-sum", "role-mean", "constant"]


@dataclass(frozen=True, slots=True)
class LossSettings:
    """The objective. `LOSSES` holds the papers' and the peers' settings by name."""

    level: Level = "token"
    aggregation: Aggregation = "token-mean"
    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    """Upper bound on the ratio where the advantage is negative; None is off."""
    kl: float = 0.0
    """Coefficient of the KL to the reference policy, estimated by k3: exp(d) - d - 1 with d = ref - new."""
    kl_correction: bool = False
    """Multiply each k3 by the ratio, which makes it unbiased under the old policy's samples."""
    kl_limit: float | None = None
    """Upper bound on k3 (which is never negative); None is off."""
    entropy: float = 0.0
    """Coefficient of the entropy bonus."""
    length: float | None = None
    """Tokens that `constant` divides by."""

    def __post_init__(self) -> None:
        if self.level not in ("token", "trajectory", "role"):
            raise ConfigError(f"unknown level {self.level!r}: token, trajectory or role")
        if not 0 < self.clip_low < 1 or not self.clip_high > 0:
            raise ConfigError(f"clip_low={self.clip_low}, clip_high={self.clip_high}: give 0 < low < 1 and high > 0")
        if self.dual_clip is not None and not self.dual_clip > 1 + self.clip_high:
            raise ConfigError(f"dual_clip={self.dual_clip} must lie above 1 + clip_high")
        if not all(0 <= coefficient < math.inf for coefficient in (self.kl, self.entropy)):
            raise ConfigError(f"kl={self.kl}, entropy={self.entropy}: coefficients are numbers, 0 or more")
        if self.kl_limit is not None and not self.kl_limit > 0:
            raise ConfigError(f"kl_limit={self.kl_limit} must lie above 0")
        if self.aggregation == "constant" and not (self.length is not None and 0 < self.length < math.inf):
            raise ConfigError("aggregation 'constant' needs `length`, the number of tokens to divide by")


_PEERS: Mapping[str, LossSettings] = {
    "grpo": LossSettings(aggregation="sequence-mean"),
    "bnpo": LossSettings(),
    "dapo": LossSettings(clip_high=0.28),
    "dr-grpo": LossSettings(aggregation="constant", length=1024),
    "gspo": LossSettings("trajectory", "sequence-mean", clip_low=3e-4, clip_high=4e-4),
    "verl": LossSettings(dual_clip=3.0, kl_limit=10.0),
}


def losses_for(system: str = "") -> dict[str, LossSettings]:
    """Losses by name: those that systems declare (`systems/NAME/reward.py`), a user's `system` too, and the peers'."""
    found = declared("reward", "LOSSES", system)
    return {**{name: LossSettings(**options) for name, options in found.items()}, **_PEERS}


LOSSES: Mapping[str, LossSettings] = losses_for()
