"""The policy in training: Llama, Qwen2 and Qwen3 over trajectories laid end to end.

The same shapes as the rollout engine's model, but differentiable and without a cache. A packed batch is one long row of
tokens; attention is causal inside each trajectory and sees nothing of its neighbours. Parameters keep the names that
transformers gives them, so state dicts, adapters and the rollout engine's weights fit one another.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import repeat
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from ..engine.torch.architecture import Architecture
from ..engine.torch.loader import Source
from ..errors import DataError
from .batch import Batch
from .cost import Meter, Shape
from .distributed import is_sharded, whole
from .logprobs import TokenLogprobs, token_logprobs
from .lora import LoraLinear, LoraSettings, adapter_of, lora_layers
from .lora_products import Beside
from .merged_weights import ALONE, Merged, Product, Products
from .operations import Packing, Repeated, add_norm, attend, fused, rotate_heads, swiglu


class RMSNorm(nn.Module):
    """Root-mean-square normalisation."""

    def __init__(self, size: int, epsilon: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor, added: Tensor | None = None, product: Product | None = None) -> tuple[Tensor, Tensor]:
        """The sum of both, and that sum normalised, for a product where one is named."""
        return add_norm(x, added, self.weight, self.epsilon, product.columns if product else 0)


class Attention(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.head_size = a.head_size
        self.counts = (a.heads, a.kv_heads, a.kv_heads)
        self.softmax_scale = a.softmax_scale
        self.q_proj = nn.Linear(a.width, a.heads * a.head_size, bias=a.qkv_bias)
        self.k_proj = nn.Linear(a.width, a.kv_heads * a.head_size, bias=a.qkv_bias)
        self.v_proj = nn.Linear(a.width, a.kv_heads * a.head_size, bias=a.qkv_bias)
        self.o_proj = nn.Linear(a.heads * a.head_size, a.width, bias=a.output_bias)
        self.q_norm = RMSNorm(a.head_size, a.epsilon) if a.qk_norm else None
        self.k_norm = RMSNorm(a.head_size, a.epsilon) if a.qk_norm else None

    def forward(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], packing: Packing, products: Products, rows: Tensor | None
    ) -> Tensor:
        q, k, v = self._heads(x, rotary, packing, products.qkv)
        attended = attend(q, k, v, packing, self.softmax_scale).flatten(-2)
        out: Tensor = (products.o or self.o_proj)(_chosen(attended, rows))
        return out

    def _split(self, x: Tensor) -> Tensor:
        """[T, heads * d] to [T, heads, d]"""
        return x.view(x.shape[0], -1, self.head_size)

    def _heads(
        self, x: Tensor, rotary: tuple[Tensor, Tensor], packing: Packing, qkv: Product | None
    ) -> tuple[Tensor, ...]:
        """Queries, keys and values, [T, heads, d] each, the first two with their positions, the last two as queries
        read them."""
        if qkv is not None and self.q_norm is None:
            return rotate_heads(rotary, self.counts, packing, self._split(qkv(x)))
        if qkv is not None:
            q, k, v = torch.split(self._split(qkv(x)), list(self.counts), 1)
        else:
            q, k, v = (self._split(project(x)) for project in (self.q_proj, self.k_proj, self.v_proj))
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q)[1], self.k_norm(k)[1]
        return rotate_heads(rotary, self.counts, packing, q, k, v)


class FeedForward(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(a.width, a.inner, bias=False)
        self.up_proj = nn.Linear(a.width, a.inner, bias=False)
        self.down_proj = nn.Linear(a.inner, a.width, bias=False)

    def forward(self, x: Tensor, products: Products) -> Tensor:
        parts = (products.gate_up(x),) if products.gate_up else (self.gate_proj(x), self.up_proj(x))
        inner = swiglu(*parts, columns=products.down.columns if products.down else 0)
        out: Tensor = (products.down or self.down_proj)(inner)
        return out


class Layer(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.self_attn = Attention(a)
        self.mlp = FeedForward(a)
        self.input_layernorm = RMSNorm(a.width, a.epsilon)
        self.post_attention_layernorm = RMSNorm(a.width, a.epsilon)

    def forward(
        self,
        x: Tensor,
        added: Tensor | None,
        rotary: tuple[Tensor, Tensor],
        packing: Packing,
        products: Products,
        rows: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The states are x and what the layer before adds to them; so are those that are returned: each norm adds what
        comes before it. With `rows`, only the states of these are computed, from the keys and values of all."""
        x, normed = self.input_layernorm(x, added, products.qkv)
        attended = self.self_attn(normed, rotary, packing, products, rows)
        x, normed = self.post_attention_layernorm(_chosen(x, rows), attended, products.gate_up)
        return x, self.mlp(normed, products)


def _chosen(x: Tensor, rows: Tensor | None) -> Tensor:
    if rows is None:
        return x
    found: Tensor = Repeated.apply(x, rows)  # type: ignore[no-untyped-call]
    return found


class Decoder(nn.Module):
    def __init__(self, a: Architecture) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(a.vocabulary, a.width)
        self.layers = nn.ModuleList(Layer(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.width, a.epsilon)


class Policy(nn.Module):
    """A language model whose adapter, or whose every weight, is trained."""

    def __init__(
        self,
        source: Source,
        *,
        lora: LoraSettings | None = None,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
        checkpointing: bool = False,
    ) -> None:
        """With `lora` the base weights are frozen in `dtype`; without, all weights are trained in float32 and used in
        `dtype`. `checkpointing` saves the memory of activations at the price of a second forward pass."""
        super().__init__()
        a = self.architecture = source.architecture
        self.config: Any = source.config
        self.tokenizer: Any = source.tokenizer
        self.end_ids = source.end_ids
        with torch.device("meta"):
            self.model = Decoder(a)
            self.lm_head = nn.Linear(a.width, a.vocabulary, bias=False)
        if lora is not None:
            self.to(dtype)  # before there is any memory behind it
        self.to_empty(device=device)
        if a.tied:
            self.lm_head.weight = self.model.embed_tokens.weight
        self.dtype, self.checkpointing, self.lora = dtype, checkpointing, lora
        self.meter = Meter(Shape.of(a), lora.rank if lora else 0)
        self._kept: dict[str, Tensor] = {}
        self._wide: dict[str, Beside] = {}
        self.load_base(source.state)
        cosines, sines = a.rotary_table(torch.device(device))
        self.cosines, self.sines = cosines, sines
        self.requires_grad_(lora is None)
        if lora is not None:
            self._adapt(lora)

    @torch.no_grad()
    def load_base(self, state: Mapping[str, Tensor]) -> None:
        """Copy the base weights; the adapter does not change."""
        for name, parameter in self.named_parameters():
            if "lora_" not in name:
                name = name.replace(".base.", ".")
                found = state.get(name)
                if found is None or found.shape != parameter.shape:
                    what = f"no {name}" if found is None else f"{name} with the shape {tuple(found.shape)}"
                    raise DataError(f"the model's files are not those of its configuration: they have {what}")
                parameter.copy_(found)

    def _adapt(self, settings: LoraSettings) -> None:
        for layer in self.model.layers:
            for block in (layer.self_attn, layer.mlp):
                for target in settings.targets:
                    if hasattr(block, target):
                        setattr(block, target, LoraLinear(getattr(block, target), settings))

    def keep_reference(self) -> None:
        """Keep a copy of the trained parameters for `reference`: the adapter that reinforcement learning starts from,
        or all weights."""
        self._kept = {name: p.detach().clone() for name, p in self.trained().items()}

    @contextmanager
    def reference(self) -> Iterator[None]:
        """The policy that training started from: the copy that was kept, or else the base model (adapter off)."""
        layers = [] if self._kept else [layer for _, layer in lora_layers(self)]
        for layer in layers:
            layer.enabled = False
        self._swap_kept()
        try:
            yield
        finally:
            self._swap_kept()
            for layer in layers:
                layer.enabled = True

    @torch.no_grad()
    def _swap_kept(self) -> None:
        for name, parameter in self.trained().items() if self._kept else ():
            now = parameter.detach().clone()
            parameter.copy_(
                self._kept[name]
            )  # in place: a sharded parameter is gathered from its storage, and torch counts the change
            self._kept[name] = now

    def merge(self) -> Merged | None:
        """The effective weights for several calls; None if each call must compute them."""
        if self.lora is None or is_sharded(self):
            return None
        return Merged(list(self.model.layers), self.dtype, self._wide) or None

    def hidden(self, batch: Batch, merged: Merged | None = None, rows: Tensor | None = None) -> Tensor:
        """States of the last layer, one per token of the packed batch, or per distinct one where it has those. With
        `rows` they are those of these tokens alone: the last layer computes nothing else."""
        distinct = batch.distinct
        packing = distinct.packing if distinct else Packing.of(batch.lengths, batch.token_ids.device)
        positions = distinct.positions if distinct else batch.position_ids
        token_ids = distinct.token_ids if distinct else batch.token_ids
        rotary = (self.cosines[positions], self.sines[positions])  # [T, d / 2]
        products: Iterable[Products] = merged.products() if merged is not None else repeat(ALONE)
        x: Tensor = self.model.embed_tokens(token_ids).to(self.dtype)
        added: Tensor | None = None
        packing = packing.with_readers() if fused(x) else packing
        with torch.autocast(x.device.type, self.dtype, enabled=self.lora is None and self.dtype != torch.float32):
            last = len(self.model.layers) - 1
            for n, (layer, of_layer) in enumerate(zip(self.model.layers, products, strict=False)):
                given = rotary, packing, of_layer, rows if n == last else None
                if self.checkpointing and torch.is_grad_enabled():
                    x = x if added is None else x + added  # one tensor a layer is kept instead of two
                    x, added = checkpoint(layer, x, None, *given, use_reentrant=False)
                else:
                    x, added = layer(x, added, *given)
            normed: Tensor = self.model.norm(x, added)[1]
            return normed

    def forward(
        self, batch: Batch, *, temperature: float = 1.0, entropy: bool = False, merged: Merged | None = None
    ) -> TokenLogprobs:
        """Log-probs of the batch's action tokens, with the effective weights from `merge` if given."""
        distinct = batch.distinct
        rows, targets = (distinct.rows, distinct.targets) if distinct else (batch.rows, batch.targets)
        states = self.hidden(batch, merged, rows)
        found = token_logprobs(states, self.lm_head.weight, targets, temperature=temperature, entropy=entropy)
        backward = torch.is_grad_enabled()
        self.meter.count(batch.computed, batch.pairs, rows.numel(), backward=backward, again=self.checkpointing)
        if distinct is None:
            return found
        spread = found.entropy
        return TokenLogprobs(found.logprobs[distinct.actions], None if spread is None else spread[distinct.actions])

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that an optimiser changes, by name."""
        return {name: p for name, p in self.named_parameters() if p.requires_grad}

    def engine_state(self) -> dict[str, Any]:
        """What `TorchEngine.refresh` takes after an optimiser step."""
        if self.lora is not None:
            return {"adapter": adapter_of(self)}
        return {"state": {name: whole(p.detach()) for name, p in self.named_parameters()}}
