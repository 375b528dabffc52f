"""Supervised fine-tuning on gold traces: the same records, masks and packing as reinforcement learning.

A trace is an episode of the real system with a teacher in the model's place (`teacher`), so only the teacher's tokens
are learnt and everything from the environment stays masked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from ..english import counted
from ..errors import ConfigError
from ..record import Question
from ..runtime.system import System
from .data import Stream, draw_sample
from .distributed import ALONE, Ranks
from .policy import Policy
from .run import TrainRun
from .traces import TraceSet
from .trainer import Evaluator, Trainer, Watch


class SFTTrainer(Trainer):
    """One run of supervised fine-tuning."""

    def __init__(
        self,
        run: TrainRun,
        policy: Policy,
        engine: Any,
        greedy: System[Any],
        traces: TraceSet,
        dev: Sequence[Question],
        *,
        watch: Watch | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        recipe, o = run.recipe, run.recipe.optimiser
        if o.batch < ranks.size:
            raise ConfigError(
                f"{counted(o.batch, 'trace')} a step (optimiser.batch) cannot occupy {ranks.size} processes"
            )
        self.traces = traces
        chosen = draw_sample(range(len(traces)), recipe.sample, recipe.seed)
        steps = math.ceil(min(o.steps, o.epochs * len(chosen) / o.batch))
        evaluator = Evaluator(run, policy, greedy, dev, ranks=ranks)
        order = Stream(chosen, recipe.seed)
        super().__init__(run, policy, engine, evaluator, order, steps=steps, updates=steps, watch=watch, ranks=ranks)
        self.resume()

    async def train(self) -> None:
        while self.step < self.steps and not self.time_is_up():
            figures = self.one_step()
            self.guards.check(self.step, figures)
            self.step += 1
            if self.evaluates_after(self.step):
                self.refresh_engine()
                figures |= await self.evaluator.evaluate(self.step)
            self.report(figures)
            if self.step % self.recipe.checkpoint_every == 0:
                self.save()
        self.save()
        self.run.save_last(self.policy, self.step)

    def one_step(self) -> dict[str, float]:
        start = time.monotonic()
        packed = self.traces.batch(self.ranks.share(self.order.take(self.recipe.optimiser.batch)))
        result = self.optimiser.sft_step(packed)
        seconds = time.monotonic() - start
        figures = {
            "loss": result.figures["total"],
            "gradient_norm": result.gradient_norm,
            "learned_tokens": result.figures["tokens"],
            "packed": float(packed.token_ids.numel()),
            "tokens_per_second": packed.token_ids.numel() / seconds,
            "epoch": self.order.epoch,
            "learning_rate": self.optimiser.schedule.rate(self.optimiser.step_count - 1),
            "seconds": seconds,
        }
        return self.ranks.merge(figures, 1.0)
