"""Limits: how much an episode and each of its roles may spend.

Budgets form a tree. What a role spends counts for it and for all of its ancestors; a role may continue only while none
of them is exhausted. Turns are the exception: each role has its own, because a planner's six turns and an executor's
six turns are separate limits (CoDA).
"""

from __future__ import annotations

import re
import time

from msgspec.structs import astuple

from .codec import Count, NonNegative, Positive, Record
from .english import counted
from .record import Usage


class Limits(Record):
    """None means no limit."""

    turns: Positive | None = None
    """Model turns in one context."""
    tokens: Positive | None = None
    """Tokens read (without cached ones) and written."""
    calls: Positive | None = None
    """Model calls."""
    seconds: NonNegative | None = None
    cost: NonNegative | None = None
    thought: Count | None = None
    """Tokens that one turn may use if its thought is cut off by the turn's token limit and continued; None for the
    system's default."""

    def tightened(self, other: Limits) -> Limits:
        """The stricter of both, limit by limit."""
        if self == _NONE:
            return other
        pairs = zip(astuple(self), astuple(other), strict=True)
        return Limits(*(min((v for v in pair if v is not None), default=None) for pair in pairs))


_NONE = Limits()
_WORD = re.compile(r"\w+")


class Budget:
    """What has been spent under some limits."""

    def __init__(self, name: str, limits: Limits, parent: Budget | None = None) -> None:
        self.name = name
        self.limits = limits
        self.parent = parent
        self.turns = 0
        self.tokens = 0
        self.calls = 0
        self.cost = 0.0
        self._start = time.monotonic()
        self._timed: bool = limits.seconds is not None or (parent is not None and parent._timed)

    def child(self, name: str, limits: Limits) -> Budget:
        return Budget(name, limits, self)

    def spend(self, usage: Usage, *, turns: int = 1) -> None:
        """Count one finished model turn here and above; for calls that are not a turn of the role, `turns` is 0."""
        self.turns += turns
        node: Budget | None = self
        while node is not None:
            node.tokens += usage.prompt_tokens - usage.cached_tokens + usage.completion_tokens
            node.calls += usage.model_calls
            node.cost += usage.cost
            node = node.parent

    def exhausted(self, *, turns: bool = True) -> str | None:
        """What has run out, here or above, in words; None if nothing has. Only this role's own turns count."""
        if turns and self.limits.turns is not None and self.turns >= self.limits.turns:
            return f"{counted(self.limits.turns, 'turn')} of {self.name}"
        node: Budget | None = self
        while node is not None:
            limits = node.limits
            if limits.calls is not None and node.calls >= limits.calls:
                return f"{counted(limits.calls, 'model call')} of {node.name}"
            if limits.tokens is not None and node.tokens >= limits.tokens:
                return f"{limits.tokens} tokens of {node.name}"
            if limits.cost is not None and node.cost >= limits.cost:
                return f"cost of {limits.cost:g} of {node.name}"
            if limits.seconds is not None and time.monotonic() - node._start >= limits.seconds:
                return f"{limits.seconds:g} seconds of {node.name}"
            node = node.parent
        return None

    def seconds_left(self) -> float | None:
        """Seconds until the nearest time limit here or above; None if there is none."""
        if not self._timed:
            return None
        left: list[float] = []
        node: Budget | None = self
        while node is not None:
            if node.limits.seconds is not None:
                left.append(node.limits.seconds - (time.monotonic() - node._start))
            node = node.parent
        return min(left)


class Repeats:
    """Counts how often a task or query is repeated, ignoring case, spacing and punctuation."""

    def __init__(self, allowed: int = 1) -> None:
        self.allowed = allowed
        """What comes up more often is not carried out again."""
        self.refused = 0
        """How often in a row that was so."""
        self._counts: dict[str, int] = {}

    def count(self, text: str) -> int:
        """How often this text has occurred, including this time."""
        key = _words(text)
        self._counts[key] = self._counts.get(key, 0) + 1
        return self._counts[key]

    def forget(self, *texts: str) -> None:
        """Do not count these, because they brought nothing or it is gone; all if none is named."""
        for key in map(_words, texts) if texts else list(self._counts):
            self._counts.pop(key, None)


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold())) or text
