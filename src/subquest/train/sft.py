"""Supervised fine-tuning on gold traces: the same records, masks and packing as reinforcement learning.

A trace is an episode of the real system with a teacher in the model's place (`teacher`), so only the teacher's tokens
are learnt and everything the environment said stays masked.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..record import Question
from ..runtime.system import System
from .evaluation import Evaluator
from .guards import Guards
from .optimise import Optimiser
from .policy import Policy
from .ranks import ALONE, Ranks
from .run import TrainRun
from .stream import Stream, drawn
from .traces import TraceSet


class SFTTrainer:
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
        watch: Callable[[int, Mapping[str, float]], None] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        recipe = run.recipe
        o = recipe.optimiser
        if o.batch < ranks.size:
            raise ConfigError(f"{o.batch} traces a step (optimiser.batch) cannot occupy {ranks.size} processes")
        self.ranks = ranks
        self.run, self.recipe, self.policy, self.engine = run, recipe, policy, engine
        self.traces = traces
        chosen = drawn(range(len(traces)), recipe.sample, recipe.seed)
        self.order = Stream(chosen, recipe.seed)
        self.steps = math.ceil(min(o.steps, o.epochs * len(chosen) / o.batch))
        self.optimiser = Optimiser(policy, o, self.steps, ranks=ranks)
        self.evaluator = Evaluator(run, policy, greedy, dev, ranks=ranks)
        self.guards = Guards(recipe.guards)
        self.step = 0
        self._watch = watch
        state = run.checkpoints.load_latest(policy, self.optimiser)
        if state is not None:
            self.step, self.order.position = state["step"], state["position"]
            self.evaluator.best = state["best"]

    def save(self) -> None:
        state = {"position": self.order.position, "best": self.evaluator.best, "sources": self.run.sources}
        with self.run.pace.timed("checkpoint"):
            self.run.checkpoints.save(self.step, self.policy, self.optimiser, state)

    async def train(self) -> None:
        recipe = self.recipe
        while self.step < self.steps and not self._time_is_up():
            figures = self.one_step()
            self.guards.check(self.step, figures)
            self.step += 1
            if self._evaluates(self.step):
                self.engine.refresh(**self.policy.engine_state(), policy=self.step)
                figures |= await self.evaluator.evaluate(self.step)
            self.run.record(self.step, figures)
            if self._watch is not None and self.ranks.first:
                self._watch(self.step, figures)
            if self.step % recipe.checkpoint_every == 0:
                self.save()
        self.save()
        self.run.save_last(self.policy, self.step)

    def _time_is_up(self) -> bool:
        return self.ranks.told(self.run.pace.time_is_up(evaluates=self._evaluates(self.step + 1)))

    def _evaluates(self, step: int) -> bool:
        """Whether the dev questions are asked after so many steps."""
        return step == self.steps or step % self.recipe.evaluate_every == 0

    def one_step(self) -> dict[str, float]:
        start = time.monotonic()
        packed = self.traces.batch(self.ranks.share(self.order.take(self.recipe.optimiser.batch)))
        stepped = self.optimiser.sft_step(packed)
        seconds = time.monotonic() - start
        figures = {
            "loss": stepped.figures["total"],
            "gradient_norm": stepped.gradient_norm,
            "learned_tokens": stepped.figures["tokens"],
            "packed": float(packed.token_ids.numel()),
            "tokens_per_second": packed.token_ids.numel() / seconds,
            "epoch": self.order.epoch,
            "learning_rate": self.optimiser.schedule.rate(self.optimiser.step_count - 1),
            "seconds": seconds,
        }
        return self.ranks.merge(figures, 1.0)
