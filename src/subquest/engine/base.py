"""The engine protocol: a language model as sessions over growing contexts.

A session is one context. Open it with chat messages, let the model write a turn, append what the environment says,
let the model write again:

    session = await engine.open([Message("system", ...), Message("user", ...)])
    turn = await session.generate(Sampling(stop=("</task>",)))
    await session.append("<result>...</result>")
    turn = await session.generate(Sampling())
    session.segments        # the whole context, exactly as the model saw and wrote it
    await session.close()

so that an engine can keep a context's cache between turns, and forks of one session share their prefix. Nothing is
ever decoded, cut and re-encoded: ids are appended as they were sampled.

Two modes. In *chat* mode environment text arrives as the next user turn, and a turn ends with the model's end-of-turn
token (or a stop string, after which the engine ends the turn itself). In *completion* mode environment text continues
the assistant's own turn, as systems need that insert results into ongoing reasoning; there the stop strings end a turn.
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


@dataclass(frozen=True, slots=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Sampling:
    """How one turn is sampled."""

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
    """One turn the model wrote."""

    text: str
    """What it wrote, without the end-of-turn token, with the stop string that ended it."""
    finish: FinishReason
    token_ids: tuple[int, ...] = ()
    """Sampled ids, the end-of-turn token included; empty where the backend does not show them."""
    logprobs: tuple[float, ...] | None = None
    stop: str = ""
    """The stop string that ended the turn."""
    usage: Usage = Usage()
    reasoning: str = ""
    """Reasoning that the endpoint returned apart; in completion mode it stands in the text, in `<think>`."""
    tool_calls: tuple[ToolCall, ...] = ()
    problems: tuple[str, ...] = ()
    """What was wrong with its tool calls, or with how the endpoint ended it."""
    cached: bool = False
    """Answered from the on-disk cache, without asking the model."""

    @property
    def cut_in_thought(self) -> bool:
        """Whether the token limit ended the turn inside a thought: what stands in it is no action and no answer yet."""
        return self.finish == "length" and (in_thought(self.text) or (bool(self.reasoning) and not self.text.strip()))


@runtime_checkable
class Session(Protocol):
    """One context of one engine. Not to be used by two tasks at once."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The context so far, exactly as the model saw and wrote it."""
        ...

    @property
    def context_tokens(self) -> int:
        """Length of the context in tokens (estimated where the backend does not show ids)."""
        ...

    async def generate(self, sampling: Sampling) -> Generation:
        """Let the model write one turn and append it to the context."""
        ...

    async def append(self, text: str) -> None:
        """Append environment text: the next user turn in chat mode, a continuation in completion mode."""
        ...

    def fork(self) -> Session:
        """A second session with the same context; engines share the common prefix's cache."""
        ...

    async def close(self) -> None:
        """Free what the session holds. Closing twice is harmless; a closed session's `segments` stay readable."""
        ...


@runtime_checkable
class Engine(Protocol):
    """A language model that opens sessions."""

    @property
    def name(self) -> str: ...

    @property
    def context_window(self) -> int | None:
        """Longest context in tokens, None where it is not known."""
        ...

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> Session: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, estimated where the tokenizer is not at hand."""
        ...

    async def close(self) -> None:
        """Free the engine. Closing twice is harmless."""
        ...


@runtime_checkable
class RoleAware(Protocol):
    """An engine that wants to know which role it plays (scripts by role, tool schemas by role)."""

    def for_role(self, role: str) -> Engine:
        """The engine as one role of a system sees it."""
        ...


@runtime_checkable
class Adapted(Protocol):
    """An engine whose weights may carry an adapter, and that can also run as it was before."""

    def without_adapter(self) -> Engine:
        """The engine with its base weights; itself where it has no adapter. It closes with this one."""
        ...


@runtime_checkable
class Prompted(Protocol):
    """An engine whose model was trained on one of the sets of prompts (`systems.prompting`)."""

    prompt_set: str


@runtime_checkable
class InTurns(Protocol):
    """A session that says whether environment text comes as the next user turn, whatever mode it was opened in."""

    @property
    def in_turns(self) -> bool: ...


@runtime_checkable
class Hiding(Protocol):
    """A session whose endpoint may hide a model's thought, and cannot always take it up again where it was cut."""

    @property
    def goes_on(self) -> bool:
        """Whether the next `generate` takes up a thought that was cut; otherwise it asks for the whole turn again."""
        ...


@dataclass(frozen=True, slots=True)
class Retry:
    """A failed call to a model that will be tried again."""

    where: str
    attempt: int
    """The attempt that failed, from 1."""
    wait: float
    """Seconds until the next."""
    reason: str


OnRetry = Callable[[Retry], None]


@runtime_checkable
class Retrying(Protocol):
    """A session that tells of its retries, so that the runtime can turn them into events."""

    on_retry: OnRetry | None


def estimate_tokens(text: str) -> int:
    """About four characters a token: for engines whose tokenizer is not at hand."""
    return (len(text) + 3) // 4
