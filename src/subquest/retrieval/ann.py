"""Approximate nearest neighbours for large vector files, by faiss.

Above ROWS rows a vector file gets a companion (`.ann`): an inverted file. The rows are grouped around centroids, and a
search reads only the groups whose centroids are nearest to the query. How many groups is measured when the file is
made: as many as it takes to find RECALL of the true nearest TOP of sampled rows. The companion is memory-mapped, and it
can always be made again from the vector file; without it, or with a filter, search is exact.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .segment import append_check, sync_folder

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from .dense import VectorFile

ROWS = 300_000
"""From here on reading all rows takes longer than a search should."""
RECALL = 0.99
TOP = 10
_SAMPLES = 256
_BLOCK = 65_536


def wanted(rows: int) -> bool:
    """Whether a file of so many rows should have a companion, and can get one here."""
    return rows >= ROWS and importlib.util.find_spec("faiss") is not None


def build(file: VectorFile, path: Path, *, seed: int = 0) -> float:
    """Write the companion of a vector file, whole or not at all; the recall that was measured."""
    import faiss
    import numpy as np

    groups = int(4 * file.rows**0.5)
    generator = np.random.default_rng(seed)
    quantizer = faiss.IndexFlatIP(file.width)
    index = faiss.IndexIVFScalarQuantizer(
        quantizer, file.width, groups, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT, False
    )
    index.cp.niter = 8
    index.cp.seed = seed + 1
    chosen = np.sort(generator.choice(file.rows, min(file.rows, 40 * groups), replace=False))
    index.train(file.vectors[chosen].astype(np.float32))
    for start in range(0, file.rows, _BLOCK):
        index.add(file.vectors[start : start + _BLOCK].astype(np.float32))
    recall = _tune(index, file, generator)
    scratch = path.with_suffix(".tmp")
    faiss.write_index(index, str(scratch))
    with open(scratch, "r+b") as written:
        append_check(written)
    os.replace(scratch, path)
    sync_folder(path.parent)
    return recall


def _tune(index: Any, file: VectorFile, generator: np.random.Generator) -> float:
    """Set the number of groups to read to the smallest power of two that reaches RECALL."""
    import numpy as np

    from .dense import nearest_blocks

    picked = np.sort(generator.choice(file.rows, min(_SAMPLES, file.rows), replace=False))
    queries = file.vectors[picked].astype(np.float32)
    noise = generator.normal(size=queries.shape).astype(np.float32)
    queries += 0.5 * noise / np.linalg.norm(noise, axis=1, keepdims=True)  # a question is near its passage, not on it
    true = [set(places) for places, _ in nearest_blocks(file, queries, TOP, None)]
    index.nprobe = 8
    while True:
        _, found = index.search(queries, TOP)
        recall = sum(len(a & set(b.tolist())) for a, b in zip(true, found, strict=True)) / (TOP * len(true))
        if recall >= RECALL or 2 * index.nprobe > index.nlist:
            return float(recall)
        index.nprobe *= 2


class Approximate:
    """A companion, opened."""

    def __init__(self, path: Path) -> None:
        import faiss

        self._index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)

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
