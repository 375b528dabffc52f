"""An index in figures: what `subquest index info` shows."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import kernel, store, tables


@dataclass(frozen=True, slots=True)
class Info:
    """An index in figures."""

    path: str
    generation: int
    documents: int
    files: int
    """Files that documents were read from; documents added by a program have none."""
    segments: int
    removed: int
    """Removed documents that still take space until the next `compact`."""
    vectors: int
    unpublished: int
    """Documents of a write that is running or was killed; the next write publishes them."""
    analysis: dict[str, Any]
    bm25: dict[str, Any]
    fusion: dict[str, Any]
    encoder: dict[str, Any] | None
    bytes_store: int
    bytes_lexical: int
    bytes_dense: int
    bytes_tables: int
    search: str
    """What searches run on: the C kernel or plain Python."""

    @property
    def bytes(self) -> int:
        """Of all of it."""
        return self.bytes_store + self.bytes_lexical + self.bytes_dense + self.bytes_tables


def info(folder: Path) -> Info:
    """Counts, sizes and settings."""
    with contextlib.closing(store.connect(folder)) as db, store.reading(folder):

        def count(query: str, *values: object) -> int:
            return int(db.execute(query, values).fetchone()[0])

        published = store.get(db, "published", 0)
        return Info(
            path=str(folder),
            generation=store.get(db, "generation", 0),
            documents=count("SELECT count(*) FROM documents WHERE number <= ?", published),
            files=count("SELECT count(*) FROM files") if store.has_ledger(db) else 0,
            segments=count("SELECT count(*) FROM segments WHERE kind = 'lexical'"),
            removed=count("SELECT count(*) FROM removed"),
            vectors=count("SELECT count(*) FROM vectors"),
            unpublished=count("SELECT count(*) FROM documents WHERE number > ?", published),
            analysis=store.get(db, "analysis", {}),
            bm25=store.get(db, "bm25", {}),
            fusion=store.get(db, "fusion", {}),
            encoder=store.get(db, "encoder", None),
            bytes_store=_bytes(folder, f"{store.STORE}*"),
            bytes_lexical=_bytes(folder, "*.lex"),
            bytes_dense=_bytes(folder, "*.vec", "*.ann"),
            bytes_tables=_bytes(folder, f"{tables.FILE}*"),
            search=kernel.status(),
        )


def _bytes(folder: Path, *patterns: str) -> int:
    """The size of files; a writer may remove one of them at any moment."""
    total = 0
    for path in (path for pattern in patterns for path in folder.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
