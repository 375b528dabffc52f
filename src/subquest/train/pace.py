"""How long the parts of a run take, so that a slice of so many minutes ends in time, with a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Literal

Part = Literal["step", "evaluation", "checkpoint", "export"]
"""A part of a run that takes time: a step, an evaluation, a checkpoint, weights written in a form that can be used."""

MARGIN = 1.2
"""The next one may take so much longer than the longest so far."""


class Pace:
    """The longest time of each part so far, in this slice alone: the next may run on another machine.

    What was not seen yet counts for nothing, so a slice takes at least one step while it has time left: slices shorter
    than an evaluation bring a run on too.
    """

    def __init__(self, minutes: float | None = None, stop: Callable[[], bool] = lambda: False) -> None:
        self._deadline = math.inf if minutes is None else monotonic() + 60 * minutes
        self._stop = stop
        self._longest: dict[Part, float] = {}

    def took(self, part: Part, seconds: float) -> None:
        self._longest[part] = max(seconds, self._longest.get(part, 0.0))

    @contextmanager
    def timed(self, part: Part) -> Iterator[None]:
        start = monotonic()
        yield
        self.took(part, monotonic() - start)

    def time_is_up(self, *, evaluates: bool) -> bool:
        """Whether another step would overrun the slice, with its evaluation where it `evaluates`, and with the
        checkpoint and the weights that are written at the end; or whether somebody asked to stop."""
        if self._stop():
            return True
        parts: list[Part] = ["step", "checkpoint", "export"]
        if evaluates:
            parts.append("evaluation")
        return monotonic() + MARGIN * sum(self._longest.get(part, 0.0) for part in parts) > self._deadline
