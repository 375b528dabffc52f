"""A turn: what the model wrote, how sure it was, and why it was cut."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass

from ..engine import Generation
from ..protocol import Parsed


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model wrote in one turn."""

    text: str
    parsed: Parsed
    generation: Generation


def explain_cut(text: str) -> str:
    """What to change if a turn was cut by its length. Text that compresses twentyfold repeats itself."""
    data = text.encode("utf-8", "replace")
    if len(data) > 20 * len(zlib.compress(data, 1)):
        return "the turn was cut while it repeated itself: raise `temperature`"
    return "the turn was cut: raise `max_tokens`"


def confidence(turn: Turn | None) -> float | None:
    """Geometric mean probability of the tokens of a turn, if the engine gives log-probs."""
    logprobs = turn.generation.logprobs if turn else None
    return round(math.exp(sum(logprobs) / len(logprobs)), 4) if logprobs else None
