"""The metadata of a GGUF file, and the offsets of its tensors.

A GGUF file is a header (counts), key-value metadata, a table of tensors and then the tensors, aligned. The metadata of
a model contains its vocabulary, some hundred thousand values. The package `gguf` wraps them one by one in arrays, which
takes seconds; this reader takes milliseconds. It leaves tensors in the file and needs only the standard library.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..input_file import check_input

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""GGUF's numbers for the types of values, as the struct module spells them; 8 is a string, 9 an array."""


CONTROL, USER_DEFINED = 3, 4
"""Kinds of tokens in `tokenizer.ggml.token_type` that are matched whole in a text."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """One tensor of the file. `shape` has the fastest-changing dimension last, as numpy and torch have it."""

    name: str
    shape: tuple[int, ...]
    kind: int
    """The quantisation, by ggml's number."""
    start: int
    """Its first byte in the file."""


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The metadata and tensor table of a file."""

    path: Path
    fields: Mapping[str, Any]
    tensors: tuple[TensorPlace, ...]


def read_gguf_file(path: Path) -> GgufFile:
    """Read everything except the tensors' values."""
    try:
        with check_input(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if data[:4] != b"GGUF":
                raise DataError(f"{path} is not a GGUF file")
            return _Cursor(data).whole(path)
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None
    except (struct.error, ValueError, TypeError, KeyError, ArithmeticError, RecursionError, MemoryError) as error:
        raise DataError(f"{path} is not a readable GGUF file: {error}") from None


def tokens_of_kind(file: GgufFile, kind: int) -> list[str]:
    """The tokens of a kind, such as CONTROL."""
    tokens, kinds = (file.fields.get(f"tokenizer.ggml.{name}") for name in ("tokens", "token_type"))
    return [str(token) for token, found in zip(tokens or (), kinds or (), strict=False) if found == kind]


class _Cursor:
    """A position in the file's bytes that advances with reading."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 4

    def whole(self, path: Path) -> GgufFile:
        version = self.scalar("I")
        if version not in (2, 3):
            raise ValueError(f"it is of version {version}; versions 2 and 3, little-endian, are known")
        tensors, fields = self.scalar("Q"), self.scalar("Q")
        metadata = {}
        for _ in range(fields):
            name = self.string()
            metadata[name] = self.value(self.scalar("I"))
        table = []
        for _ in range(tensors):
            name = self.string()
            sizes = self.run("Q", self.scalar("I"))
            table.append((name, tuple(reversed(sizes)), self.scalar("I"), self.scalar("Q")))
        alignment = int(metadata.get("general.alignment", 32))
        base = -(-self.at // alignment) * alignment
        places = tuple(TensorPlace(name, shape, kind, base + start) for name, shape, kind, start in table)
        if any(place.start > len(self.data) for place in places):
            raise ValueError("it ends before its last tensor")
        return GgufFile(path, metadata, places)

    def value(self, kind: int) -> Any:
        if kind == 8:
            return self.string()
        if kind != 9:
            return self.scalar(_SCALARS[kind])
        inner, count = self.scalar("I"), self.scalar("Q")
        if count > len(self.data):
            raise ValueError(f"an array of {count} values is longer than the file")
        if inner in (8, 9):
            return [self.value(inner) for _ in range(count)]
        return list(self.run(_SCALARS[inner], count))

    def string(self) -> str:
        (length,) = _LENGTH.unpack_from(self.data, self.at)
        start = self.at + 8
        self.at = start + length
        if self.at > len(self.data):
            raise ValueError("it ends within a string")
        return self.data[start : self.at].decode("utf-8", errors="replace")

    def scalar(self, code: str) -> Any:
        return self.run(code, 1)[0]

    def run(self, code: str, count: int) -> tuple[Any, ...]:
        form = f"<{count}{code}"
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values


_LENGTH = struct.Struct("<Q")
