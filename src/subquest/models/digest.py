"""SHA-256 of large files, computed once per file and remembered in the cache."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from ..download.sizes import sha256
from ..output_file import complete_file
from .catalog import MODELS, cache_folder

KEPT = 64
"""Files whose digests are remembered."""


def file_digest(path: Path) -> str:
    """The SHA-256 of a file. A known model's is known; others are read once, and again when size or time change."""
    path = path.resolve()
    stat = path.stat()
    for model in MODELS.values():
        for file in model.files:
            if stat.st_size == file.size and path == model.place(file).resolve():
                return file.sha256
    key = f"{path} {stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    known = _remembered()
    if key not in known:
        known[key] = sha256(path)
        _remember(known)
    return known[key]


def _remembered() -> dict[str, str]:
    try:
        known = json.loads(_place().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(k): str(v) for k, v in known.items()} if isinstance(known, dict) else {}


def _remember(known: dict[str, str]) -> None:
    with suppress(OSError):  # a cache that cannot be written costs time, nothing else
        os.makedirs(_place().parent, exist_ok=True)
        with complete_file(_place()) as scratch:
            scratch.write_text(json.dumps(dict(list(known.items())[-KEPT:])), encoding="utf-8")


def _place() -> Path:
    return cache_folder() / "digests.json"
