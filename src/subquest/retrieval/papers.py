"""A source of questions may have the papers that its passages were read from: their tables can be queried as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..record import Document
from .index import Index
from .ingest import ingest


def papers_of(folder: Path) -> list[Path]:
    """The folder of the files that the passages of a source were read from, if it has one."""
    return [docs] if (docs := folder / "docs").is_dir() else []


def build_index(path: Path, passages: Sequence[Document], papers: Sequence[Path]) -> None:
    """An index of these passages and no others, with the tables of the files that they were read from."""
    with Index.build(path, []) as index:
        if papers:
            ingest(index, papers)
        index.add(passages)
        index.remove({document.id for document in index.documents()} - {document.id for document in passages})
