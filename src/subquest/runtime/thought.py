"""Turns of reasoning models whose thinking takes more than one call."""

from __future__ import annotations

from dataclasses import replace

from ..engine import Generation
from ..engine.interface import repeats_itself

HIDDEN_THOUGHT = 32_768
"""Tokens requested once when an endpoint spent a whole turn on hidden thinking and cannot continue it."""
LEAST_THOUGHT = 16
"""Fewest tokens worth another call."""


def join_turns(first: Generation, second: Generation) -> Generation:
    """A turn that was written in two calls, as one."""
    logprobs = None
    if first.logprobs is not None and second.logprobs is not None:
        logprobs = first.logprobs + second.logprobs
    return replace(
        replace_turn(first, second),
        text=first.text + second.text,
        reasoning=first.reasoning + second.reasoning,
        token_ids=first.token_ids + second.token_ids,
        logprobs=logprobs,
    )


def replace_turn(first: Generation, second: Generation) -> Generation:
    """A turn that was requested a second time; the cost of the first attempt counts."""
    return replace(
        second,
        usage=first.usage + second.usage,
        cached=first.cached and second.cached,
        problems=first.problems + second.problems,
    )


def explain_unfinished(turn: Generation, max_tokens: int, thought: int, *, hidden: bool) -> str:
    """What to change if a turn did not finish thinking."""
    tokens = turn.usage.completion_tokens
    if repeats_itself(turn.reasoning):
        return f"the turn's thought repeated itself and was ended after {tokens:,} tokens: raise --temperature"
    if hidden:
        spent = f"all {tokens:,} tokens of the turn were hidden thought, or a call that was cut"
        return f"{spent}: allow more by --max-tokens (now {max_tokens:,})"
    limits = f"--max-thought (now {thought:,}) and --max-tokens (now {max_tokens:,})"
    return f"the turn's thought was cut at {tokens:,} tokens: allow more by {limits}, or a larger context window"
