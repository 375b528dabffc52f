"""A model's weights, laid out for few and large matrix products.

Query, key and value matrices lie one below the other in one matrix, and so do the gate and up matrices. Every
parameter keeps its usual name as a *view* into that storage (`parts`), so weights are loaded, refreshed and shared with
a training model part by part, and nothing that was captured in a CUDA graph ever moves.

A LoRA adapter is applied merged (W + scale·B·A, computed in fp32, then rounded) or unmerged (two thin products beside
each matrix, which keeps updates that are smaller than the rounding of the weights). Either way the matrix without it
stays at hand: a pass may go without the adapter (`Linear.bare`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import DataError, UsageError
from .architecture import Architecture


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter: for each adapted matrix (`model.layers.0.self_attn.q_proj`) its pair A [r, in] and B [out, r]."""

    pairs: Mapping[str, tuple[Tensor, Tensor]]
    scale: float
    """alpha / r."""

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor], *, scale: float) -> Adapter:
        """From parameters named `….q_proj.lora_A….weight` and `….lora_B….weight`, as PEFT writes them."""
        found: dict[str, dict[str, Tensor]] = {}
        for name, tensor in state.items():
            match = re.search(r"(model\.layers\.\d+\.\w+\.\w+)\.lora_([AB])(?:\.|$)", name)
            if match:
                found.setdefault(match[1], {})[match[2]] = tensor
        broken = [name for name, pair in found.items() if len(pair) != 2]
        if broken or not found:
            raise DataError(
                f"no complete LoRA pair for {broken[0]}" if broken else "no lora_A and lora_B in the adapter"
            )
        return cls({name: (pair["A"], pair["B"]) for name, pair in found.items()}, scale)


class Linear:
    """One fused matrix with its bias and, beside it, an unmerged adapter."""

    __slots__ = ("base", "bias", "down", "up", "weight")

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias
        self.base: Tensor | None = None
        """The matrix without its adapter, from the first one that was merged."""
        self.down: Tensor | None = None
        self.up: Tensor | None = None

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        if self.down is not None and self.up is not None:
            y.addmm_(x @ self.down.t(), self.up.t())
        return y

    def bare(self, x: Tensor) -> Tensor:
        """The product without any adapter."""
        return F.linear(x, self.weight if self.base is None else self.base, self.bias)


@dataclass(slots=True)
class Layer:
    attention_norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class Weights:
    """The weights of one model on one device."""

    def __init__(self, architecture: Architecture, *, dtype: torch.dtype, device: torch.device) -> None:
        a = self.architecture = architecture
        self.dtype, self.device = dtype, device
        self.parts: dict[str, Tensor] = {}
        self.adapted = False
        """Whether an adapter is in place."""
        self._fused: dict[str, tuple[Linear, int, int, int]] = {}
        q, kv = a.heads * a.head_size, a.kv_heads * a.head_size
        self.embedding = self._new("model.embed_tokens.weight", a.vocabulary, a.width)
        self.layers = [self._layer(f"model.layers.{i}.", q, kv) for i in range(a.layers)]
        self.norm = self._new("model.norm.weight", a.width)
        self.head = self.embedding if a.tied else self._new("lm_head.weight", a.vocabulary, a.width)

    def _empty(self, *shape: int) -> Tensor:
        return torch.empty(shape, dtype=self.dtype, device=self.device)

    def _new(self, name: str, *shape: int) -> Tensor:
        self.parts[name] = tensor = self._empty(*shape)
        return tensor

    def _stack(self, parts: Mapping[str, int], columns: int, *, bias: bool) -> Linear:
        """One matrix made of named parts with the given numbers of rows."""
        rows = sum(parts.values())
        linear = Linear(self._empty(rows, columns), self._empty(rows) if bias else None)
        start = 0
        for name, size in parts.items():
            self.parts[f"{name}.weight"] = linear.weight[start : start + size]
            if linear.bias is not None:
                self.parts[f"{name}.bias"] = linear.bias[start : start + size]
            self._fused[name] = (linear, start, size, rows)
            start += size
        return linear

    def _layer(self, prefix: str, q: int, kv: int) -> Layer:
        a = self.architecture
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        qkv = {attention + "q_proj": q, attention + "k_proj": kv, attention + "v_proj": kv}
        return Layer(
            attention_norm=self._new(prefix + "input_layernorm.weight", a.width),
            qkv=self._stack(qkv, a.width, bias=a.qkv_bias),
            q_norm=self._new(attention + "q_norm.weight", a.head_size) if a.qk_norm else None,
            k_norm=self._new(attention + "k_norm.weight", a.head_size) if a.qk_norm else None,
            output=self._stack({attention + "o_proj": a.width}, q, bias=a.output_bias),
            mlp_norm=self._new(prefix + "post_attention_layernorm.weight", a.width),
            gate_up=self._stack({mlp + "gate_proj": a.inner, mlp + "up_proj": a.inner}, a.width, bias=False),
            down=self._stack({mlp + "down_proj": a.width}, a.inner, bias=False),
        )

    @torch.no_grad()
    def load(self, state: Mapping[str, Tensor]) -> None:
        """Copy parameters into place, rounding to this dtype. A later adapter counts from these values."""
        for name, part in self.parts.items():
            source = state.get(name)
            if source is None:
                raise DataError(f"the weights have no parameter {name}")
            if source.shape != part.shape:
                raise DataError(f"parameter {name} has shape {tuple(source.shape)}, expected {tuple(part.shape)}")
            if source.data_ptr() != part.data_ptr():
                part.copy_(source, non_blocking=True)
        for linear, _ in self._linears():
            if linear.base is not None:
                linear.base.copy_(linear.weight)
        self.adapted = False

    @torch.no_grad()
    def share(self, model: nn.Module) -> None:
        """Hold the weights of a training model once, for both.

        The model's parameters move into this storage, so that an optimiser step is seen here at once. Matrices with an
        adapter (`….q_proj.base.weight`) are read where they lie, as what the adapter is merged with (`Linear.base`);
        only the merged ones are this storage's own.
        """
        parameters = dict(model.named_parameters())
        found = {name: parameters.get(name, parameters.get(_inside(name))) for name in self.parts}
        for name, part in self.parts.items():
            parameter = found[name]
            if parameter is None:
                raise UsageError(f"cannot share weights: the model has no parameter {name}")
            if parameter.dtype != part.dtype or parameter.device != part.device:
                raise UsageError(
                    f"cannot share weights: {name} is {parameter.dtype} on {parameter.device}, the engine's are"
                    f" {part.dtype} on {part.device}; use refresh(model.state_dict()) instead"
                )
        adapted = {id(self._fused[name][0]) for name in self._fused if _inside(f"{name}.weight") in parameters}
        for linear, names in self._linears():
            if id(linear) in adapted:
                linear.base = _one_below_the_other([found[f"{name}.weight"] for name in names], linear.weight)
        for name, part in self.parts.items():
            entry = self._fused.get(name.removesuffix(".weight"))
            if entry is None or id(entry[0]) not in adapted:
                _move(found[name], part)

    @torch.no_grad()
    def adapt(self, adapter: Adapter | None, *, merged: bool = True) -> bool:
        """Apply an adapter to the loaded weights in place of the last one; None takes it off.

        True: a pass now has products that it did not have before, so what was captured of it is out of date.
        """
        covered = adapter.pairs if adapter is not None and merged else {}
        for linear, names in self._linears():
            if linear.base is not None and not all(name in covered for name in names):
                linear.weight.copy_(linear.base)
            if linear.up is not None:
                linear.up.zero_()
        self.adapted = False
        if adapter is None:
            return False
        unknown = [name for name in adapter.pairs if name not in self._fused]
        if unknown:
            raise DataError(f"the adapter changes {unknown[0]}, which this model does not have")
        grown = False
        for name, (a, b) in adapter.pairs.items():
            wanted = self.parts[f"{name}.weight"].shape
            if (b.shape[0], a.shape[1]) != wanted or a.shape[0] != b.shape[1]:
                raise DataError(
                    f"the adapter is of another model: it changes {name} by {tuple(b.shape)} times {tuple(a.shape)},"
                    f" and that has the shape {tuple(wanted)}"
                )
            if merged:
                grown |= self._merge(name, a, b, adapter.scale)
            else:
                grown |= self._attach(name, a, b, adapter.scale)
        self.adapted = True
        return grown

    def _linears(self) -> list[tuple[Linear, list[str]]]:
        """Each fused matrix with the names of its parts."""
        found: dict[int, tuple[Linear, list[str]]] = {}
        for name, (linear, *_) in self._fused.items():
            found.setdefault(id(linear), (linear, []))[1].append(name)
        return list(found.values())

    def _merge(self, name: str, a: Tensor, b: Tensor, scale: float) -> bool:
        """Add a pair to its part of a fused matrix. True: the matrix as it was is kept from now on."""
        linear, start, size, _ = self._fused[name]
        first = linear.base is None
        if linear.base is None:
            linear.base = linear.weight.clone()
        base = linear.base[start : start + size].float()
        b, a = b.to(self.device, torch.float32), a.to(self.device, torch.float32)
        self.parts[f"{name}.weight"].copy_(torch.addmm(base, b, a, alpha=scale))  # as the trainer sums it
        return first

    def _attach(self, name: str, a: Tensor, b: Tensor, scale: float) -> bool:
        """Put a pair beside its part of a fused matrix; every part has its own band of the rank. True: the first."""
        linear, start, size, rows = self._fused[name]
        siblings = [other for other, entry in self._fused.items() if entry[0] is linear]
        band, rank = siblings.index(name), a.shape[0]
        first = linear.down is None
        if linear.down is None or linear.up is None:
            linear.down = torch.zeros(rank * len(siblings), a.shape[1], dtype=self.dtype, device=self.device)
            linear.up = torch.zeros(rows, rank * len(siblings), dtype=self.dtype, device=self.device)
        if linear.down.shape[0] != rank * len(siblings):
            raise UsageError(f"the adapter's rank changed to {rank}; an engine keeps the rank of its first adapter")
        linear.down[band * rank : (band + 1) * rank].copy_(a)
        linear.up[start : start + size, band * rank : (band + 1) * rank].copy_(b.float() * scale)
        return first


def _inside(name: str) -> str:
    """The name of a parameter inside an adapted layer."""
    module, _, kind = name.rpartition(".")
    return f"{module}.base.{kind}"


def _move(parameter: Tensor | None, place: Tensor) -> None:
    assert parameter is not None
    place.copy_(parameter)
    parameter.data = place


def _one_below_the_other(parts: Sequence[Tensor | None], like: Tensor) -> Tensor:
    """Parts of a matrix as one: a view where they lie so already, else they move into one like `like`."""
    tensors = [part for part in parts if part is not None]
    first = tensors[0].detach()
    storage, following = first.untyped_storage().data_ptr(), first.data_ptr()
    for part in tensors:
        apart = part.untyped_storage().data_ptr() != storage  # neighbours in memory may be strangers
        if apart or part.data_ptr() != following or part.stride() != first.stride():
            break
        following += part.shape[0] * part.stride(0) * part.element_size()
    else:
        return first.as_strided(like.shape, first.stride())
    whole = torch.empty_like(like)
    for part, place in zip(tensors, torch.split(whole, [len(part) for part in tensors]), strict=True):
        _move(part, place)
    return whole
