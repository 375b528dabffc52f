"""Guards: bounds on a step's figures that stop a run when it has gone wrong.

A run that collapses wastes hours and overwrites good weights. The message of a guard names the figure, its value and
its bound; the run stops, and its last checkpoint is from before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..errors import SubquestError
from ..record import Episode
from .recipe import GuardPart

WINDOW = 10


class Collapsed(SubquestError):
    """A guard stopped the run; the message says which and why."""


class Guards:
    def __init__(self, settings: GuardPart) -> None:
        self._settings = settings
        self._rewards: list[float] = []

    def check(self, step: int, figures: Mapping[str, float], episodes: Sequence[Episode] = ()) -> None:
        """Raise Collapsed if a figure is out of bounds. Missing figures are not checked. The reason of failed searches
        is taken from the `episodes`."""
        broken = [name for name, value in figures.items() if not math.isfinite(value)]
        if broken:
            raise Collapsed(f"step {step}: {broken[0]} is {figures[broken[0]]}")
        s = self._settings
        bounds = (
            ("kl", figures.get("kl", 0.0), s.kl, True),
            ("ratio_max", figures.get("ratio_max", 1.0), s.ratio, True),
            ("cut_turns", figures.get("cut_turns", 0.0), s.cut_turns, True),
            ("failed_searches", figures.get("failed_searches", 0.0), s.failed_searches, True),
            ("entropy", figures.get("entropy", math.inf), s.entropy, False),
        )
        for name, value, bound, upper in bounds:
            if (value > bound) if upper else (value < bound):
                why = _search_failure(episodes) if name == "failed_searches" else ""
                raise Collapsed(f"step {step}: {name} is {value:.4g}, {'above' if upper else 'below'} {bound:g}{why}")
        if "reward" in figures:
            self._check_reward(step, figures["reward"])

    def _check_reward(self, step: int, reward: float) -> None:
        self._rewards.append(reward)
        if len(self._rewards) < 2 * WINDOW:
            return
        means = [math.fsum(self._rewards[i : i + WINDOW]) / WINDOW for i in range(len(self._rewards) - WINDOW + 1)]
        spread = max(self._rewards) - min(self._rewards)
        if max(means) - means[-1] > self._settings.reward_drop * spread > 1e-6 and means[-1] < means[0]:
            raise Collapsed(
                f"step {step}: the mean reward of {WINDOW} steps fell from {max(means):.4g} to {means[-1]:.4g}"
            )

    def state(self) -> list[float]:
        return list(self._rewards)

    def load(self, state: list[float]) -> None:
        self._rewards = list(state)


def _search_failure(episodes: Sequence[Episode]) -> str:
    return next((f" ({failure.message})" for e in episodes for failure in e.errors if failure.where == "search"), "")
