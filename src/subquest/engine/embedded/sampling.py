"""Choosing the next token, and how likely it was."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..interface import Sampling

Logits = np.ndarray[Any, np.dtype[np.float32]]


class Choice(NamedTuple):
    token: int
    logprob: float
    """Under the whole softmax at the sampling temperature (1 where sampling is greedy), before top-k, top-p, min-p."""


def choose(logits: Logits, sampling: Sampling, random: np.random.Generator) -> Choice:
    """Sample one token. The cuts apply in the order top-k, top-p, min-p; ties at a cut fall to the lower token id."""
    if sampling.temperature <= 0:
        token = int(np.argmax(logits))
        return Choice(token, float(logits[token]) - log_sum(logits))
    scaled = logits.astype(np.float64) / sampling.temperature
    total = log_sum(scaled)
    candidates = _cut(scaled - total, sampling)
    if candidates is None:
        weights = np.exp(scaled - total)
        token = _draw(weights, random)
    else:
        token = int(candidates[_draw(np.exp(scaled[candidates] - total), random)])
    return Choice(token, float(scaled[token] - total))


def _cut(logprobs: np.ndarray[Any, np.dtype[np.float64]], sampling: Sampling) -> np.ndarray[Any, Any] | None:
    """Ids that may be drawn, most likely first; None when all may."""
    if sampling.top_k <= 0 and sampling.top_p >= 1 and sampling.min_p <= 0:
        return None
    order = np.argsort(-logprobs, kind="stable")
    if sampling.top_k > 0:
        order = order[: sampling.top_k]
    kept = np.exp(logprobs[order])
    if sampling.top_p < 1:
        mass = np.cumsum(kept / kept.sum())
        order = order[: int(np.searchsorted(mass, sampling.top_p)) + 1]
        kept = kept[: len(order)]
    if sampling.min_p > 0:
        order = order[kept >= sampling.min_p * kept[0]]
    return order


def _draw(weights: np.ndarray[Any, np.dtype[np.float64]], random: np.random.Generator) -> int:
    mass = np.cumsum(weights)
    return min(int(np.searchsorted(mass, random.random() * mass[-1], side="right")), len(weights) - 1)


def log_sum(values: np.ndarray[Any, Any]) -> float:
    """log Σ exp(values)."""
    top = values.max()
    return float(top) + float(np.log(np.exp(values - top).sum(dtype=np.float64)))
