"""The values of quantised tensors in a GGUF file.

ggml packs a row in blocks of 32 values: a scale, for some kinds an offset, and small integers. The value is `scale *
number` or `scale * number + offset`, computed here in fp32 in the same order as in the package `gguf`, so both give the
same bits. The common kinds are unpacked with a few operations on the whole tensor, several tensors in parallel; other
kinds (the K-quants) go through `gguf`.
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
        size, unpack = _PACKED[place.kind]
        blocks = _cut(file, place, data, count // _BLOCK * size).reshape(-1, size)
        return unpack(blocks).reshape(place.shape)
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


_PLAIN: dict[int, tuple[np.dtype[Any], Callable[[Array], Array]]] = {
    0: (np.dtype(np.float32), _single), 1: (np.dtype(np.float16), _single), 30: (np.dtype(np.uint16), _brain),
}  # fmt: skip
_PACKED: dict[int, tuple[int, Callable[[Array], Array]]] = {
    2: (18, _q4_0), 3: (20, _q4_1), 6: (22, _q5_0), 7: (24, _q5_1), 8: (34, _q8_0),
}  # fmt: skip
"""By ggml's number of the kind: bytes a block, and how to unpack blocks."""


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
