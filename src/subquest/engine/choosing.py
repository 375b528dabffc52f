"""Choosing: how likely a model's reply begins with each of some words, without letting it write.

A judge that says yes or no is read off the logits after its prompt. That takes one pass over the prompts, which share
their beginning, and no generation; and unlike the log-probability of the word that was written, the odds of the two
words are exact even where the model would have written a third.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from .interface import Message


@runtime_checkable
class Choosing(Protocol):
    """An engine that shows its logits."""

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        """For each prompt the log-probability of each word (of its first token) as the reply's first."""
        ...


def shared_beginning(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; at least one token of each is left over."""
    if len(prompts) < 2:
        return 0
    ordered = sorted(map(tuple, prompts))  # the first and the last then differ earliest
    first, last = ordered[0], ordered[-1]
    longest = min(map(len, prompts)) - 1
    return next((i for i in range(longest) if first[i] != last[i]), max(longest, 0))
