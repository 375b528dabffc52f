"""The update as most trainers make it: rows padded to the longest of their micro-batch, through the plain model.

The peer of `benchmarks/train.py`: transformers' own model with scaled-dot-product attention, a textbook LoRA beside
each matrix, log-probs from all logits. It does what one PECO update does: a pass of the reference policy (adapter
off), a forward and backward pass, one step of AdamW.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from subquest.engine.torch import Source
from subquest.train.batch import Rollout
from subquest.train.lora import LoraSettings
from subquest.train.loss import LossSettings, policy_loss


class LoraBeside(nn.Module):
    """y + scale * B A x, for any number of leading dimensions."""

    def __init__(self, base: nn.Linear, settings: LoraSettings) -> None:
        super().__init__()
        self.base, self.scale, self.enabled = base, settings.scale, True
        place = base.weight.device
        self.lora_A = nn.Parameter(torch.empty(settings.rank, base.in_features, device=place))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, settings.rank, device=place))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.base(x)
        if self.enabled:
            y = y + self.scale * (x @ self.lora_A.to(x.dtype).t() @ self.lora_B.to(x.dtype).t())
        return y


def plain_model(source: Source, settings: LoraSettings, device: torch.device, dtype: torch.dtype) -> Any:
    """transformers' model with an adapter beside every target matrix."""
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_config(source.config, attn_implementation="sdpa")
    model.load_state_dict(source.state)
    model.to(device, dtype).requires_grad_(False)
    for layer in model.model.layers:
        for block in (layer.self_attn, layer.mlp):
            for target in settings.targets:
                if hasattr(block, target):
                    setattr(block, target, LoraBeside(getattr(block, target), settings))
    return model


class Row(NamedTuple):
    """One trajectory."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]
    advantage: float


def rows_of(rollouts: Sequence[Rollout]) -> list[Row]:
    return [
        Row(t.token_ids, t.action_mask, r.advantages[t.id])
        for r in rollouts
        for t in r.episode.trajectories
        if t.id in r.advantages and any(t.action_mask)
    ]


class PaddedUpdate:
    """One optimiser step over rows in padded micro-batches of at most so many tokens, padding included."""

    def __init__(self, model: Any, loss: LossSettings, *, micro_tokens: int, by_length: bool) -> None:
        self.model, self.loss, self.micro_tokens, self.by_length = model, loss, micro_tokens, by_length
        self.trained = [p for p in model.parameters() if p.requires_grad]
        self.layers = [m for m in model.modules() if isinstance(m, LoraBeside)]
        on_gpu = self.trained[0].is_cuda
        self.adam = torch.optim.AdamW(self.trained, lr=1e-6, betas=(0.9, 0.95), weight_decay=0.0, fused=on_gpu)
        self.padding = 0.0
        """Share of the computed tokens that were padding, in the last step."""

    def step(self, rows: Sequence[Row]) -> None:
        batches = self._batches(rows)
        computed = sum(len(b) * max(len(r.ids) for r in b) for b in batches)
        self.padding = 1 - sum(len(r.ids) for r in rows) / computed
        actions = sum(sum(r.mask) for r in rows)
        for batch in batches:
            self._backward(batch, 1 / actions)
        nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)

    def _batches(self, rows: Sequence[Row]) -> list[list[Row]]:
        out: list[list[Row]] = []
        longest = 0
        for row in sorted(rows, key=lambda r: -len(r.ids)) if self.by_length else rows:
            longest = max(longest, len(row.ids))
            if not out or longest * (len(out[-1]) + 1) > self.micro_tokens:
                out.append([])
                longest = len(row.ids)
            out[-1].append(row)
        return out

    def _backward(self, batch: Sequence[Row], weight: float) -> None:
        device = self.trained[0].device
        width = max(len(r.ids) for r in batch)
        ids = torch.tensor([[*r.ids, *[0] * (width - len(r.ids))] for r in batch], device=device)
        seen = torch.tensor([[1] * len(r.ids) + [0] * (width - len(r.ids)) for r in batch], device=device)
        acted = torch.tensor([[*r.mask, *[0] * (width - len(r.ids))] for r in batch], device=device).bool()[:, 1:]
        advantages = torch.tensor([r.advantage for r in batch], device=device)[:, None].expand(acted.shape)[acted]
        reference = None
        if self.loss.kl:
            for layer in self.layers:
                layer.enabled = False
            with torch.no_grad():
                reference = self._logprobs(ids, seen)[0][acted]
            for layer in self.layers:
                layer.enabled = True
        logprobs, entropy = self._logprobs(ids, seen)
        new = logprobs[acted]
        weights = torch.full_like(new, weight)
        spread = entropy[acted] if self.loss.entropy else None
        loss = policy_loss(new, new.detach(), advantages, weights, self.loss, reference=reference, entropy=spread)
        loss.total.backward()

    def _logprobs(self, ids: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1].float()
        log_p = logits.log_softmax(-1)
        chosen = log_p.gather(-1, ids[:, 1:, None]).squeeze(-1)
        entropy = -(log_p.exp() * log_p).sum(-1) if self.loss.entropy and torch.is_grad_enabled() else chosen
        return chosen, entropy
