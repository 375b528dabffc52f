"""Reinforcement learning: questions → rollouts → rewards → advantages → packed updates → evaluation → checkpoint.

PECO (CoDA), DECOR's multi-agent objective and APEX's plan training are one loop; they differ in the system that rolls
out, the reward, the baseline and the loss, which the recipe names. Rollouts are strictly on-policy by default: the
weights that sampled a batch are the weights it improves. With `rollout.overlap` the next batch is rolled out while this
one is learnt from, by weights one step old; with `rollout.ahead` its first episodes begin while this one's last are
running, and go on with the new weights. Importance weights correct for older ones, token by token (`loss.importance`).
Batches never overlap across a checkpoint, so a resumed run asks the same questions as one that was never interrupted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..english import counted
from ..errors import ConfigError
from ..record import Episode, Question
from ..rewards import RewardFunction
from ..runtime.system import System
from .advantage import By, trajectory_advantages
from .batch import Batch, Rollout, minibatches, pack
from .data import Stream
from .distributed import ALONE, SUMMED, Ranks
from .loss import LossSettings
from .optimiser import logprobs_of, micro_batch_unit
from .policy import Policy
from .rollouts import Clock, episode_figures, reward_figures, tokens_per_second, with_rewards
from .run import TrainRun
from .sampler import Sampled, Sampler
from .trainer import Evaluator, Trainer, Watch


class RLTrainer(Trainer):
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
        watch: Watch | None = None,
        progress: Callable[[str], None] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        recipe, o = run.recipe, run.recipe.optimiser
        if recipe.rollout.questions < ranks.size:
            raise ConfigError(
                f"{counted(recipe.rollout.questions, 'question')} a step cannot occupy {ranks.size} processes"
            )
        self.plans = bool(getattr(system.settings, "plan_only", False))
        """Whether plans are written and nothing is answered (APEX's plan training)."""
        evaluator = Evaluator(
            run,
            policy,
            greedy,
            [question for question in dev if question.decomposition or not self.plans],
            reward=reward if self.plans else None,
            ranks=ranks,
        )
        updates = o.steps * o.minibatches
        super().__init__(
            run, policy, engine, evaluator, questions, steps=o.steps, updates=updates, watch=watch, ranks=ranks
        )
        self.loss: LossSettings = recipe.objective
        self.baseline = recipe.baseline
        self.by: By = recipe.by or ("role" if self.loss.level == "role" else "rollout")
        channel = ranks.on_another_channel()
        self.sampler = Sampler(recipe, system, questions, reward, by=self.by, ranks=channel, progress=progress)
        if self.loss.kl:
            policy.keep_reference()
        self._ahead: asyncio.Task[Sampled] | None = None
        """The next batch, being rolled out by the weights before this step's update."""
        self._progress = progress or (lambda text: None)
        if state := self.resume():
            self.guards.load(state["guards"])
        self.refresh_engine()

    def state(self) -> dict[str, Any]:
        return {**super().state(), "guards": self.guards.state()}

    async def train(self) -> None:
        """Train up to the recipe's last step, or until the time is up; it ends with a checkpoint either way."""
        if self.step == 0:
            self.report(await self.evaluator.evaluate(0))
            self.save()
        try:
            while self.step < self.steps and not self.time_is_up():
                figures, episodes = await self.one_step()
                self.guards.check(self.step - 1, figures, episodes)
                if self.evaluates_after(self.step):
                    self._progress("evaluating")
                    figures |= await self.evaluator.evaluate(self.step)
                self.report(figures, episodes[: self.recipe.rollout.group])
                if self._saves_after(self.step):
                    self.save()
            await self.sampler.forget_begun()
            saved = self.ranks.broadcast(self.step in self.run.checkpoints.steps())
            if self._ahead is None and not saved:
                self.save()  # otherwise the steps since the last checkpoint are repeated, with their overlap
            self.run.save_last(self.policy, self.step)
        finally:
            await self.sampler.forget_begun()
            if self._ahead is not None:
                self._ahead.cancel()
                await asyncio.gather(self._ahead, return_exceptions=True)

    def _saves_after(self, step: int) -> bool:
        """Whether a checkpoint is written after this many steps: rollouts never reach beyond it."""
        return step == self.steps or step % self.recipe.checkpoint_every == 0

    async def one_step(self) -> tuple[dict[str, float], list[Episode]]:
        """Roll out one batch and learn from it; returns the figures and the episodes with their rewards."""
        clock = Clock()
        goes_on = not self._saves_after(self.step + 1)
        sampled = await (self._ahead or self.sampler.sample(self.step, ahead=goes_on))
        self._ahead = None
        clock.lap("sampling")
        if self.recipe.rollout.overlap and goes_on:
            self._ahead = asyncio.create_task(self.sampler.sample(self.step + 1))
        advantages = trajectory_advantages(sampled.episodes, sampled.rewards, self.baseline, by=self.by)
        rollouts = [Rollout(e, a) for e, a in zip(sampled.episodes, advantages, strict=True)]
        figures = episode_figures(sampled.episodes) | reward_figures(sampled.rewards)
        if self.plans:
            del figures["em"], figures["f1"]
        figures["drawn"] = sampled.drawn
        self._progress("updating")
        if self._ahead is None and self.sampler.begun is None:
            figures |= self._update(rollouts)
        else:  # in a thread, so that the rollouts go on
            figures |= await asyncio.to_thread(self._update, rollouts)
        clock.lap("update")
        if self._ahead is not None:
            await asyncio.wait([self._ahead])  # all turns of a batch are sampled by one version of the weights
            clock.lap("waiting")
        self.step += 1
        self.refresh_engine()
        clock.lap("sync")
        clock.laps.pop("sampling")
        clock.laps |= sampled.seconds
        figures |= clock.figures()
        figures = self.ranks.merge(figures | tokens_per_second(figures), len(sampled.episodes))
        return figures, list(map(with_rewards, sampled.episodes, sampled.rewards, advantages))

    def _update(self, rollouts: list[Rollout]) -> dict[str, float]:
        """One optimiser step a mini-batch; the number of steps does not depend on how many executors ran."""
        o, loss, temperature = self.recipe.optimiser, self.loss, self.recipe.rollout.temperature
        # the same number on every process, and fewer if dynamic sampling found few rollouts with spread
        parts = minibatches(rollouts, min(self.ranks.gather(min(o.minibatches, len(rollouts)))))
        batches = [pack(part, aggregation=loss.aggregation, length=loss.length, version=self.step) for part in parts]
        only = [self._teaching(b) for b in batches]
        # The old policy is the one before the first update on this batch of rollouts, so at that update its log-probs
        # are the update's own, detached.
        old = [self._old(b, o) if n else None for n, (b, o) in enumerate(zip(batches, only, strict=True))]
        figures: dict[str, float] = {"mismatch": 0.0}
        older = sum(int(b.older.sum()) for b in batches if b.older is not None)
        cap = self.recipe.rollout.importance_cap if older or self.recipe.rollout.ahead else None
        if cap is not None:
            figures["older"] = older / sum(b.rows.numel() for b in batches)
        reference = [self._reference(b, o) for b, o in zip(batches, only, strict=True)]
        for batch, before, ref, chosen in zip(batches, old, reference, only, strict=True):
            stepped = self.optimiser.policy_step(
                batch,
                loss,
                temperature=temperature,
                old=before,
                reference=ref,
                only=chosen,
                cap=cap,
            )
            if before is None:
                figures["mismatch"] = stepped.mismatch
            for name, value in (stepped.figures | {"gradient_norm": stepped.gradient_norm}).items():
                if name == "ratio_max":
                    figures[name] = max(figures.get(name, 0.0), value)
                else:  # tokens add up over the mini-batches, everything else is their mean
                    figures[name] = figures.get(name, 0.0) + value / (1 if name in SUMMED else len(batches))
        figures |= self.policy.meter.read()
        figures["skipped"] = 1 - figures["packed"] / sum(b.token_ids.numel() for b in batches)
        figures["clip_fraction"] = sum(figures[f"clipped_{side}"] for side in ("low", "high", "dual"))
        figures["learning_rate"] = self.optimiser.schedule.rate(self.optimiser.step_count - 1)
        return figures

    def _teaching(self, batch: Batch) -> list[int] | None:
        """The trajectories that go through the model; None for all.

        A trajectory with the advantage zero has no policy gradient. Without a KL term and an entropy bonus it has no
        gradient at all, and leaving it out is exact; with them, `skip_flat` takes these terms from the others alone.
        """
        exact = not (self.loss.kl or self.loss.entropy)
        return batch.teaching(whole=micro_batch_unit(self.loss)) if exact or self.recipe.optimiser.skip_flat else None

    def _old(self, batch: Batch, only: Sequence[int] | None) -> torch.Tensor:
        """Log-probs before the first update on these rollouts."""
        if self.recipe.optimiser.old_logprobs == "trainer":
            return self._logprobs(batch, only)
        if batch.behaviour is None:
            raise ConfigError('optimiser.old_logprobs = "engine" needs a rollout engine that gives log-probs')
        return batch.behaviour

    def _logprobs(self, batch: Batch, only: Sequence[int] | None) -> torch.Tensor:
        return logprobs_of(
            self.policy,
            batch,
            temperature=self.recipe.rollout.temperature,
            micro_tokens=self.optimiser.micro_tokens,
            share=self.recipe.optimiser.share_prompts,
            ranks=self.ranks,
            only=only,
        )

    def _reference(self, batch: Batch, only: Sequence[int] | None) -> torch.Tensor | None:
        if not self.loss.kl:
            return None
        with self.policy.reference():
            return self._logprobs(batch, only)
