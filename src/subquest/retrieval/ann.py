"""Approximate nearest neighbours for large vector files, by faiss.

Above ROWS rows a vector file gets a companion (`.ann`): a graph (HNSW) whose nodes are the rows and whose edges lead to
near ones. A search follows the edges towards the query and keeps the best rows it has seen; how many it keeps (its
*reach*) decides how reliably it finds the nearest. The reach is measured when the file is made: as large as it takes to
find RECALL of the true nearest TOP of sampled queries. The companion is memory-mapped, and it can always be rebuilt
from the vector file; without it, or with a filter, search is exact.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .segment import append_check, sync_folder
from .vectors import VectorFile, nearest_blocks

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

ROWS = 300_000
"""From here on, reading all rows takes longer than a search should."""
RECALL = 0.99
TOP = 10
_EDGES = 32
_FARTHEST = 4096
_SAMPLES = 256
_NOISE = 1.0
"""How far a sampled query lies from its row, in the row's own length: about as far as a question from its passage. On
40,248 real passages this measured a recall of 0.992, where real questions had 0.987; half the noise flatters more."""
_BLOCK = 65_536


def wanted(rows: int) -> bool:
    """Whether a file of this many rows should have a companion, and faiss is installed."""
    return rows >= ROWS and importlib.util.find_spec("faiss") is not None


def build(file: VectorFile, path: Path) -> float:
    """Write the companion of a vector file, whole or not at all; returns the measured recall."""
    import faiss
    import numpy as np

    half: Any = faiss.ScalarQuantizer.QT_fp16
    index = faiss.IndexHNSWSQ(file.width, half, _EDGES, faiss.METRIC_INNER_PRODUCT)
    index.train(file.vectors[:1].astype(np.float32))  # half precision needs no training, but faiss requires the call
    for start in range(0, file.rows, _BLOCK):
        index.add(file.vectors[start : start + _BLOCK].astype(np.float32))
    recall = _tune(index, file, np.random.default_rng(0))
    scratch = path.with_suffix(".tmp")
    faiss.write_index(index, str(scratch))
    with open(scratch, "r+b") as written:
        append_check(written)
    os.replace(scratch, path)
    sync_folder(path.parent)
    return recall


def _tune(index: Any, file: VectorFile, generator: np.random.Generator) -> float:
    """Set the reach to the smallest power of two that finds RECALL of the nearest rows."""
    import numpy as np

    picked = np.sort(generator.choice(file.rows, min(_SAMPLES, file.rows), replace=False))
    queries = file.vectors[picked].astype(np.float32)
    noise = generator.normal(size=queries.shape).astype(np.float32)
    queries += _NOISE * noise / np.linalg.norm(noise, axis=1, keepdims=True)
    true = [set(places) for places, _ in nearest_blocks(file, queries, TOP, None)]
    index.hnsw.efSearch = 32
    while True:
        _, found = index.search(queries, TOP)
        recall = sum(len(a & set(b.tolist())) for a, b in zip(true, found, strict=True)) / (TOP * len(true))
        if recall >= RECALL or index.hnsw.efSearch >= _FARTHEST:
            return float(recall)
        index.hnsw.efSearch *= 2


class Approximate:
    """A companion, opened."""

    def __init__(self, path: Path) -> None:
        import faiss

        self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)

    def search(self, queries: npt.NDArray[np.float32], k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Scores and rows of about the k nearest of each query; row -1 where there are fewer."""
        scores, rows = self._index.search(queries, k)
        return scores, rows


def open_companion(path: Path) -> Approximate | None:
    """The companion; None, so that search is exact, where there is none, it is damaged, or faiss is not installed."""
    if not path.exists() or importlib.util.find_spec("faiss") is None:
        return None
    try:
        return Approximate(path)
    except RuntimeError:  # what faiss raises for a file that it cannot read; `index verify` names it
        return None
