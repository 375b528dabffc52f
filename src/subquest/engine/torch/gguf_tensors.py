"""The values of quantised tensors in a GGUF file.

ggml packs a row in blocks of 32 values, K-quants in blocks of 256: scales, for some kinds offsets, and small integers.
The value is `scale * number` or `scale * number + offset`, computed here in fp32 in the same order as in the package
`gguf`, so both give the same bits. The common kinds are unpacked many blocks at a time, several tensors in parallel.
Rare ones go through `gguf`, which takes about twice the CPU time, in steps too small for threads.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ...errors import DataError, EngineRefused, MissingDependency
from ..gguf_file import GgufFile, TensorPlace

Array = np.ndarray[Any, Any]

_BLOCK = 32
_LARGE = 256
"""Values in a block of a K-quant."""
_AT_ONCE = 1 << 17
"""Values unpacked at once: what comes between fits into a core's cache."""
_THREADS = 8
"""More threads would only wait for the memory."""


def values(file: GgufFile, places: Iterable[TensorPlace]) -> list[Array]:
    """Tensors of a file in fp32. numpy in plain threads: torch's threads would spin while other work holds the
    cores."""
    data = np.asarray(np.memmap(file.path, dtype=np.uint8, mode="r"))
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        return list(pool.map(lambda place: _values(file, place, data), places))


def _values(file: GgufFile, place: TensorPlace, data: Array) -> Array:
    count = math.prod(place.shape)
    if place.kind in _PLAIN:
        dtype, convert = _PLAIN[place.kind]
        return convert(_cut(file, place, data, count * dtype.itemsize).view(dtype)).reshape(place.shape)
    if place.kind in _PACKED:
        length, size, unpack = _PACKED[place.kind]
        blocks = _cut(file, place, data, count // length * size).reshape(-1, size)
        out = np.empty((len(blocks), length), np.float32)
        step = _AT_ONCE // length
        for at in range(0, len(blocks), step):
            out[at : at + step] = unpack(blocks[at : at + step])
        return out.reshape(place.shape)
    return _by_gguf(file, place, data, count)


def _cut(file: GgufFile, place: TensorPlace, data: Array, size: int) -> Array:
    if place.start + size > len(data):
        raise DataError(f"{file.path} ends within the tensor {place.name}: the file is incomplete")
    return data[place.start : place.start + size]


def _single(numbers: Array) -> Array:
    return numbers.astype(np.float32)


def _brain(numbers: Array) -> Array:
    """bfloat16 is the upper half of fp32."""
    return (numbers.astype(np.uint32) << 16).view(np.float32)


def _half(blocks: Array, at: int) -> Array:
    """The fp16 number at a byte of each block, as a column of fp32."""
    return np.ascontiguousarray(blocks[:, at : at + 2]).view(np.float16).astype(np.float32)


def _nibbles(blocks: Array, at: int) -> Array:
    """Numbers of four bits: the lower halves of 16 bytes are the first 16 of a block, the upper ones the rest."""
    packed = blocks[:, at : at + 16]
    numbers = np.empty((len(blocks), _BLOCK), np.float32)
    numbers[:, :16] = packed & 15
    numbers[:, 16:] = packed >> 4
    return numbers


def _fifth_bits(blocks: Array, at: int) -> Array:
    """The fifth bit of each of a block's numbers, worth 16."""
    return np.unpackbits(blocks[:, at : at + 4], axis=1, bitorder="little") << 4


def _scaled(numbers: Array, scale: Array, offset: Array | None = None) -> Array:
    numbers *= scale
    if offset is not None:
        numbers += offset
    return numbers


def _q4_0(blocks: Array) -> Array:
    return _scaled(_nibbles(blocks, 2) - np.float32(8), _half(blocks, 0))


def _q4_1(blocks: Array) -> Array:
    return _scaled(_nibbles(blocks, 4), _half(blocks, 0), _half(blocks, 2))


def _q5_0(blocks: Array) -> Array:
    return _scaled(_nibbles(blocks, 6) + _fifth_bits(blocks, 2) - np.float32(16), _half(blocks, 0))


def _q5_1(blocks: Array) -> Array:
    return _scaled(_nibbles(blocks, 8) + _fifth_bits(blocks, 4), _half(blocks, 0), _half(blocks, 2))


def _q8_0(blocks: Array) -> Array:
    return _scaled(blocks[:, 2:].view(np.int8).astype(np.float32), _half(blocks, 0))


def _large_scales(packed: Array) -> tuple[Array, Array]:
    """Eight scales and eight offsets of six bits each, in 12 bytes: four bytes with the lower bits of the first four
    scales, four of the first four offsets, and four with the lower halves of the rest; upper bits fill the gaps."""
    first, offsets, rest = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scale = np.concatenate([first & 63, (rest & 15) | ((first >> 2) & 48)], axis=1)
    offset = np.concatenate([offsets & 63, (rest >> 4) | ((offsets >> 2) & 48)], axis=1)
    return scale.astype(np.float32), offset.astype(np.float32)


def _large_nibbles(packed: Array) -> Array:
    """[blocks, 8, 32] numbers of four bits: 32 bytes hold 32 in their lower halves, the next 32 in the upper ones."""
    quads = packed.reshape(len(packed), 4, 1, 32)
    return np.concatenate([quads & 15, quads >> 4], axis=2).reshape(len(packed), 8, 32)


def _large_scaled(blocks: Array, numbers: Array) -> Array:
    """Numbers [blocks, 8, 32] with the scales and offsets at the block's start."""
    scale, offset = _large_scales(blocks[:, 4:16])
    scale, offset = _half(blocks, 0) * scale, _half(blocks, 2) * offset
    out: Array = scale[:, :, None] * numbers.astype(np.float32)
    out -= offset[:, :, None]
    return out.reshape(-1, _LARGE)


def _q4_k(blocks: Array) -> Array:
    return _large_scaled(blocks, _large_nibbles(blocks[:, 16:]))


def _q5_k(blocks: Array) -> Array:
    bits = np.arange(8, dtype=np.uint8)[None, :, None]
    fifth = ((blocks[:, None, 16:48] >> bits) & 1) << 4
    return _large_scaled(blocks, _large_nibbles(blocks[:, 48:]) | fifth)


def _q6_k(blocks: Array) -> Array:
    n = len(blocks)
    nibbles, pairs = blocks[:, :128].reshape(n, 2, 1, 64), blocks[:, 128:192].reshape(n, 2, 1, 32)
    lower = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(n, 8, 32)
    upper = (pairs >> np.array([0, 2, 4, 6], np.uint8)[None, None, :, None]) & 3
    numbers = (lower | (upper.reshape(n, 8, 32) << 4)).astype(np.int8) - np.int8(32)
    scale = _half(blocks, 208) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    out: Array = scale[:, :, None] * numbers.reshape(n, 16, 16).astype(np.float32)
    return out.reshape(n, _LARGE)


_PLAIN: dict[int, tuple[np.dtype[Any], Callable[[Array], Array]]] = {
    0: (np.dtype(np.float32), _single), 1: (np.dtype(np.float16), _single), 30: (np.dtype(np.uint16), _brain),
}  # fmt: skip
_PACKED: dict[int, tuple[int, int, Callable[[Array], Array]]] = {
    2: (_BLOCK, 18, _q4_0), 3: (_BLOCK, 20, _q4_1), 6: (_BLOCK, 22, _q5_0), 7: (_BLOCK, 24, _q5_1),
    8: (_BLOCK, 34, _q8_0), 12: (_LARGE, 144, _q4_k), 13: (_LARGE, 176, _q5_k), 14: (_LARGE, 210, _q6_k),
}  # fmt: skip
"""By ggml's number of the kind: values and bytes of a block, and how to unpack blocks."""


def _by_gguf(file: GgufFile, place: TensorPlace, data: Array, count: int) -> Array:
    try:
        import gguf
    except ImportError:
        raise MissingDependency(f"the package gguf (for the quantisation of {place.name})", "train") from None
    try:
        kind = gguf.GGMLQuantizationType(place.kind)
        block, size = gguf.GGML_QUANT_SIZES[kind]
        rows = _cut(file, place, data, count // block * size).reshape(*place.shape[:-1], -1)
        return np.ascontiguousarray(gguf.dequantize(rows, kind), np.float32).reshape(place.shape)
    except (ValueError, KeyError, NotImplementedError) as error:
        raise EngineRefused(f"{file.path}: the quantisation of {place.name} cannot be read: {error}") from None
