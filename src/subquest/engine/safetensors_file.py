"""Safetensors files in numpy alone.

The format is eight bytes of header length, a JSON header and raw little-endian tensors. Numpy has no bfloat16, which
our trainer writes, so such tensors are read as float16: the mantissa fits, and numbers too small for float16 lose less
than 1e-7, which is negligible for weights. Tensors with numbers too large for float16 are read as float32.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError
from ..input_file import check_input, parse_json

Array = np.ndarray[Any, Any]
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2"), "BF16": np.dtype("<u2")}


def read_safetensors(path: Path) -> dict[str, Array]:
    """All tensors of a file."""
    try:
        raw = check_input(path).read_bytes()
        (length,) = struct.unpack_from("<Q", raw)
        header = parse_json(raw[8 : 8 + length], f"the header of {path}")
        out: dict[str, Array] = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            data = np.frombuffer(raw[8 + length + start : 8 + length + end], _TYPES[entry["dtype"]])
            tensor = data.reshape(entry["shape"])
            out[name] = from_bfloat16(tensor) if entry["dtype"] == "BF16" else tensor
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise DataError(f"{path} is not a safetensors file that can be read here: {error}") from None
    return out


def write_safetensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write float16 and float32 tensors."""
    names = {np.dtype("<f4"): "F32", np.dtype("<f2"): "F16"}
    header: dict[str, Any] = {}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": names[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.nbytes],
        }
        at += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def from_bfloat16(bits: Array) -> Array:
    """bfloat16 bits (uint16) as float16, or as float32 where float16 is too narrow."""
    wide = (bits.astype(np.uint32) << 16).view(np.float32)
    if wide.size and np.abs(wide).max() > np.finfo(np.float16).max:
        return wide
    return wide.astype(np.float16)
