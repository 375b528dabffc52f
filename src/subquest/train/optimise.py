"""One optimiser step over a packed batch, in micro-batches that fit the memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from .batch import Batch
from .loss import Aggregation, Loss, LossSettings, policy_loss, sft_loss, summary
from .policy import Policy
from .ranks import ALONE, Ranks
from .recipe import OptimiserPart
from .sharding import average_gradients, count_of, whole


class Schedule:
    """The learning rate of a step: a linear rise, then constant or a half cosine down to zero."""

    def __init__(self, settings: OptimiserPart, steps: int) -> None:
        self._settings = settings
        self._steps = steps
        self._rise = settings.warmup * steps

    def rate(self, step: int) -> float:
        """`step` counts from 0."""
        s = self._settings
        if step + 1 <= self._rise:
            return s.learning_rate * (step + 1) / self._rise
        if s.schedule == "constant":
            return s.learning_rate
        progress = (step - self._rise) / max(self._steps - self._rise, 1)
        return s.learning_rate * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


class Stepped(NamedTuple):
    """What an optimiser step did."""

    gradient_norm: float
    figures: dict[str, float]


class Optimiser:
    """AdamW over the policy's trained parameters."""

    def __init__(self, policy: Policy, settings: OptimiserPart, steps: int, *, ranks: Ranks = ALONE) -> None:
        self.policy = policy
        self.settings = settings
        self.ranks = ranks
        self.schedule = Schedule(settings, steps)
        decayed = [p for p in policy.trained().values() if p.ndim > 1]
        plain = [p for p in policy.trained().values() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        on_gpu = next(policy.parameters()).is_cuda
        self.adam = torch.optim.AdamW(
            [g for g in groups if g["params"]], lr=settings.learning_rate, betas=settings.betas, fused=on_gpu
        )
        self.step_count = 0

    def policy_step(
        self, batch: Batch, loss: LossSettings, *, temperature: float, old: Tensor | None, reference: Tensor | None
    ) -> Stepped:
        """Improve the policy on a batch of rollouts. `old` and `reference` stand beside the batch's action tokens.

        Without `old` the batch was sampled by these very weights, so the old log-probs are the new ones, detached.
        """
        losses: list[Loss] = []
        batch = self._for_all(batch, loss.aggregation)
        for part, counts in self._parts(batch, "rollout" if loss.level == "role" else "trajectory"):
            found = self.policy(part, temperature=temperature, entropy=True)
            value = policy_loss(
                found.logprobs,
                found.logprobs.detach() if old is None else beside(part, old),
                part.advantages,
                part.weights,
                loss,
                units=part.layout.units(loss.level),
                reference=None if reference is None else beside(part, reference),
                entropy=found.entropy,
            )
            value.total.backward()  # type: ignore[no-untyped-call]
            if counts:
                losses.append(value)
        return Stepped(self._step(), summary(losses))

    def _for_all(self, batch: Batch, aggregation: Aggregation) -> Batch:
        """Weights as if all processes' batches were one; FSDP takes the mean of their gradients."""
        if self.ranks.size == 1:
            return batch
        rollouts = int(torch.unique(batch.layout.rollout).numel())
        mine = count_of(aggregation, batch.lengths.numel(), rollouts, batch.rows.numel())
        return replace(batch, weights=batch.weights * (self.ranks.size * mine / sum(self.ranks.gather(mine))))

    def _parts(self, batch: Batch, together: Literal["trajectory", "rollout"]) -> Iterator[tuple[Batch, bool]]:
        """Micro-batches, as many on every process, and whether each counts (the last one is repeated to fill up)."""
        device = next(self.policy.parameters()).device
        parts = batch.split(self.settings.micro_tokens, whole=together)
        missing = max(self.ranks.gather(len(parts))) - len(parts)
        for part in parts:
            yield part.to(device), True
        for _ in range(missing):
            yield replace(parts[-1], weights=torch.zeros_like(parts[-1].weights)).to(device), False

    def sft_step(self, batch: Batch) -> Stepped:
        """Make the batch's action tokens more likely."""
        total = 0.0
        batch = self._for_all(batch, "token-mean")
        for part, _ in self._parts(batch, "trajectory"):
            loss = sft_loss(self.policy(part).logprobs, part.weights)
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        return Stepped(self._step(), {"total": total, "tokens": float(batch.rows.numel())})

    def _step(self) -> float:
        parameters = list(self.policy.trained().values())
        average_gradients(parameters, self.ranks)
        norm = whole(torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip or math.inf))
        if torch.isfinite(norm):  # a broken gradient never touches the weights; the guards see the norm
            for group in self.adam.param_groups:
                group["lr"] = self.schedule.rate(self.step_count)
            self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        self.step_count += 1
        return float(norm)


def beside(part: Batch, vector: Tensor) -> Tensor:
    """A part's slice of a vector that stands beside the action tokens of the batch it was cut from."""
    assert part.places is not None
    return vector[part.places].to(part.rows.device)


@torch.no_grad()
def logprobs_of(policy: Policy, batch: Batch, *, temperature: float, micro_tokens: int, ranks: Ranks = ALONE) -> Tensor:
    """Log-probs of the batch's action tokens under the policy as it is, in the batch's order, on the CPU."""
    device = next(policy.parameters()).device
    out = torch.empty(batch.rows.numel(), dtype=torch.float32)
    parts = batch.split(micro_tokens)
    missing = max(ranks.gather(len(parts))) - len(parts)
    for part in parts:
        assert part.places is not None
        out[part.places] = policy(part.to(device), temperature=temperature).logprobs.cpu()
    for _ in range(missing):  # a sharded policy computes on all processes at once
        policy(parts[-1].to(device), temperature=temperature)
    return out
