"""GGUF files with the values of their tensors, by the package `gguf`; `gguf_file` reads the metadata alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import DataError, MissingDependency
from ..models import MODELS
from ..output_file import complete_file


def gguf_package() -> Any:
    try:
        import gguf
    except ImportError:
        raise MissingDependency("gguf", "embedded") from None
    return gguf


@contextmanager
def gguf_writer(path: Path, architecture: str) -> Iterator[Any]:
    """A writer of a GGUF file, which gets its name only once it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with complete_file(path) as scratch:
        writer = gguf_package().GGUFWriter(scratch, architecture)
        yield writer
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def open_gguf(path: Path) -> Any:
    """A reader of a GGUF file."""
    gguf = gguf_package()
    try:
        return gguf.GGUFReader(path)
    except (OSError, ValueError, IndexError) as error:
        known = next((model.name for model in MODELS.values() if model.path == path), None)
        again = f"; fetch it again with: subquest model get {known}" if known else ""
        raise DataError(f"cannot read {path} as GGUF: {error}{again}") from None
