"""Effective weights of LoRA layers, merged once for all micro-batches of an optimiser step or of a pass.

An adapter changes when the optimiser steps, not between micro-batches, so W + scale B A is computed once for all of
them; and since every layer has the same shapes, one product merges a kind of matrix in all layers at once. Queries,
keys and values share one product, the two halves of the feed-forward block another.

For an optimiser step the merged matrices are float32 leaves of autograd's graph: their gradients add up over the
micro-batches in float32, and `Merged.backward` turns the sum into the thin matrices' gradients,

    dL/dA = scale Bᵀ dL/dW        dL/dB = scale dL/dW Aᵀ

which is exact, because both are linear in dL/dW. Wide matrices stay apart from their adapters, but are put together in
the same way (`lora_products`). Merged weights are never stale: they refuse to compute once a weight has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..errors import UsageError
from .lora import LoraLinear
from .lora_products import Beside, BesideProduct


class MergedProduct(NamedTuple):
    """A linear layer with one weight."""

    weight: Tensor
    bias: Tensor | None

    @property
    def columns(self) -> int:
        """As `BesideProduct.columns`."""
        return 0

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


Product = MergedProduct | BesideProduct
"""A linear layer with given weights."""


class Products(NamedTuple):
    """The merged matrices of one layer; None where the layer's own modules multiply, one matrix at a time."""

    qkv: Product | None = None
    o: Product | None = None
    gate_up: Product | None = None
    down: Product | None = None


ALONE = Products()
_GROUPS = (
    ("self_attn", ("q_proj", "k_proj", "v_proj")),
    ("self_attn", ("o_proj",)),
    ("mlp", ("gate_proj", "up_proj")),
    ("mlp", ("down_proj",)),
)
"""The matrices of each of `Products`' fields, and the block of a layer that holds them."""


class Merged:
    """The current effective weights of a policy. With gradients enabled, they are leaves that collect gradients."""

    def __init__(self, layers: Sequence[nn.Module], dtype: torch.dtype, wide: dict[str, Beside]) -> None:
        """`wide` keeps the storage of wide matrices from one time to the next."""
        self._layers = len(layers)
        self._collects = torch.is_grad_enabled()
        self._stacks = [_stack(layers, block, names, dtype, wide) for block, names in _GROUPS]
        adapted = [layer for stack in self._stacks if stack is not None for layer in stack.adapted()]
        self._switches = [vars(layer) for layer in adapted]
        self._owners = [module._parameters for layer in adapted for module in (layer, layer.base)]
        self._made_of = self._state()

    def __bool__(self) -> bool:
        """Whether anything could be merged."""
        return bool(self._owners)

    def _state(self) -> list[int | bool]:
        """The address of every weight, how often it was written (torch counts that), and the adapter's switches.

        Called for every micro-batch, so it avoids the modules' slow attribute access.
        """
        found: list[int | bool] = [layer["enabled"] for layer in self._switches]
        for owner in self._owners:
            for weight in owner.values():
                if weight is not None:
                    found += weight.data_ptr(), weight._version
        return found

    def _check(self) -> None:
        if self._state() != self._made_of:
            raise UsageError("the policy's weights have changed since they were merged; merge them again")

    def products(self) -> list[Products]:
        """The merged matrices of each layer, for one micro-batch."""
        self._check()
        if torch.is_grad_enabled() and not self._collects:
            raise UsageError("these weights were merged without gradients and cannot be trained; merge them again")
        made = [stack.products() if stack is not None else [None] * self._layers for stack in self._stacks]
        return [Products(*of_layer) for of_layer in zip(*made, strict=True)]

    def backward(self) -> None:
        """Turn the collected gradients into gradients of the thin matrices."""
        self._check()
        for stack in self._stacks:
            if stack is not None:
                stack.backward()


class _Kind(NamedTuple):
    """One kind of matrix in every layer, with the thin matrices of all layers in two tensors."""

    layers: Sequence[LoraLinear]
    a: Tensor
    """[layers, rank, in]"""
    b: Tensor
    """[layers, out, rank]"""

    @classmethod
    def of(cls, layers: Sequence[LoraLinear]) -> _Kind:
        return cls(layers, torch.stack([x.lora_A for x in layers]), torch.stack([x.lora_B for x in layers]))

    def merge_into(self, target: Tensor) -> None:
        """Put the effective weights into [layers, out, in]."""
        target.copy_(torch.stack([layer.base.weight for layer in self.layers]))
        if self.layers[0].enabled:
            target.baddbmm_(self.b, self.a, alpha=self.layers[0].scale)

    def biases(self) -> Tensor | None:
        """[layers, out], where there are any"""
        found: list[Tensor] = [layer.base.bias for layer in self.layers if layer.base.bias is not None]
        return torch.stack(found) if found else None

    def backward(self, slope: Tensor) -> None:
        """`slope` is the gradient of the merged matrices."""
        scale = self.layers[0].scale
        on_a = torch.bmm(self.b.transpose(1, 2), slope).mul_(scale)
        on_b = torch.bmm(slope, self.a.transpose(1, 2)).mul_(scale)
        for layer, a, b in zip(self.layers, on_a.unbind(), on_b.unbind(), strict=True):
            _add_gradient(layer.lora_A, a)
            _add_gradient(layer.lora_B, b)


class _Stack:
    """The matrices that one fused product consists of, for all layers: [layers, out of all, in]."""

    @torch.no_grad()
    def __init__(self, kinds: Sequence[_Kind], dtype: torch.dtype, *, collects: bool) -> None:
        self._kinds = kinds
        self._dtype = dtype
        self._rows = [kind.b.shape[1] for kind in kinds]
        weight = kinds[0].a.new_empty(len(kinds[0].layers), sum(self._rows), kinds[0].a.shape[2])
        for kind, part in zip(kinds, torch.split(weight, self._rows, 1), strict=True):
            kind.merge_into(part)
        self._weight = weight.requires_grad_() if collects else weight.to(dtype)
        biases = [bias for kind in kinds if (bias := kind.biases()) is not None]
        self._biases: Sequence[Tensor | None] = torch.cat(biases, 1).unbind() if biases else [None] * len(weight)

    def adapted(self) -> list[LoraLinear]:
        return [layer for kind in self._kinds for layer in kind.layers]

    def products(self) -> list[MergedProduct]:
        return list(map(MergedProduct, self._weight.to(self._dtype).unbind(), self._biases))

    @torch.no_grad()
    def backward(self) -> None:
        slope, self._weight.grad = self._weight.grad, None
        if slope is None:
            return
        for kind, part in zip(self._kinds, torch.split(slope, self._rows, 1), strict=True):
            kind.backward(part)


def _stack(
    layers: Sequence[nn.Module], block: str, names: Sequence[str], dtype: torch.dtype, wide: dict[str, Beside]
) -> _Stack | Beside | None:
    """None if a matrix has no adapter."""
    kinds = [[getattr(getattr(layer, block), name) for layer in layers] for name in names]
    if not all(isinstance(x, LoraLinear) for kind in kinds for x in kind):
        return None
    if not all(x.merged for kind in kinds for x in kind):
        beside = wide.get(names[0])
        if beside is None or not beside.holds(kinds):
            beside = wide[names[0]] = Beside(kinds)
        beside.take_adapters()
        return beside
    collects = torch.is_grad_enabled() and all(x.enabled for kind in kinds for x in kind)
    with torch.no_grad():
        return _Stack([_Kind.of(kind) for kind in kinds], dtype, collects=collects)


def _add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient
