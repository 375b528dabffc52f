"""The forward pass of Llama, Qwen2 and Qwen3 over a flat batch of tokens and a block cache.

Ten kernels a layer on the GPU, four of them matrix products. A prefill step fills the cache and nothing more: the last
token of a prompt is always fed by a decode step, so logits are computed, and tokens drawn, in one place only, and a
prefill's last layer ends with its keys and values. A mixed step does both: prompts go through the layers beside the
rows that decode, which then cost little more than they would alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from ...errors import UsageError
from . import reference_operations as reference
from .architecture import Architecture
from .step import Draw, Step
from .weights import Linear, Weights

Product = Callable[[Linear, Tensor], Tensor]
"""How a matrix is applied."""
LARGEST_HEAD = 256
"""Channels of an attention head that the kernels have room for."""


def operations(device: torch.device, architecture: Architecture) -> ModuleType:
    """The module with the model's small operations: kernels on a GPU, plain torch elsewhere."""
    if device.type != "cuda":
        return reference
    if architecture.head_size > LARGEST_HEAD:
        raise UsageError(
            f"the torch engine's GPU kernels have room for heads of {LARGEST_HEAD} channels, this model's have"
            f" {architecture.head_size}: use device='cpu', or a server (docs/models.md)"
        )
    from . import kernels

    return kernels


class Cache:
    """Keys and values of all layers; `keys[layer]` is [blocks, block size, kv_heads, head_size].

    On the GPU a block's tokens lie together head by head, because one program reads one head; on the CPU token by
    token, because a gathered context is then ready for use.
    """

    def __init__(self, weights: Weights, blocks: int, size: int, *, kept: bool = True) -> None:
        """Where nothing is to be `kept` after a pass, all layers have the same place, one after the other."""
        a = weights.architecture
        layers = a.layers if kept else 1
        self.size = size
        if weights.device.type == "cuda":
            shape = (2, layers, blocks, a.kv_heads, size, a.head_size)
            store = torch.zeros(shape, dtype=weights.dtype, device=weights.device).transpose(3, 4)
        else:
            shape = (2, layers, blocks, size, a.kv_heads, a.head_size)
            # numpy's zeros take memory only where they are written, and few questions fill the cache
            zeros = np.zeros(math.prod(shape) * weights.dtype.itemsize, np.uint8)
            store = torch.from_numpy(zeros).view(weights.dtype).view(shape).to(weights.device)
        self.keys, self.values = (list(part) * (a.layers // layers) for part in store)


class Model:
    def __init__(self, weights: Weights, cache: Cache, ops: ModuleType | None = None) -> None:
        self.weights = weights
        self.cache = cache
        self.ops = ops or operations(weights.device, weights.architecture)
        self._cosines, self._sines = weights.architecture.rotary_table(weights.device)

    def prefill(self, step: Step) -> None:
        """Put the keys and values of the step's tokens into the cache."""
        self._layers(step, product=_product(step))

    def decode(self, step: Step, draws: Draw) -> tuple[Tensor, Tensor]:
        """Feed one token of each context; the drawn next tokens and their log-probabilities. In a mixed step the
        prompts' tokens go into the cache beside them."""
        logits = self.logits(step)
        return self.draw(logits, draws, step.positions[: len(logits)])

    def logits(self, step: Step) -> Tensor:
        return self.ops.project(self._layers(step, product=_product(step)), self.weights.head)  # type: ignore[no-any-return]

    def draw(self, logits: Tensor, draws: Draw, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.ops.draw(logits, draws, positions)  # type: ignore[no-any-return]

    def read(self, step: Step, cache: Cache, ends: Tensor, product: Product) -> Tensor:
        """States [ends, width] of some tokens of a prefill step that goes through another cache."""
        return self._layers(step, cache, ends, product)

    def _layers(
        self, step: Step, cache: Cache | None = None, ends: Tensor | None = None, product: Product = Linear.__call__
    ) -> Tensor:
        ops, weights, a = self.ops, self.weights, self.weights.architecture
        cache = cache or self.cache
        residual = ops.embed(step.ids, weights.embedding)
        normed = ops.norm(residual, weights.layers[0].attention_norm, a.epsilon)
        for i, layer in enumerate(weights.layers):
            keys, values = cache.keys[i], cache.values[i]
            q = ops.rotate_store(
                product(layer.qkv, normed),
                layer.q_norm,
                layer.k_norm,
                a.epsilon,
                self._cosines,
                self._sines,
                keys,
                values,
                a.heads,
                step,
            )
            last = i == a.layers - 1
            if last and step.tiles is not None and ends is None:
                if not step.rows:
                    break
                step = step.decoding()
                q, residual = q[: len(step.ids)], residual[: len(step.ids)]
            attended = ops.attend(q, keys, values, step, a.softmax_scale)
            if last and ends is not None:
                attended, residual = attended[ends], residual[ends]
            normed = ops.add_norm(product(layer.output, attended), residual, layer.mlp_norm, a.epsilon)
            fed = product(layer.down, ops.swiglu(product(layer.gate_up, normed)))
            following = weights.norm if last else weights.layers[i + 1].attention_norm
            normed = ops.add_norm(fed, residual, following, a.epsilon)
        return normed  # type: ignore[no-any-return]


def _product(step: Step) -> Product:
    return Linear.bare if step.bare else Linear.__call__
