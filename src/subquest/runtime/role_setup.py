"""What a role runs on: its engine, how it samples, what it may spend."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field, replace

from ..engine import Engine, Sampling
from ..limits import Limits


@dataclass(slots=True)
class RoleSetup:
    engine: Engine
    sampling: Sampling
    limits: Limits = field(default_factory=Limits)
    addition: str = ""
    """A line to append to the role's instructions."""
    thought: int = 0
    """Most tokens of a turn that goes on thinking after it was cut; 0 leaves it cut."""


@functools.lru_cache(maxsize=256)
def stopping(sampling: Sampling, stop: tuple[str, ...]) -> Sampling:
    """The sampling of turns that end at stop strings."""
    return replace(sampling, stop=stop)
