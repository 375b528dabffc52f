"""Supervised fine-tuning on gold traces: the same records, masks and packing as reinforcement learning.

A trace is an episode of the real system with a teacher in the model's place (`teacher`), so only the teacher's tokens
are learnt and everything the environment said stays masked.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from .. import sync
from ..engine.chat import chat_format
from ..engine.torch.loader import Source
from ..engine.torch.tokens import Vocabulary
from ..errors import DataError
from ..record import Episode, Question
from ..systems.base import System
from .batch import Rollout, pack
from .evaluation import Evaluator
from .optimise import Optimiser
from .policy import Policy
from .recipe import DataPart, Recipe
from .run import TrainRun
from .stream import Stream


class SFTTrainer:
    """One run of supervised fine-tuning."""

    def __init__(
        self,
        run: TrainRun,
        policy: Policy,
        engine: Any,
        greedy: System[Any],
        traces: Sequence[Episode],
        dev: Sequence[Question],
        *,
        watch: Callable[[int, Mapping[str, float]], None] | None = None,
    ) -> None:
        recipe = run.recipe
        o = recipe.optimiser
        self.run, self.recipe, self.policy, self.engine = run, recipe, policy, engine
        self.traces = Stream(traces, recipe.seed)
        self.steps = min(o.steps, math.ceil(o.epochs * len(traces) / o.batch))
        self.optimiser = Optimiser(policy, o, self.steps)
        self.evaluator = Evaluator(run, policy, greedy, dev)
        self.step = 0
        self._watch = watch
        state = run.checkpoints.load_latest(policy, self.optimiser)
        if state is not None:
            self.step, self.traces.position = state["step"], state["position"]
            self.evaluator.best = state["best"]

    def save(self) -> None:
        state = {"position": self.traces.position, "best": self.evaluator.best}
        self.run.checkpoints.save(self.step, self.policy, self.optimiser, state)

    async def train(self) -> None:
        recipe = self.recipe
        while self.step < self.steps and not self.run.time_is_up():
            figures = self.one_step()
            self.step += 1
            last = self.step == self.steps
            if last or self.step % recipe.evaluate_every == 0:
                self.engine.refresh(**self.policy.engine_state(), policy=self.step)
                figures |= await self.evaluator.evaluate(self.step)
            self.run.record(self.step, figures)
            if self._watch is not None:
                self._watch(self.step, figures)
            if self.step % recipe.checkpoint_every == 0:
                self.save()
        self.save()

    def one_step(self) -> dict[str, float]:
        start = time.monotonic()
        batch = self.traces.take(self.recipe.optimiser.batch)
        rollouts = [Rollout(e, {t.id: 1.0 for t in e.trajectories}) for e in batch]
        packed = pack(rollouts, aggregation="token-mean")
        stepped = self.optimiser.sft_step(packed)
        seconds = time.monotonic() - start
        return {
            "loss": stepped.figures["total"],
            "gradient_norm": stepped.gradient_norm,
            "learned_tokens": stepped.figures["tokens"],
            "packed": float(packed.token_ids.numel()),
            "tokens_per_second": packed.token_ids.numel() / seconds,
            "epoch": self.traces.epoch,
            "learning_rate": self.optimiser.schedule.rate(self.optimiser.step_count - 1),
            "seconds": seconds,
        }


def gold_traces(recipe: Recipe, source: Source, *, workers: int = 1) -> tuple[list[Episode], Counter[str]]:
    """Traces of every source in every system's protocol, and why some questions gave none.

    Sources are worked on side by side: each is generated, indexed and traced in a process of its own.
    """
    systems = recipe.systems or (recipe.system,)
    jobs = [(part, system) for part in recipe.data for system in systems]
    arguments = [(part, system, recipe, source.tokenizer, source.architecture.vocabulary) for part, system in jobs]
    if workers > 1 and len(jobs) > 1:
        # fresh processes: a fork would copy locks that threads of this one may hold
        with ProcessPoolExecutor(min(workers, len(jobs)), mp_context=get_context("spawn")) as pool:
            found = list(pool.map(_traces, *zip(*arguments, strict=True)))
    else:
        found = [_traces(*a) for a in arguments]
    episodes = [e for part, _ in found for e in part]
    rejected = sum((reasons for _, reasons in found), Counter[str]())
    if not episodes:
        raise DataError(f"no question gave a gold trace: {dict(rejected)}")
    return episodes, rejected


def _traces(
    part: DataPart, system: str, recipe: Recipe, tokenizer: Any, size: int
) -> tuple[list[Episode], Counter[str]]:
    import tempfile
    from pathlib import Path

    from .data import load_material, open_search
    from .teacher import make_traces

    material = load_material([part])
    vocabulary = Vocabulary(tokenizer, size)
    chat = chat_format(tokenizer.chat_template or "", bos=tokenizer.bos_token or "", eos=tokenizer.eos_token or "")
    settings = dict(recipe.settings) if system == recipe.system else {}
    with tempfile.TemporaryDirectory() as folder, open_search(material.documents, Path(folder)) as search:
        making = make_traces(system, material.questions, search, vocabulary, chat, k=recipe.k, **settings)
        traces = sync.run(making)
    return [e.without_events() for e in traces.episodes], traces.rejected
