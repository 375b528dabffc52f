"""Indexes that questions bring along: made once, found again, and never searched half made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from ..record import Document
from ..retrieval import Index


def build_whole(path: Path, documents: Iterable[Document]) -> None:
    """Make an index that is at its path whole or not at all: half of one would be searched as if it were all."""
    building = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        Index.build(building, documents).close()
        try:
            os.rename(building, path)
        except OSError:
            if not path.exists():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(building, ignore_errors=True)
