"""Sentence embeddings for comparing plans.

An embedder is any function from a list of texts to an array with one row a text, so a `SentenceTransformer.encode`
or the index's own encoder will do. `MiniLM` is the default: all-MiniLM-L6-v2 by plain torch and transformers, from a
folder on disk, without a network.
"""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ..errors import MissingDependency
from ..retrieval.minilm import load, weights

NEEDED = "torch with transformers, which compares plans,"


class Embedder(Protocol):
    """Texts in, an array [texts, width] out."""

    def __call__(self, texts: list[str], /) -> Any: ...


class MiniLM:
    """all-MiniLM-L6-v2: mean of the last layer over the tokens of a text, brought to length 1."""

    def __init__(self, folder: str | Path | None = None, *, device: str = "cpu", batch: int = 64) -> None:
        try:
            import torch
            import transformers  # noqa: F401
        except ImportError:
            raise MissingDependency(NEEDED, "train") from None
        self._torch = torch
        self._tokenizer, self._model = load(Path(folder) if folder else weights(), device)
        self._batch = batch

    def __call__(self, texts: list[str], /) -> Any:
        import numpy as np

        if not texts:
            return np.zeros((0, self._model.config.hidden_size), dtype=np.float32)
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        rows: list[Any] = [None] * len(texts)
        for start in range(0, len(texts), self._batch):
            chosen = order[start : start + self._batch]
            for i, row in zip(chosen, self._encode([texts[i] for i in chosen]), strict=True):
                rows[i] = row
        return np.stack(rows)

    def _encode(self, texts: Sequence[str]) -> Any:
        torch = self._torch
        inputs = self._tokenizer(list(texts), padding=True, truncation=True, max_length=256, return_tensors="pt")
        inputs = inputs.to(self._model.device)
        with torch.inference_mode():
            states = self._model(**inputs).last_hidden_state  # [texts, tokens, width]
        mask = inputs["attention_mask"].unsqueeze(-1).float()
        mean = (states.float() * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1).cpu().numpy()


def check_embedder() -> None:
    """Says what is missing for `default_embedder`, without loading it: before the work whose plans it is to score."""
    if not all(map(importlib.util.find_spec, ("torch", "transformers"))):
        raise MissingDependency(NEEDED, "train")
    weights()


@functools.cache
def default_embedder() -> Embedder:
    """MiniLM, loaded once a process, on the GPU where there is one."""
    check_embedder()
    import torch

    return MiniLM(device="cuda" if torch.cuda.is_available() else "cpu")
