"""Reinforcement learning: questions → rollouts → rewards → advantages → packed updates → evaluation → checkpoint.

PECO (CoDA), DECOR's multi-agent objective and APEX's plan training are one loop; they differ in the system that rolls
out, the reward, the baseline and the loss, which the recipe names. Rollouts are strictly on-policy by default: the
weights that sampled a batch are the weights it improves.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from ..record import Episode, Question
from ..rewards.base import Reward, RewardFunction
from ..systems.base import System
from .advantage import BASELINES, By, trajectory_advantages, with_spread
from .batch import Batch, Rollout, minibatches, pack
from .evaluation import Evaluator
from .guards import Guards
from .loss import LOSSES, LossSettings
from .optimise import Optimiser, logprobs_of
from .policy import Policy
from .rollouts import episode_figures, place_seed, roll_out
from .run import TrainRun
from .stream import Stream

REFILLS = 4
"""Rounds of new questions that dynamic sampling asks for before it takes what it has."""


class Sampled(NamedTuple):
    """A step's rollouts with their rewards."""

    episodes: list[Episode]
    rewards: list[Reward]
    drawn: int
    """Rollouts made, those of dropped groups included."""


class RLTrainer:
    """One run of reinforcement learning. All parts come from outside, so tests can put in their own."""

    def __init__(
        self,
        run: TrainRun,
        policy: Policy,
        engine: Any,
        system: System[Any],
        greedy: System[Any],
        questions: Stream[Question],
        dev: Sequence[Question],
        reward: RewardFunction,
        *,
        watch: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        recipe = run.recipe
        self.run, self.recipe, self.policy, self.engine = run, recipe, policy, engine
        self.system, self.questions, self.reward = system, questions, reward
        self.evaluator = Evaluator(run, policy, greedy, dev)
        self.loss: LossSettings = LOSSES[recipe.loss or recipe.system]
        self.baseline = BASELINES[recipe.advantage or recipe.system]
        self.by: By = recipe.by or ("role" if self.loss.level == "role" else "rollout")
        steps = recipe.optimiser.steps * recipe.optimiser.minibatches
        self.optimiser = Optimiser(policy, recipe.optimiser, steps)
        if self.loss.kl:
            policy.keep_reference()
        self.guards = Guards(recipe.guards)
        self.step = 0
        self._watch = watch
        self._resume()

    def _resume(self) -> None:
        state = self.run.checkpoints.load_latest(self.policy, self.optimiser)
        if state is not None:
            self.step, self.evaluator.best = state["step"], state["best"]
            self.questions.position = state["position"]
            self.guards.load(state["guards"])
        self.engine.refresh(**self.policy.engine_state(), policy=self.step)

    def save(self) -> None:
        state = {"position": self.questions.position, "best": self.evaluator.best, "guards": self.guards.state()}
        self.run.checkpoints.save(self.step, self.policy, self.optimiser, state)

    async def train(self) -> None:
        """Up to the recipe's last step, or until the slice's time is up; a checkpoint stands at the end either way."""
        recipe = self.recipe
        if self.step == 0:
            self._report(await self.evaluator.evaluate(0))
        while self.step < recipe.optimiser.steps and not self.run.time_is_up():
            figures, episodes = await self.one_step()
            self.guards.check(self.step, figures)
            self.step += 1
            last = self.step == recipe.optimiser.steps
            if last or self.step % recipe.evaluate_every == 0:
                figures |= await self.evaluator.evaluate(self.step)
            self._report(figures, episodes[: recipe.rollout.group])
            if last or self.step % recipe.checkpoint_every == 0:
                self.save()
        self.save()

    def _report(self, figures: Mapping[str, float], episodes: Sequence[Episode] = ()) -> None:
        self.run.record(self.step, figures, episodes)
        if self._watch is not None:
            self._watch(self.step, figures)

    async def one_step(self) -> tuple[dict[str, float], list[Episode]]:
        """One batch of rollouts and what is learnt from it."""
        clock = _Clock()
        sampled = await self._sample(clock)
        advantages = trajectory_advantages(sampled.episodes, sampled.rewards, self.baseline, by=self.by)
        rollouts = [Rollout(e, a) for e, a in zip(sampled.episodes, advantages, strict=True)]
        figures = episode_figures(sampled.episodes) | _reward_figures(sampled.rewards)
        figures["drawn"] = sampled.drawn
        figures |= self._update(rollouts)
        clock.lap("update")
        self.engine.refresh(**self.policy.engine_state(), policy=self.step + 1)
        clock.lap("sync")
        return figures | clock.figures(), sampled.episodes

    async def _sample(self, clock: _Clock) -> Sampled:
        r = self.recipe.rollout
        episodes: list[Episode] = []
        rewards: list[Reward] = []
        drawn = 0
        for refill in range(REFILLS if r.dynamic else 1):
            wanted = r.questions - len(episodes) // r.group
            seed = place_seed(self.recipe.seed, self.step, refill)
            found = await roll_out(
                self.system, self.questions.take(wanted), group=r.group, seed=seed, concurrency=r.concurrency
            )
            clock.lap("rollout")
            scored = await self.reward.score(found)
            clock.lap("reward")
            drawn += len(found)
            alive = with_spread(found, scored, by=self.by) if r.dynamic else [True] * len(found)
            episodes += [e for e, kept in zip(found, alive, strict=True) if kept]
            rewards += [x for x, kept in zip(scored, alive, strict=True) if kept]
            if len(episodes) == r.questions * r.group:
                break
        return Sampled(episodes, rewards, drawn)

    def _update(self, rollouts: list[Rollout]) -> dict[str, float]:
        """One optimiser step a mini-batch; the number of steps does not depend on how many executors ran."""
        o, loss, temperature = self.recipe.optimiser, self.loss, self.recipe.rollout.temperature
        parts = minibatches(rollouts, o.minibatches)
        batches = [pack(part, aggregation=loss.aggregation, length=loss.length) for part in parts]
        micro = o.micro_tokens
        # With several steps on one batch the old policy is the one before the first of them.
        old = (
            [logprobs_of(self.policy, b, temperature=temperature, micro_tokens=micro) for b in batches]
            if len(batches) > 1
            else [None]
        )
        reference = [self._reference(b) for b in batches]
        figures: dict[str, float] = {}
        for batch, before, ref in zip(batches, old, reference, strict=True):
            stepped = self.optimiser.policy_step(batch, loss, temperature=temperature, old=before, reference=ref)
            found = stepped.figures | {"gradient_norm": stepped.gradient_norm, "packed": float(batch.token_ids.numel())}
            for name, value in found.items():
                figures[name] = figures.get(name, 0.0) + value / len(batches)
        figures["mismatch"] = self._mismatch(batches[0], old[0])
        figures["learning_rate"] = self.optimiser.schedule.rate(self.optimiser.step_count - 1)
        return figures

    def _reference(self, batch: Batch) -> torch.Tensor | None:
        if not self.loss.kl:
            return None
        o = self.recipe.optimiser
        with self.policy.reference():
            return logprobs_of(
                self.policy, batch, temperature=self.recipe.rollout.temperature, micro_tokens=o.micro_tokens
            )

    def _mismatch(self, batch: Batch, old: torch.Tensor | None) -> float:
        """Mean gap between the rollout engine's log-probs and the training forward's, where both are known."""
        if old is None or batch.behaviour is None:
            return 0.0
        return float((old - batch.behaviour).abs().mean())


def _reward_figures(rewards: Sequence[Reward]) -> dict[str, float]:
    n = max(len(rewards), 1)
    mean = sum(r.total for r in rewards) / n
    figures = {"reward": mean, "reward_std": (sum((r.total - mean) ** 2 for r in rewards) / n) ** 0.5}
    for name in sorted({term for r in rewards for term in r.terms}):
        figures[f"reward/{name}"] = sum(r.terms.get(name, 0.0) for r in rewards) / n
    for role in sorted({role for r in rewards for role in r.roles}):
        acted = [r.roles[role] for r in rewards if role in r.roles]
        figures[f"reward_{role}"] = sum(acted) / len(acted)
    return figures


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self._start = self._last = time.monotonic()
        self._laps: dict[str, float] = {}

    def lap(self, phase: str) -> None:
        now = time.monotonic()
        self._laps[phase] = self._laps.get(phase, 0.0) + now - self._last
        self._last = now

    def figures(self) -> dict[str, float]:
        return {f"seconds_{p}": s for p, s in self._laps.items()} | {"seconds": self._last - self._start}
