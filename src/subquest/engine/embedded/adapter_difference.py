"""How much an adapter changes what a model says, and how much less another form of it does: by log-probs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .llama_cpp import open_library
from .model import Model, Stretch

LogProbs = list[np.ndarray[Any, np.dtype[np.float64]]]

TEXTS = (
    "The capital of France is",
    "Question: who wrote Hamlet? Answer:",
    "one two three four five six",
    "Water boils at a temperature of",
)
LIKELIEST = 10


class Difference(NamedTuple):
    effect: float
    """What the first adapter changes."""
    apart: float
    """What the second changes otherwise."""


def difference(base: Path, first: Path, second: Path) -> Difference:
    """Two adapters of one base model, each attached to it."""
    plain, one, two = (log_probs(base, adapter) for adapter in (None, first, second))
    return Difference(distance(one, plain), distance(one, two))


def log_probs(file: Path, adapter: Path | None = None) -> LogProbs:
    """Of every token, after each of the texts."""
    model = Model(open_library(), file, adapter=adapter, cells=256, sequences=1, batch=64, threads=1)
    out = []
    for text in TEXTS:
        model.drop(0)
        rows = model.step([Stretch(0, 0, model.vocabulary.encode(text), True)])
        assert rows is not None
        logits = rows[0].astype(np.float64)
        out.append(logits - logits.max() - np.log(np.exp(logits - logits.max()).sum()))
    model.free()
    return out


def distance(one: LogProbs, two: LogProbs) -> float:
    """Mean difference over the tokens that are likeliest by the first, of each text."""
    gaps = []
    for x, y in zip(one, two, strict=True):
        top = np.argsort(-x)[:LIKELIEST]
        gaps.append(np.abs(x[top] - y[top]).mean())
    return float(np.mean(gaps))
