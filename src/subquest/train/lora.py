"""LoRA: a frozen matrix W plus a trained product of two thin ones, W + (alpha / rank) B A.

B starts at zero, so training starts exactly from the base model, which also serves as the reference policy with the
adapter switched off. Files are in PEFT's format (`adapter_model.safetensors`, `adapter_config.json`); PEFT itself is
not needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..engine.adapter import PEFT_PREFIX, UNSAID, write_peft_config
from ..engine.torch.weights import Adapter
from ..errors import DataError
from .distributed import whole
from .lora_settings import TARGETS as TARGETS
from .lora_settings import LoraSettings as LoraSettings

MERGED_UP_TO = 1024
"""Matrices whose shorter side is at most this are merged before multiplying; larger ones are not.

Thin products are limited by memory bandwidth, so narrow layers gain from merging; wide ones lose, because the gradient
of the whole matrix is one more large product.
"""


class LoraLinear(nn.Module):
    """A frozen linear layer with a trained low-rank update. The thin matrices are kept in float32.

    A merged product uses W + scale B A, summed in float32 and then rounded: the same weights that the rollout engine
    samples with.
    """

    def __init__(self, base: nn.Linear, settings: LoraSettings) -> None:
        super().__init__()
        self.base = base
        self.scale = settings.scale
        self.enabled = True
        self.merged = min(base.in_features, base.out_features) <= MERGED_UP_TO
        self.lora_A = nn.Parameter(torch.empty(settings.rank, base.in_features, device=base.weight.device))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, settings.rank, device=base.weight.device))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))

    def forward(self, x: Tensor) -> Tensor:
        if self.enabled and self.merged:
            weight = torch.addmm(self.base.weight.float(), self.lora_B, self.lora_A, alpha=self.scale)
            return F.linear(x, weight.to(x.dtype), self.base.bias)
        y: Tensor = self.base(x)
        if not self.enabled:
            return y
        thin = F.linear(x, self.lora_A.to(x.dtype))
        return torch.addmm(y, thin, (self.lora_B * self.scale).to(x.dtype).t())  # one pass over y instead of two


def lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLinear]]:
    """Adapted layers by their name in the base model."""
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            yield name, module


def adapter_of(model: nn.Module) -> Adapter:
    """The adapter in the rollout engine's form."""
    layers = dict(lora_layers(model))
    pairs = {name: (whole(layer.lora_A.detach()), whole(layer.lora_B.detach())) for name, layer in layers.items()}
    return Adapter(pairs, next(iter(layers.values())).scale)


def save_adapter(
    model: nn.Module,
    settings: LoraSettings,
    folder: Path,
    *,
    base: str = "",
    half: bool = True,
    write: bool = True,
    prompts: str = UNSAID,
    base_digest: str = "",
) -> None:
    """Write the adapter in PEFT's format; `half` stores bfloat16, the precision of rollouts.

    Every process of a sharded model must call this; only one should `write`.
    """
    from safetensors.torch import save_file

    state = {}
    for name, layer in lora_layers(model):
        for part in ("lora_A", "lora_B"):
            tensor = whole(getattr(layer, part).detach()).cpu()
            state[f"{PEFT_PREFIX}{name}.{part}.weight"] = tensor.to(torch.bfloat16) if half else tensor.clone()
    if not write:
        return
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "adapter_model.safetensors")
    write_peft_config(
        folder,
        rank=settings.rank,
        alpha=settings.alpha,
        targets=settings.targets,
        base=base,
        prompts=prompts,
        base_digest=base_digest,
    )


@torch.no_grad()
def load_adapter_into(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy an adapter's parameters (PEFT's names) into the model's thin matrices."""
    layers = dict(lora_layers(model))
    expected = {f"{PEFT_PREFIX}{name}.{part}.weight" for name in layers for part in ("lora_A", "lora_B")}
    if difference := expected ^ state.keys():
        raise DataError(f"the adapter does not fit the model: {sorted(difference)[0]} is in only one of them")
    for name, layer in layers.items():
        for part in ("lora_A", "lora_B"):
            target, source = getattr(layer, part), state[f"{PEFT_PREFIX}{name}.{part}.weight"]
            if target.shape != source.shape:
                raise DataError(f"{name}.{part} has shape {tuple(source.shape)}, the model's is {tuple(target.shape)}")
            target.copy_(source)
