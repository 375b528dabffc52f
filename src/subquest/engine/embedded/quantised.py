"""A model in its fastest form: weights in Q8_0, with the adapter merged.

The published file is Q4_1. A merged adapter costs nothing at run time, an attached one about a fifth of the speed. With
eight bits the same weights take more space without a relevant loss, and llama.cpp's own kernels read a prompt 1.7 times
as fast (ours read both alike; `subquest bench embedded`). So the first use writes a second file to the cache, in a few
seconds, and later uses find it. If that is not possible, the published file runs with the adapter attached.

For larger known models this takes a minute and gigabytes, so only `subquest model get` does it, where there is room.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ...download.part_file import locked
from ...errors import DataError, MissingDependency, UsageError
from ...models import cache_folder, embedded_model
from ...models.memory import available_memory, fits
from ..adapter import read_gguf_pairs
from ..gguf_package import gguf_writer, open_gguf

Array = np.ndarray[Any, Any]
KEPT = 4
"""Copies of a model that are kept, the newest. Each holds one adapter; the embedded model's take 145 MB."""
VERSION = 1
"""Increased when files written by earlier versions must no longer be used."""


def embedded_files(adapter: Path | None) -> tuple[Path, Path | None]:
    """The file that runs as the embedded model, and the adapter to attach to it, if any.

    A file that replaces the embedded model (`SUBQUEST_SMOLLM2`) runs unchanged.
    """
    base = embedded_model()
    faster = None if os.environ.get("SUBQUEST_SMOLLM2") else quantised_copy(base, adapter)
    return (faster, None) if faster else (base, adapter)


def merged_files(base: Path, adapter: Path | None) -> tuple[Path, Path | None]:
    """The file that runs as a model with an adapter, and the adapter to attach: the faster copy, if it was made and
    memory is not too small for it."""
    copy = _path(base, adapter) if adapter is not None else None
    return (copy, None) if copy is not None and copy.is_file() and fits(copy.stat().st_size) else (base, adapter)


def has_room(base: Path) -> bool:
    """Whether the faster copy of a model fits on the disk, and into memory while it is made."""
    size, memory = base.stat().st_size, available_memory()
    return shutil.disk_usage(base.parent).free > 3 * size and (memory is None or memory > 4 * size)


def quantised_copy(base: Path, adapter: Path | None, *, keep: int = KEPT) -> Path | None:
    """The faster copy of a base model and an adapter, written if needed; None if it cannot be written. Only the newest
    `keep` copies of the model stay."""
    try:
        target = _path(base, adapter)
        if not target.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            lock = target.with_name(f".{_model(base)}.lock")
            with locked(lock):
                if not target.is_file():  # another process may have made it meanwhile
                    _make(base, adapter, target, keep)
                lock.unlink()
    except (OSError, MissingDependency):
        return None
    return target


def _make(base: Path, adapter: Path | None, target: Path, keep: int) -> None:
    """Write a copy and remove old ones, and what processes left that were killed; the model is locked."""
    name, folder = glob.escape(_model(base)), target.parent
    for left in folder.glob(f".{name}[+-]*.new"):
        left.unlink()
    quantise(base, adapter, target)
    made = sorted(folder.glob(f"{name}[+-]*.gguf"), key=lambda file: file.stat().st_mtime_ns, reverse=True)
    for old in made[keep:]:
        old.unlink()


def quantise(base: Path, adapter: Path | None, target: Path) -> None:
    """Write the base model in Q8_0 with the adapter merged."""
    reader = open_gguf(base)
    pairs, alpha = read_gguf_pairs(adapter) if adapter is not None else ({}, 0.0)
    import gguf
    from gguf.quants import dequantize, quantize

    names = {str(tensor.name) for tensor in reader.tensors}
    if missing := pairs.keys() - names:
        raise DataError(f"the adapter {adapter} does not fit {base.name}: the model has no {sorted(missing)[0]}")
    q8 = gguf.GGMLQuantizationType.Q8_0
    looked_up = "token_embd.weight" if "output.weight" in names else ""  # never multiplied: its rows are only fetched
    with gguf_writer(target, reader.fields["general.architecture"].contents()) as writer:
        for name, field in reader.fields.items():
            if name.startswith("GGUF.") or name == "general.architecture":
                continue
            value = int(gguf.LlamaFileType.MOSTLY_Q8_0) if name == "general.file_type" else field.contents()
            kind = field.types[0]
            writer.add_key_value(name, value, kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)
        for tensor in reader.tensors:
            if len(tensor.shape) < 2 or tensor.shape[0] % 32 or tensor.name == looked_up:
                writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
                continue
            weight = dequantize(tensor.data, tensor.tensor_type)
            if (pair := pairs.get(str(tensor.name))) is not None:
                a, b = (half.astype(np.float32) for half in pair)
                if (b.shape[0], a.shape[1]) != weight.shape:
                    raise DataError(f"the adapter {adapter} does not fit {base.name}: {tensor.name} has another shape")
                weight = weight + alpha / len(a) * (b @ a)
            writer.add_tensor(tensor.name, quantize(weight, q8), raw_dtype=q8)


def _path(base: Path, adapter: Path | None) -> Path:
    """The path of the copy; its name depends on the base's version and the adapter's content, so it is never stale."""
    try:
        stat = base.stat()
        content = adapter.read_bytes() if adapter is not None else b""
    except OSError as error:
        raise UsageError(f"cannot read {error.filename}: {error.strerror}") from None
    key = hashlib.sha256(f"{VERSION} {stat.st_size} {stat.st_mtime_ns} ".encode() + content).hexdigest()[:12]
    stem = _model(base) + (f"+{adapter.stem}" if adapter is not None else "")
    return cache_folder() / "models" / "derived" / f"{stem}-{key}.gguf"


def _model(base: Path) -> str:
    """A model's name: that of its file without the quantisation."""
    return re.sub(r"[.-]Q\d\w*$", "", base.stem, flags=re.IGNORECASE)
