"""A micro-batch of random tokens, as one update sees it."""

from __future__ import annotations

import torch

from subquest.train.batch import Batch
from subquest.train.loss import Layout


def micro_batch(tokens: int, vocabulary: int, *, longest: int, written: int) -> Batch:
    """Trajectories end to end, each of at most `longest` tokens, of which the policy wrote the last 1/`written`."""
    lengths = [longest] * (tokens // longest) + ([tokens % longest] if tokens % longest > 1 else [])
    rows, of, start = [], [], 0
    for number, length in enumerate(lengths):
        own = max(1, length // written)
        rows.append(torch.arange(start + length - 1 - own, start + length - 1))
        of.append(torch.full((own,), number))
        start += length
    trajectory = torch.cat(of)
    layout = Layout(trajectory, trajectory, torch.zeros_like(trajectory))
    chance = torch.Generator().manual_seed(0)
    return Batch(
        torch.randint(0, vocabulary, (start,), generator=chance), torch.tensor(lengths), torch.cat(rows), layout,
        torch.randn(trajectory.numel(), generator=chance), None, layout.weights("token-mean"), ("agent",),
    )  # fmt: skip
