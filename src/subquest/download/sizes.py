"""Sizes as people read them, digests, and room on the disk."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from ..errors import UsageError

MARGIN = 16_000_000
"""Bytes that are left free on the disk."""


def megabytes(size: float) -> str:
    """A size as people read it: `98 MB`, `1.1 GB`."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_room(name: str, command: str, folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + MARGIN:
        raise UsageError(
            f"no room for {name}: it needs {megabytes(needed + MARGIN)} more in {folder}, and "
            f"{megabytes(free)} are free. Make room, or choose another disk: SUBQUEST_CACHE=FOLDER {command}"
        )
