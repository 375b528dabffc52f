"""The values of quantised tensors in a GGUF file.

ggml packs a row in blocks of 32 values, K-quants in blocks of 256: scales, for some kinds offsets, and small integers.
The value is `scale * number` or `scale * number + offset`, computed here in fp32 in the same order as in the package
`gguf`, so both give the same bits, and rounded once where another precision is wanted. On a GPU the packed bytes are
uploaded and unpacked there; on a CPU several tensors are unpacked in parallel. Rare kinds go through `gguf`, which
takes about twice the CPU time, in steps too small for threads.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...errors import DataError, EngineRefused, MissingDependency
from ..gguf_file import GgufFile, TensorPlace

_BLOCK = 32
_LARGE = 256
"""Values in a block of a K-quant."""
_AT_ONCE = {"cpu": 1 << 17, "cuda": 1 << 25}
"""Values unpacked at once: what comes between fits into a core's cache, or fills a GPU."""
_THREADS = 8
"""More threads would only wait for the memory."""


def values(
    file: GgufFile,
    places: Iterable[TensorPlace],
    *,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> list[Tensor]:
    """Tensors of a file on a device."""
    device = torch.device(device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        data = torch.from_numpy(np.asarray(np.memmap(file.path, dtype=np.uint8, mode="r")))
    one = partial(_values, file, data=data, device=device, dtype=dtype)
    if device.type != "cpu":
        return [one(place) for place in places]
    with _one_thread_each() as pool:
        return list(pool.map(one, places))


@contextmanager
def _one_thread_each() -> Iterator[ThreadPoolExecutor]:
    """Threads that compute by themselves: torch's own would spin while other work holds the cores."""
    usual = torch.get_num_threads()
    count = min(_THREADS, os.cpu_count() or 1)
    try:
        with ThreadPoolExecutor(count, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool
    finally:
        torch.set_num_threads(usual)


def _values(file: GgufFile, place: TensorPlace, *, data: Tensor, device: torch.device, dtype: torch.dtype) -> Tensor:
    count = math.prod(place.shape)
    if place.kind in _PLAIN:
        kind = _PLAIN[place.kind]
        numbers = _cut(file, place, data, count * kind.itemsize)
        return numbers.clone().view(kind).to(device, dtype).reshape(place.shape)  # its place may be at any byte
    if place.kind not in _PACKED:
        return _by_gguf(file, place, data, count).to(device, dtype)
    length, size, unpack = _PACKED[place.kind]
    blocks = _cut(file, place, data, count // length * size).view(-1, size)
    out = torch.empty((len(blocks), length), dtype=dtype, device=device)
    step = _AT_ONCE.get(device.type, 1 << 17) // length
    for at in range(0, len(blocks), step):
        out[at : at + step] = unpack(blocks[at : at + step].to(device))
    return out.view(place.shape)


def _cut(file: GgufFile, place: TensorPlace, data: Tensor, size: int) -> Tensor:
    if place.start + size > len(data):
        raise DataError(f"{file.path} ends within the tensor {place.name}: the file is incomplete")
    return data[place.start : place.start + size]


def _half(blocks: Tensor, at: int) -> Tensor:
    """The fp16 number at a byte of each block, as a column of fp32."""
    return blocks[:, at : at + 2].contiguous().view(torch.float16).float()


def _nibbles(blocks: Tensor, at: int) -> Tensor:
    """Numbers of four bits: the lower halves of 16 bytes are the first 16 of a block, the upper ones the rest."""
    packed = blocks[:, at : at + 16]
    return torch.cat([packed & 15, packed >> 4], 1).float()


def _fifth_bits(blocks: Tensor, at: int) -> Tensor:
    """The fifth bit of each of a block's numbers, worth 16."""
    bits = torch.arange(8, dtype=torch.uint8, device=blocks.device)
    return (((blocks[:, at : at + 4, None] >> bits) & 1) << 4).flatten(1).float()


def _q4_0(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks, 2) - 8).mul_(_half(blocks, 0))


def _q4_1(blocks: Tensor) -> Tensor:
    return _nibbles(blocks, 4).mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q5_0(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks, 6) + _fifth_bits(blocks, 2) - 16).mul_(_half(blocks, 0))


def _q5_1(blocks: Tensor) -> Tensor:
    return (_nibbles(blocks, 8) + _fifth_bits(blocks, 4)).mul_(_half(blocks, 0)).add_(_half(blocks, 2))


def _q8_0(blocks: Tensor) -> Tensor:
    return blocks[:, 2:].view(torch.int8).float().mul_(_half(blocks, 0))


def _large_scales(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight scales and eight offsets of six bits each, in 12 bytes: four bytes with the lower bits of the first four
    scales, four of the first four offsets, and four with the lower halves of the rest; upper bits fill the gaps."""
    first, offsets, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scale = torch.cat([first & 63, (rest & 15) | ((first >> 2) & 48)], 1)
    offset = torch.cat([offsets & 63, (rest >> 4) | ((offsets >> 2) & 48)], 1)
    return scale.float(), offset.float()


def _large_nibbles(packed: Tensor) -> Tensor:
    """[blocks, 8, 32] numbers of four bits: 32 bytes hold 32 in their lower halves, the next 32 in the upper ones."""
    quads = packed.reshape(len(packed), 4, 1, 32)
    return torch.cat([quads & 15, quads >> 4], 2).view(len(packed), 8, 32)


def _large_scaled(blocks: Tensor, numbers: Tensor) -> Tensor:
    """Numbers [blocks, 8, 32] with the scales and offsets at the block's start."""
    scale, offset = _large_scales(blocks[:, 4:16])
    scale, offset = _half(blocks, 0) * scale, _half(blocks, 2) * offset
    return numbers.float().mul_(scale[:, :, None]).sub_(offset[:, :, None]).view(-1, _LARGE)


def _q4_k(blocks: Tensor) -> Tensor:
    return _large_scaled(blocks, _large_nibbles(blocks[:, 16:]))


def _q5_k(blocks: Tensor) -> Tensor:
    bits = torch.arange(8, dtype=torch.uint8, device=blocks.device)[None, :, None]
    fifth = ((blocks[:, None, 16:48] >> bits) & 1) << 4
    return _large_scaled(blocks, _large_nibbles(blocks[:, 48:]) | fifth)


def _q6_k(blocks: Tensor) -> Tensor:
    n = len(blocks)
    nibbles, pairs = blocks[:, :128].reshape(n, 2, 1, 64), blocks[:, 128:192].reshape(n, 2, 1, 32)
    lower = torch.cat([nibbles & 15, nibbles >> 4], 2).view(n, 8, 32)
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=blocks.device)[None, None, :, None]
    upper = ((pairs >> shifts) & 3).view(n, 8, 32)
    numbers = (lower | (upper << 4)).float().sub_(32).view(n, 16, 16)
    scale = _half(blocks, 208) * blocks[:, 192:208].view(torch.int8).float()
    return numbers.mul_(scale[:, :, None]).view(n, _LARGE)


_PLAIN: dict[int, torch.dtype] = {0: torch.float32, 1: torch.float16, 30: torch.bfloat16}
_PACKED: dict[int, tuple[int, int, Callable[[Tensor], Tensor]]] = {
    2: (_BLOCK, 18, _q4_0), 3: (_BLOCK, 20, _q4_1), 6: (_BLOCK, 22, _q5_0), 7: (_BLOCK, 24, _q5_1),
    8: (_BLOCK, 34, _q8_0), 12: (_LARGE, 144, _q4_k), 13: (_LARGE, 176, _q5_k), 14: (_LARGE, 210, _q6_k),
}  # fmt: skip
"""By ggml's number of the kind: values and bytes of a block, and how to unpack blocks."""


def _by_gguf(file: GgufFile, place: TensorPlace, data: Tensor, count: int) -> Tensor:
    try:
        import gguf
    except ImportError:
        raise MissingDependency(f"the package gguf (for the quantisation of {place.name})", "train") from None
    try:
        kind = gguf.GGMLQuantizationType(place.kind)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rows: Any = _cut(file, place, data, count // block * size).numpy().reshape(*place.shape[:-1], -1)
        return torch.from_numpy(np.ascontiguousarray(gguf.dequantize(rows, kind), np.float32).reshape(place.shape))
    except (ValueError, KeyError, NotImplementedError) as error:
        raise EngineRefused(f"{file.path}: the quantisation of {place.name} cannot be read: {error}") from None
