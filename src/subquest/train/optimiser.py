"""One optimiser step over a packed batch, in micro-batches that fit the memory."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.autograd.graph import increment_version

from .batch import Batch
from .distributed import ALONE, Ranks, average_gradients, count_of, whole
from .loss import Aggregation, Loss, LossSettings, importance, policy_loss, sft_loss, summary
from .operations import to_device
from .policy import Policy
from .recipe import OptimiserPart

FILL = 256
"""On a GPU fine-tuning pads tokens and rows to multiples of this: torch keeps memory for every shape it has seen."""

WITHOUT_GRADIENTS = 4
"""Passes without gradients take so many times the tokens at once: they hold one layer's activations instead of all, and
what trajectories begin with alike is computed for fewer micro-batches."""

SMALLEST = 1 / 4
"""Of the recipe's micro-batches, where the GPU has too little memory: with much smaller ones a step takes far too long,
because what trajectories begin with alike is computed for each."""

T = TypeVar("T")
log = logging.getLogger("subquest.train")


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


class StepResult(NamedTuple):
    """The result of an optimiser step."""

    gradient_norm: float
    figures: dict[str, float]
    mismatch: float = 0.0
    """Mean gap between the log-probs before the first update and the rollout engine's."""


class Optimiser:
    """AdamW over the policy's trained parameters."""

    def __init__(self, policy: Policy, settings: OptimiserPart, steps: int, *, ranks: Ranks = ALONE) -> None:
        self.policy = policy
        self.settings = settings
        self.ranks = ranks
        self.micro_tokens = settings.micro_tokens
        """What the recipe asks for, or less once the GPU had no room for that."""
        self.schedule = Schedule(settings, steps)
        decayed = [p for p in policy.trained().values() if p.ndim > 1]
        plain = [p for p in policy.trained().values() if p.ndim <= 1]
        groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self.adam = torch.optim.AdamW(
            [g for g in groups if g["params"]], lr=settings.learning_rate, betas=settings.betas, fused=True
        )
        self.step_count = 0
        on_gpu = next(policy.parameters()).is_cuda
        self.fill = FILL if on_gpu and policy.architecture.window >= FILL else 0

    def policy_step(
        self,
        batch: Batch,
        loss: LossSettings,
        *,
        temperature: float,
        old: Tensor | None,
        reference: Tensor | None,
        only: Sequence[int] | None = None,
        cap: float | None = None,
    ) -> StepResult:
        """Improve the policy on a batch of rollouts. `old` and `reference` have one entry per action token of the
        batch.

        Without `old` these are the weights before the first update on the rollouts, so the old log-probs are the new
        ones, detached. With `cap`, advantages of tokens that older weights sampled are weighed (`loss.importance`).
        With `only` the other trajectories are left out, and the rest keep the weight they have in the whole batch. KL
        and entropy are reported as means over what went through the model, weighted as in the loss.
        """
        batch = self._for_all(batch, loss.aggregation)
        figures, mismatch = self._with_room(
            lambda: self._policy_gradients(
                batch, loss, temperature=temperature, old=old, reference=reference, only=only, cap=cap
            )
        )
        return StepResult(self._step(), figures, mismatch)

    def _policy_gradients(
        self,
        batch: Batch,
        loss: LossSettings,
        *,
        temperature: float,
        old: Tensor | None,
        reference: Tensor | None,
        only: Sequence[int] | None,
        cap: float | None,
    ) -> tuple[dict[str, float], float]:
        """Gradients of a batch; returns the figures and the mismatch of its step."""
        losses: list[Loss] = []
        packed, share = 0, 0.0
        gaps: list[Tensor] = []
        weighed: list[tuple[Tensor, Tensor]] = []
        merged = self.policy.merge()
        for part, counts in self._parts(batch, micro_batch_unit(loss), only):
            found = self.policy(part, temperature=temperature, entropy=True, merged=merged)
            before = found.logprobs.detach() if old is None else select_for(part, old)
            advantages, units = part.advantages, part.layout.units(loss.level)
            if cap is not None and part.older is not None and part.behaviour is not None:
                by = importance(before, part.behaviour, cap=cap, units=units, older=part.older)
                advantages = advantages * by.weights
                if counts:
                    weighed.append((by.weights.sum() - by.weights.numel(), by.truncated.sum()))
            value = policy_loss(
                found.logprobs,
                before,
                advantages,
                part.weights,
                loss,
                units=units,
                reference=None if reference is None else select_for(part, reference),
                entropy=found.entropy,
            )
            value.total.backward()  # type: ignore[no-untyped-call]
            if counts:
                losses.append(value)
                packed += part.token_ids.numel()
                share += float(batch.weights[part.places].sum())
                if old is None and part.behaviour is not None:
                    gaps.append((found.logprobs.detach() - part.behaviour).abs().sum())
        if merged is not None:
            merged.backward()
        figures = summary(losses) | {"packed": float(packed)}
        if cap is not None:  # a token that these weights sampled has the weight 1
            beyond, cut = (sum(float(pair[at]) for pair in weighed) / figures["tokens"] for at in (0, 1))
            figures |= {"importance": 1.0 + beyond, "truncated": cut}
        counted = sum(self.ranks.gather(share)) / self.ranks.size
        if counted > 0:  # weights need not add up to 1: some losses sum over tokens or roles
            figures |= {name: figures[name] / counted for name in ("kl", "entropy")}
        return figures, math.fsum(map(float, gaps)) / max(figures["tokens"], 1.0)

    def _for_all(self, batch: Batch, aggregation: Aggregation) -> Batch:
        """Weights as if all processes' batches were one; FSDP takes the mean of their gradients."""
        if self.ranks.size == 1:
            return batch
        rollouts = int(torch.unique(batch.layout.rollout).numel())
        mine = count_of(aggregation, batch.lengths.numel(), rollouts, batch.rows.numel())
        return replace(batch, weights=batch.weights * (self.ranks.size * mine / sum(self.ranks.gather(mine))))

    def _parts(
        self,
        batch: Batch,
        whole: Literal["trajectory", "rollout"],
        only: Sequence[int] | None = None,
        *,
        fill: int = 0,
    ) -> Iterator[tuple[Batch, bool]]:
        """Micro-batches, the same number on every process, and whether each counts (the last one is repeated as
        padding).

        Each is prepared while the device still computes the one before.
        """
        device = next(self.policy.parameters()).device
        bins = batch.bins(self.micro_tokens, whole=whole, only=only, alike=self.settings.share_prompts)
        missing = max(self.ranks.gather(len(bins))) - len(bins)
        for chosen in bins:
            part = batch.select(chosen)
            part = part.filled(fill, self.micro_tokens) if fill else part
            yield (part.sharing(fill) if self.settings.share_prompts else part).to(device), True
        for _ in range(missing):
            part = batch.select(bins[-1])
            yield replace(part, weights=torch.zeros_like(part.weights)).to(device), False

    def sft_step(self, batch: Batch) -> StepResult:
        """Make the batch's action tokens more likely."""
        batch = self._for_all(batch, "token-mean")
        total = self._with_room(lambda: self._sft_gradients(batch))
        return StepResult(self._step(), {"total": total, "tokens": float(batch.rows.numel())})

    def _sft_gradients(self, batch: Batch) -> float:
        """Gradients of a batch; returns its loss."""
        losses: list[Tensor] = []  # read at the end, to avoid waiting for the device between micro-batches
        merged = self.policy.merge()
        for part, _ in self._parts(batch, "trajectory", fill=self.fill):
            loss = sft_loss(self.policy(part, merged=merged).logprobs, part.weights)
            loss.backward()  # type: ignore[no-untyped-call]
            losses.append(loss.detach())
        if merged is not None:
            merged.backward()
        return sum(map(float, losses))

    def _with_room(self, gradients: Callable[[], T]) -> T:
        """Compute gradients; where the GPU has too little memory, again and from now on in micro-batches of half the
        size. The gradients are the same but for rounding."""
        while True:
            try:
                return gradients()
            except torch.OutOfMemoryError:
                least = SMALLEST * self.settings.micro_tokens
                if self.ranks.size > 1 or self.micro_tokens // 2 < least:  # other processes would wait for this one
                    raise
            self.adam.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            self.micro_tokens //= 2
            log.warning("the GPU has too little memory: going on with micro-batches of %d tokens", self.micro_tokens)

    def _step(self) -> float:
        parameters = [p for group in self.adam.param_groups for p in group["params"]]
        average_gradients(parameters, self.ranks)
        norm = whole(torch.nn.utils.clip_grad_norm_(parameters, self.settings.clip or math.inf))
        if torch.isfinite(norm):  # otherwise the weights stay as they are; the guards see the norm
            for group in self.adam.param_groups:
                group["lr"] = self.schedule.rate(self.step_count)
            self.adam.step()
            for (
                parameter
            ) in parameters:  # fused Adam does not update torch's counter, from which `Merged` detects changes
                increment_version(parameter)
        self.adam.zero_grad(set_to_none=True)
        self.step_count += 1
        return float(norm)


def select_for(part: Batch, vector: Tensor) -> Tensor:
    """The entries of a vector over the whole batch's action tokens that belong to one part."""
    assert part.places is not None
    return to_device(vector[part.places], part.rows.device)


def micro_batch_unit(loss: LossSettings) -> Literal["trajectory", "rollout"]:
    """What a micro-batch must not split."""
    return "rollout" if loss.level == "role" else "trajectory"


@torch.no_grad()
def logprobs_of(
    policy: Policy,
    batch: Batch,
    *,
    temperature: float,
    micro_tokens: int,
    share: bool = True,
    ranks: Ranks = ALONE,
    only: Sequence[int] | None = None,
) -> Tensor:
    """Log-probs of the batch's action tokens under the current policy, in the batch's order, on the CPU.

    `share` computes common beginnings of trajectories once. With `only`, tokens of the other trajectories keep the
    rollout engine's log-probs (0 if it gave none).
    """
    device = next(policy.parameters()).device
    out = torch.zeros(batch.rows.numel()) if batch.behaviour is None else batch.behaviour.clone()
    bins = batch.bins(WITHOUT_GRADIENTS * micro_tokens, only=only, alike=share)
    missing = max(ranks.gather(len(bins))) - len(bins)
    found: list[tuple[Tensor, Tensor]] = []
    merged = policy.merge()
    for chosen in bins:
        part = batch.select(chosen)
        assert part.places is not None
        going = part.sharing() if share else part
        found.append((part.places, policy(going.to(device), temperature=temperature, merged=merged).logprobs))
    for _ in range(missing):  # a sharded policy computes on all processes at once
        policy(batch.select(bins[-1]).to(device), temperature=temperature)
    for places, logprobs in found:
        out[places] = logprobs.cpu()
    return out
