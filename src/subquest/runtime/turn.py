"""A turn: what the model wrote, how sure it was, and why it was cut."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..engine import Generation
from ..engine.interface import repeats_itself
from ..events import EventLog
from ..protocol import Parsed


@dataclass(frozen=True, slots=True)
class Turn:
    """What the model wrote in one turn."""

    text: str
    parsed: Parsed
    generation: Generation


def explain_cut(text: str) -> str:
    """What to change if a turn was cut by its length."""
    if repeats_itself(text):
        return "the turn was cut while it repeated itself: raise `temperature`"
    return "the turn was cut: raise `max_tokens`"


def gave_up(log: EventLog, context: str, *, again: bool, last: bool) -> str:
    """Why the model does not answer a context: the reason of the last retry. Empty if a forced turn may help: where it
    was asked again within the time limit, has answered before (`again`), or failed only once; the `last` turn does not.
    """
    events = (e for e in reversed(log.events) if e.trajectory == context)
    retry = next((e for e in events if e.kind in ("retry", "turn")), None)
    if retry is None or retry.kind == "turn" or not retry.data["wait"]:  # a changed request is sent at once
        return ""
    asked_again = log.seconds >= retry.time + retry.data["wait"]
    if not last and (asked_again or again or retry.data["attempt"] < 2):
        return ""
    return str(retry.data["message"])


def confidence(turn: Turn | None) -> float | None:
    """Geometric mean probability of the tokens of a turn, if the engine gives log-probs."""
    logprobs = turn.generation.logprobs if turn else None
    return round(math.exp(sum(logprobs) / len(logprobs)), 4) if logprobs else None
