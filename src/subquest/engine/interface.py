"""The engine interface: a language model as sessions over growing contexts.

A session is one context. Open it with chat messages, let the model generate a turn, append text from the environment,
generate again:

    session = await engine.open([Message("system", ...), Message("user", ...)])
    turn = await session.generate(Sampling(stop=("</task>",)))
    await session.append("<result>...</result>")
    turn = await session.generate(Sampling())
    session.segments        # the whole context, exactly as the model saw and wrote it
    await session.close()

An engine can therefore keep a context's cache between turns, and forks of one session share their prefix. Nothing is
ever decoded, cut and re-encoded: ids are appended as they were sampled.

Two modes. In *chat* mode environment text arrives as the next user turn, and a turn ends with the model's end-of-turn
token (or a stop string, after which the engine ends the turn itself). In *completion* mode environment text continues
the assistant's own turn, for systems that insert results into ongoing reasoning; there stop strings end a turn.
A stop string that ended a turn is kept at the end of the turn's text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ..codec import Record
from ..protocol import in_thought
from ..record import Segment, Usage

Mode = Literal["chat", "completion"]
FinishReason = Literal["end", "stop", "length", "tool"]
"""end-of-turn token, stop string, token limit, native tool call."""


class Message(Record):
    role: Literal["system", "user", "assistant"]
    content: str
    shared: bool = False
    """The same for every question, as a role's instructions and examples are: an engine may keep what it read of it."""


class Sampling(Record):
    """Settings for sampling one turn."""

    max_tokens: int = 512
    temperature: float = 0.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 is off."""
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: bool = False
    """Ask for the log-probability of each sampled token."""


class ToolCall(Record):
    """A native tool call of an endpoint that has them."""

    id: str
    name: str
    arguments: str
    """JSON, as the model wrote it."""


class Generation(Record):
    """One turn that the model generated."""

    text: str
    """The text without the end-of-turn token, with the stop string that ended it."""
    finish: FinishReason
    token_ids: tuple[int, ...] = ()
    """Sampled ids including the end-of-turn token; empty if the backend does not return them."""
    logprobs: tuple[float, ...] | None = None
    stop: str = ""
    """The stop string that ended the turn."""
    usage: Usage = Usage()
    reasoning: str = ""
    """Reasoning that the endpoint returned separately; in completion mode it is part of the text, in `<think>`."""
    tool_calls: tuple[ToolCall, ...] = ()
    problems: tuple[str, ...] = ()
    """Problems with its tool calls, or with how the endpoint ended it."""
    cached: bool = False
    """Answered from the on-disk cache, without asking the model."""
    policy: int | None = None
    """Version of the weights that wrote it, counted by the trainer (`Segment.policy`)."""

    @property
    def cut_in_thought(self) -> bool:
        """Whether the token limit ended the turn inside its reasoning, before any action or answer."""
        return self.finish == "length" and (in_thought(self.text) or (bool(self.reasoning) and not self.text.strip()))


@runtime_checkable
class Session(Protocol):
    """One context of one engine. Two tasks must not use it at the same time."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The context so far, exactly as the model saw and wrote it."""
        ...

    @property
    def context_tokens(self) -> int:
        """Length of the context in tokens (estimated if the backend does not return ids)."""
        ...

    async def generate(self, sampling: Sampling) -> Generation:
        """Generate one turn and append it to the context."""
        ...

    async def append(self, text: str) -> None:
        """Append environment text: the next user turn in chat mode, a continuation in completion mode."""
        ...

    def fork(self) -> Session:
        """A second session with the same context; engines share the cache of the common prefix."""
        ...

    async def close(self) -> None:
        """Free the session's resources. Closing twice is harmless; `segments` stay readable."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A language model that opens sessions."""

    @property
    def name(self) -> str: ...

    @property
    def context_window(self) -> int | None:
        """Longest context in tokens, None if unknown."""
        ...

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> Session: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, estimated if the tokenizer is not available."""
        ...

    async def close(self) -> None:
        """Free the engine. Closing twice is harmless."""
        ...


@runtime_checkable
class RoleAware(Protocol):
    """An engine that behaves differently by role (scripts, tool schemas)."""

    def for_role(self, role: str) -> Engine:
        """The engine as one role of a system sees it."""
        ...


@runtime_checkable
class Choosing(Protocol):
    """An engine that tells how likely a reply begins with each of some words, without writing one.

    A judge that says yes or no is read off the logits after its prompt. That takes one pass over the prompts, which
    share their beginning, and no generation. Unlike the log-probability of the word that was written, the odds of the
    two words are exact even where the model would have written a third one.
    """

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        """For each prompt the log-probability of each word (of its first token) as the reply's first."""
        ...


def shared_prefix(prompts: Sequence[Sequence[int]]) -> int:
    """Tokens that all prompts begin with; at least one token of each is left over."""
    if len(prompts) < 2:
        return 0
    ordered = sorted(map(tuple, prompts))  # the first and the last then differ earliest
    first, last = ordered[0], ordered[-1]
    longest = min(map(len, prompts)) - 1
    return next((i for i in range(longest) if first[i] != last[i]), max(longest, 0))


@runtime_checkable
class HasAdapter(Protocol):
    """An engine that may have an adapter and can also run without it."""

    @property
    def has_adapter(self) -> bool:
        """Whether it runs with one now."""
        ...

    def without_adapter(self) -> Engine:
        """The engine with its base weights; itself if it has no adapter. It closes with this one."""
        ...


@runtime_checkable
class HasPromptSet(Protocol):
    """An engine whose model was trained on one of the sets of prompts (`runtime.prompts`)."""

    prompt_set: str


@runtime_checkable
class TakesTurns(Protocol):
    """A session that knows whether environment text becomes the next user turn, whatever its mode."""

    @property
    def in_turns(self) -> bool: ...


@runtime_checkable
class HidesReasoning(Protocol):
    """A session whose endpoint may hide reasoning and cannot always continue it where it was cut off."""

    @property
    def goes_on(self) -> bool:
        """Whether the next `generate` continues reasoning that was cut off; otherwise it repeats the whole turn."""
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed call to a model that will be retried."""

    where: str
    attempt: int
    """The attempt that failed, from 1."""
    wait: float
    """Seconds until the next."""
    reason: str


OnRetry = Callable[[Retry], None]
OnText = Callable[[str], None]


@runtime_checkable
class ReportsRetries(Protocol):
    """A session that reports its retries, so that the runtime can turn them into events."""

    on_retry: OnRetry | None


@runtime_checkable
class StreamsText(Protocol):
    """A session that passes on what the model writes while it writes it.

    The pieces are for people to watch: they may hold a thought that the turn does not, and lack a stop string. After a
    retry the turn begins again."""

    on_text: OnText | None


def estimate_tokens(text: str) -> int:
    """About four characters per token, for engines without a tokenizer."""
    return (len(text) + 3) // 4


def cut_at_stop(text: str, stops: Sequence[str]) -> tuple[str, FinishReason, str]:
    """The text up to and including the stop string that ends first, the finish reason, and that stop string."""
    found = [(at + len(stop), -len(stop), stop) for stop in stops if stop and (at := text.find(stop)) >= 0]
    if not found:
        return text, "end", ""
    end, _, stop = min(found)
    return text[:end], "stop", stop


def repeats_itself(text: str | bytes) -> bool:
    """Whether a text ends in a loop: its last 200 characters stand in it four times or more."""
    end = text[-200:]
    return len(end) == 200 and text.count(end) > 3  # type: ignore[arg-type]


LOOPS_EVERY = 16
"""Tokens after which a greedy turn is searched for a loop."""
LOOP = 1400
"""Characters in which a loop shows: four times the last 200, at most 400 from one to the next."""


def loops(text: str | bytes) -> bool:
    """Whether a text says the same again and again, in a row: a greedy turn then goes on like that until its limit."""
    end = text[-LOOP:]
    return repeats_itself(end) and end.rfind(end[-200:], 0, -1) >= len(end) - 600  # type: ignore[arg-type]
