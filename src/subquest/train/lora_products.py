"""Products of wide matrices with their adapters: one matrix product each, for all matrices that read the same input.

A wide matrix is not merged with its adapter, because the gradient of the whole matrix would be one more large product
(`lora.MERGED_UP_TO`). But three products for a matrix (W x, A x, B times that) read and write the wide output twice.
Here the thin product becomes further columns of the input, and B further columns of the matrix,

    W x + scale B A x  =  [W, scale B] [x; A x]

so the output is written once, summed in float32. Matrices that share an input lie one below the other; each has columns
of its own for its B. The way back is the same: one product gives the slopes of x and of A x together, except where the
output is the narrower side; reading it a second time then costs less than taking the wide result apart.

What computes x leaves room for the thin columns in its rows (`BesideProduct.columns`), so that they are written beside
it; x is not copied.

The base weights move into this storage and stay there, as views: nothing is kept twice, and taking over a new adapter
writes the thin columns alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .lora import LoraLinear

_COLUMNS = 8
"""Thin columns come in multiples of this: rows of a matrix then begin where the fast kernels can read them."""


class Beside:
    """The matrices of one fused product in every layer, with their adapters beside them."""

    @torch.no_grad()
    def __init__(self, kinds: Sequence[Sequence[LoraLinear]]) -> None:
        """`kinds` holds one kind of matrix after the other, each with the matrices of all layers."""
        first = kinds[0][0]
        self._kinds = kinds
        self._layers = [list(of_layer) for of_layer in zip(*kinds, strict=True)]
        self._width = first.base.in_features
        thin = -(-sum(kind[0].lora_A.shape[0] for kind in kinds) // _COLUMNS) * _COLUMNS
        size = len(self._layers), sum(kind[0].base.out_features for kind in kinds), self._width + thin
        self._weight = first.base.weight.new_zeros(size)
        self._down = first.base.weight.new_zeros(size[0], thin, self._width)
        for kind, part in self._parts():
            for layer, place in zip(kind, part[..., : self._width], strict=True):
                place.copy_(layer.base.weight)
                layer.base.weight.data = place
        self._biases: Sequence[Tensor | None] = [None] * size[0]

    def _parts(self) -> Iterator[tuple[Sequence[LoraLinear], Tensor]]:
        """Each kind of matrix with its rows in all layers."""
        rows = [kind[0].base.out_features for kind in self._kinds]
        return zip(self._kinds, torch.split(self._weight, rows, 1), strict=True)

    def holds(self, kinds: Sequence[Sequence[LoraLinear]]) -> bool:
        """Whether these matrices are here, and nothing has moved them since."""
        return self._kinds == kinds and all(
            layer.base.weight.data_ptr() == place.data_ptr()
            for kind, part in self._parts()
            for layer, place in zip(kind, part, strict=True)
        )

    @torch.no_grad()
    def take_adapters(self) -> None:
        """Put the thin matrices, and the biases, as they are now into place."""
        rank = 0
        for kind, part in self._parts():
            own = kind[0].lora_A.shape[0]
            at = self._width + rank
            part[..., at : at + own] = torch.stack([layer.lora_B for layer in kind]) * kind[0].scale
            self._down[:, rank : rank + own] = torch.stack([layer.lora_A for layer in kind])
            rank += own
        kinds = [kind for kind in self._kinds if kind[0].base.bias is not None]
        if kinds:
            biases = [torch.stack([layer.base.bias for layer in kind]) for kind in kinds]
            self._biases = torch.cat(biases, 1).unbind()

    def adapted(self) -> list[LoraLinear]:
        return [layer for of_layer in self._layers for layer in of_layer]

    def products(self) -> list[BesideProduct]:
        parts = zip(self._weight.unbind(), self._down.unbind(), self._biases, self._layers, strict=True)
        return [BesideProduct(*part, width=self._width, enabled=part[-1][0].enabled) for part in parts]

    def backward(self) -> None:
        """The thin matrices have their gradients already."""


class BesideProduct:
    """The fused product of one layer."""

    __slots__ = ("_bias", "_down", "_enabled", "_layers", "_weight", "_width")

    def __init__(
        self,
        weight: Tensor,
        down: Tensor,
        bias: Tensor | None,
        layers: Sequence[LoraLinear],
        *,
        width: int,
        enabled: bool,
    ) -> None:
        self._weight, self._down, self._bias, self._layers = weight, down, bias, layers
        self._width, self._enabled = width, enabled

    @property
    def columns(self) -> int:
        """How far apart the rows of the input should lie, with nothing between them; 0 if that does not matter."""
        return self._weight.shape[1] if self._enabled else 0

    def __call__(self, x: Tensor) -> Tensor:
        if not self._enabled:
            return F.linear(x, self._weight[:, : self._width], self._bias)
        thin = [matrix for layer in self._layers for matrix in (layer.lora_A, layer.lora_B)]
        scales = tuple(layer.scale for layer in self._layers)
        out: Tensor = _BesideFunction.apply(x, self._weight, self._down, self._bias, scales, *thin)  # type: ignore[no-untyped-call]
        return out


class _BesideFunction(torch.autograd.Function):
    """With y = [W, sB] [x; t] and t = A x: [dx; dt] = [W, sB]ᵀ dy, then dx += Aᵀ dt, dA = dt xᵀ, dB = s dy tᵀ."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, down: Tensor, bias: Tensor | None, scales: tuple[float, ...], *thin: Tensor
    ) -> Tensor:
        width = x.shape[1]
        both = _whole_rows(x, weight.shape[1])  # [T, width + thin columns]
        if both is None:
            both = torch.cat([x, x @ down.t()], 1)
        else:
            torch.mm(x, down.t(), out=both[:, width:])
        ctx.save_for_backward(both, weight, down)
        ctx.scales, ctx.shapes, ctx.width = scales, [matrix.shape for matrix in thin], width
        return F.linear(both, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        slope = grads[0]
        both, weight, down = ctx.saved_tensors
        width = ctx.width
        on_x: Tensor | None
        if ctx.needs_input_grad[0] and weight.shape[0] > width:
            on_x, on_thin = torch.split(slope @ weight, [width, weight.shape[1] - width], 1)
        else:
            on_thin = slope @ weight[:, width:]
            # below the first layer nothing is trained
            on_x = slope @ weight[:, :width] if ctx.needs_input_grad[0] else None
        if on_x is not None:
            on_x.addmm_(on_thin, down)
        on_down = _product(on_thin.t(), both[:, :width])  # [thin columns, width]
        on_up = _product(slope.t(), both[:, width:])  # [rows, thin columns]
        found: list[Tensor] = []
        row = rank = 0
        for scale, a, b in zip(ctx.scales, ctx.shapes[::2], ctx.shapes[1::2], strict=True):
            found += on_down[rank : rank + a[0]], on_up[row : row + b[0], rank : rank + b[1]] * scale
            row, rank = row + b[0], rank + b[1]
        return on_x, None, None, None, None, *found


def _whole_rows(x: Tensor, columns: int) -> Tensor | None:
    """The rows of x with the room behind them, where x has it: [T, columns]."""
    rows, apart = x.shape[0], x.untyped_storage().nbytes() == x.shape[0] * columns * x.element_size()
    return x.detach().as_strided((rows, columns), (columns, 1)) if apart and x.stride() == (columns, 1) else None


def _product(a: Tensor, b: Tensor) -> Tensor:
    """a @ b in float32: gradients add up over micro-batches."""
    if a.is_cuda and a.dtype != torch.float32:
        return torch.mm(a, b, out_dtype=torch.float32)
    return (a @ b).float()
