"""The size and shape of a LoRA adapter, without torch: recipes are read where nothing is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..errors import DataError

TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, slots=True)
class LoraSettings:
    rank: int = 16
    alpha: float = 32.0
    targets: tuple[str, ...] = TARGETS

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise DataError(f"a LoRA rank of {self.rank} holds nothing; use at least 1")
        if not 0 < self.alpha < math.inf:
            raise DataError(f"a LoRA alpha of {self.alpha} teaches nothing; use a number above 0")
        if not self.targets:
            raise DataError(f"LoRA needs targets: some of {', '.join(TARGETS)}")
        if unknown := set(self.targets) - set(TARGETS):
            raise DataError(f"LoRA targets are {', '.join(TARGETS)}, not {sorted(unknown)[0]!r}")

    @property
    def scale(self) -> float:
        return self.alpha / self.rank
