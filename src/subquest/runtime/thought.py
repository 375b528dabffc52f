"""Turns of reasoning models whose thought took more than one call."""

from __future__ import annotations

from dataclasses import replace

from ..engine import Generation

HIDDEN_THOUGHT = 32_768
"""Tokens that are asked for once where an endpoint spent a whole turn on thought and cannot take it up again."""
LEAST_THOUGHT = 16
"""Fewest tokens worth a further call for a thought."""


def joined(first: Generation, second: Generation) -> Generation:
    """A turn that was written in two calls."""
    logprobs = None
    if first.logprobs is not None and second.logprobs is not None:
        logprobs = first.logprobs + second.logprobs
    return replace(
        again(first, second),
        text=first.text + second.text,
        reasoning=first.reasoning + second.reasoning,
        token_ids=first.token_ids + second.token_ids,
        logprobs=logprobs,
    )


def again(first: Generation, second: Generation) -> Generation:
    """A turn that was asked for a second time; what the first attempt cost counts."""
    return replace(
        second,
        usage=first.usage + second.usage,
        cached=first.cached and second.cached,
        problems=first.problems + second.problems,
    )


def unfinished(turn: Generation, max_tokens: int, thought: int, *, hidden: bool) -> str:
    """What to change where a turn did not come to the end of its thought."""
    tokens = turn.usage.completion_tokens
    if hidden:
        return f"all {tokens:,} tokens of the turn were hidden thought: allow more by --max-tokens (now {max_tokens:,})"
    limits = f"--max-thought (now {thought:,}) and --max-tokens (now {max_tokens:,})"
    return f"the turn's thought was cut at {tokens:,} tokens: allow more by {limits}, or a larger context window"
