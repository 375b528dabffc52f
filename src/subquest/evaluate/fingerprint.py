"""What a run was made with, by content: a changed index or prompt is another experiment, whatever its path says."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path

from ..retrieval import store
from ..runtime.prompts import SETS

SAMPLES = 1000
"""Documents of an index that are looked at; its size and settings always count."""


def of_index(folder: str | Path) -> str:
    """An index by its size, its settings and up to 1,000 of its documents, evenly spread."""
    digest = hashlib.sha256()
    with contextlib.closing(store.connect(Path(folder))) as db:
        published = int(store.get(db, "published", 0))
        count, last = db.execute(
            "SELECT count(*), max(number) FROM documents WHERE number <= ?", (published,)
        ).fetchone()
        settings = [store.get(db, key, None) for key in ("analysis", "bm25", "fusion", "encoder")]
        digest.update(json.dumps([count, settings], sort_keys=True).encode())
        seen = 0
        for at in range(SAMPLES):
            number = max(seen + 1, at * (last or 0) // SAMPLES)
            row = db.execute(
                "SELECT number, id, title, text FROM documents WHERE number BETWEEN ? AND ? ORDER BY number LIMIT 1",
                (number, published),
            ).fetchone()
            if row is None:
                break
            seen = row[0]
            digest.update(json.dumps(row[1:]).encode())
    return digest.hexdigest()[:16]


def of_prompts(folder: str | Path, *, without: Collection[str] = ()) -> str:
    """A folder of prompts by the content of its files, but for those named in `without`; a set of ours by its name."""
    if str(folder) in SETS:
        return str(folder)
    return _of_files(sorted(file for file in Path(folder).glob("*.md") if file.name not in without))


def of_dialect(name: str) -> str:
    """A dialect of the user's by the content of its folder; empty where it is one of ours."""
    described = Path(name) / "dialect.toml"
    return _of_files([described, *sorted(described.parent.glob("*.md"))]) if name and described.is_file() else ""


def _of_files(files: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def of_adapter(place: str | Path | None) -> str:
    """An adapter by the content of its file, or of the weights in its folder; empty where there is none."""
    path = Path(place).expanduser() if place else None
    if path is None or not path.exists():
        return ""
    digest = hashlib.sha256()
    for file in [path] if path.is_file() else sorted(path.glob("*.safetensors")):
        with file.open("rb") as opened:
            digest.update(hashlib.file_digest(opened, "sha256").digest())
    return digest.hexdigest()[:16]
