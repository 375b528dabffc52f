"""The numbers of a step that people watch: rewards by term, lengths, times, tokens a second by phase."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from ..record import Episode
from ..rewards import Reward


def reward_figures(rewards: Sequence[Reward]) -> dict[str, float]:
    """Mean and spread of the reward, the mean of each term and of each role's reward."""
    n = max(len(rewards), 1)
    mean = sum(r.total for r in rewards) / n
    figures = {"reward": mean, "reward_std": (sum((r.total - mean) ** 2 for r in rewards) / n) ** 0.5}
    for name in sorted({term for r in rewards for term in r.terms}):
        figures[f"reward/{name}"] = sum(r.terms.get(name, 0.0) for r in rewards) / n
    for role in sorted({role for r in rewards for role in r.roles}):
        acted = [r.roles[role] for r in rewards if role in r.roles]
        figures[f"reward_{role}"] = sum(acted) / len(acted)
    return figures


def learnt_from(episode: Episode, reward: Reward, advantages: dict[str, float]) -> Episode:
    """An episode with what training made of it, as the run store keeps it and the viewer shows it.

    `rewards` then holds `total`, each term by its name, `role/ROLE` and `advantage/TRAJECTORY`.
    """
    rewards = {"total": reward.total, **reward.terms}
    rewards |= {f"role/{role}": value for role, value in reward.roles.items()}
    rewards |= {f"advantage/{trajectory}": value for trajectory, value in advantages.items()}
    return replace(episode, rewards=rewards)


class Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self.laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self.laps[phase] = self.laps.get(phase, 0.0) + now - self._last
        self._last = now

    def figures(self) -> dict[str, float]:
        return {f"seconds_{phase}": s for phase, s in self.laps.items()} | {"seconds": self._last - self._start}


def speeds(figures: dict[str, float]) -> dict[str, float]:
    """Tokens a second by phase: written while rolling out, computed while updating."""
    out = {}
    for phase, counted in (("rollout", "completion_tokens"), ("update", "packed")):
        if figures.get(f"seconds_{phase}") and counted in figures:
            out[f"tokens_s_{phase}"] = figures[counted] / figures[f"seconds_{phase}"]
    return out
