"""Contexts at an OpenAI-compatible endpoint.

    ChatSession   the context is a list of messages; the server applies the model's chat template
    ToolSession   the same with native tool calls (`tool_calls.py`)
    TextSession   the context is one text or one list of token ids; we apply the template (`text_session.py`)

Segments carry token ids only while they are exactly what the model saw: in a ChatSession that is as long as the prompt
ids the server reports begin with all ids recorded so far. A template that drops or re-tokenises earlier turns breaks
that, and the whole context then goes without ids rather than with wrong ones.
"""

from __future__ import annotations

import abc
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from ...errors import UsageError
from ...protocol import in_thought
from ...record import Segment
from ..actions import Action
from ..interface import Generation, Message, Mode, OnRetry, OnText, Sampling, estimate_tokens
from .failures import is_empty
from .reply import Reply, cut_in_thought

log = logging.getLogger("subquest.engine")

GO_ON = "Continue."
"""The user's turn after the model's own, for endpoints that cannot continue a message."""


class Completer(Protocol):
    """What a session needs of its engine (`OpenAIEngine`)."""

    on_retry: OnRetry | None
    on_text: OnText | None
    actions: tuple[Action, ...]

    @property
    def name(self) -> str: ...

    @property
    def continuation(self) -> str: ...

    @property
    def continues_messages(self) -> bool:
        """Whether the server is known to continue an unfinished assistant message."""
        ...

    @property
    def prefill_parameters(self) -> dict[str, Any]:
        """Parameters that tell the server to continue an unfinished assistant message."""
        ...

    @property
    def system_role(self) -> bool:
        """Whether the model has a system role; otherwise instructions stand in the first user message."""
        ...

    @property
    def empty_turns(self) -> bool:
        """Whether the endpoint accepts contexts with a turn in which the model said nothing."""
        ...

    @property
    def wants_reasoning(self) -> bool:
        """Whether the endpoint wants to have the reasoning of earlier turns back."""
        ...

    async def complete(self, session: OpenAISession, sampling: Sampling) -> tuple[Generation, Reply]:
        """One turn for a session."""
        ...


class OpenAISession(abc.ABC):
    """What both kinds of session share: segments, counts, the order of calls."""

    path: str

    def __init__(self, engine: Completer, mode: Mode) -> None:
        self.on_retry: OnRetry | None = engine.on_retry
        """Called before each retry; set it to distinguish the retries of different contexts."""
        self.on_text: OnText | None = engine.on_text
        """Called with what the model writes while it writes it; the endpoint is then asked to stream."""
        self._engine = engine
        self._mode = mode
        self._segments: list[Segment] = []
        self._tokens = 0
        self._closed = False

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def context_tokens(self) -> int:
        return self._tokens

    async def generate(self, sampling: Sampling) -> Generation:
        self._must_be_open()
        turn, reply = await self._engine.complete(self, sampling)
        self._record(turn, reply)
        self._take(turn)
        self._tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens
        return turn

    def resume(self, turn: Generation, segments: Sequence[Segment]) -> None:
        """Continue as if the model had just written `turn`; `segments` is the context including it."""
        self._segments = list(segments)
        self._take(turn)
        self._tokens = turn.usage.prompt_tokens + turn.usage.completion_tokens

    @abc.abstractmethod
    async def append(self, text: str) -> None: ...

    @abc.abstractmethod
    def fork(self) -> OpenAISession: ...

    async def close(self) -> None:
        self._closed = True

    @abc.abstractmethod
    def body(self, sampling: Sampling) -> dict[str, Any]:
        """The part of the request that holds the context."""

    @property
    def prefill(self) -> str:
        """The unfinished assistant message that the next request ends in; llama.cpp repeats it in its answer."""
        return ""

    @property
    def goes_on(self) -> bool:
        """Whether the next `generate` continues a thought that was cut off."""
        return True

    def read(self, reply: Reply, stops: Sequence[str]) -> Reply:
        """The reply as it enters this context, if the endpoint returned reasoning separately from the text."""
        return reply

    def render(self, reply: Reply, text: str) -> str:
        """The turn's text, given what the endpoint answered."""
        return text

    def problems(self, reply: Reply) -> tuple[str, ...]:
        """What is wrong with the tool calls of an answer."""
        return ()

    def go_on_in_turns(self) -> bool:
        """Switch to turns after the endpoint refused to continue a message; False if none was being continued."""
        return False

    @abc.abstractmethod
    def _take(self, turn: Generation) -> None:
        """Make the turn part of what is sent next time."""

    @abc.abstractmethod
    def _record(self, turn: Generation, reply: Reply) -> None: ...

    def _must_be_open(self) -> None:
        if self._closed:
            raise UsageError("the session is closed")

    def _copy_to(self, twin: OpenAISession) -> None:
        twin.on_retry, twin.on_text = self.on_retry, self.on_text
        twin._segments = self._segments.copy()
        twin._tokens = self._tokens


class ChatSession(OpenAISession):
    """Messages to `/chat/completions`."""

    path = "/chat/completions"
    thoughts_go_on = True
    """Whether a thought can be continued from its own text."""

    def __init__(self, engine: Completer, messages: Sequence[Message], mode: Mode) -> None:
        super().__init__(engine, mode)
        self._messages: list[dict[str, Any]] = []
        for message in messages:
            self._messages.append({"role": message.role, "content": message.content})
            self._segments.append(Segment("prompt", message.content, role=message.role))
            self._tokens += estimate_tokens(message.content)
        self._opening = tuple(self._messages)
        self._read = 0
        """Segments whose token ids are known."""
        self._exact = True
        self._continues = mode == "completion" and engine.continuation != "turns"
        self._cut: Generation | None = None
        """The turn that was cut off inside its thought, to be continued or requested again. Where messages are
        continued: only one whose thought is not shown, so that there is nothing to continue."""
        self._refused = False
        """The endpoint refused to continue it."""

    @property
    def in_turns(self) -> bool:
        """Whether environment text is a turn of its own, instead of continuing the model's message."""
        return not self._continues

    @property
    def goes_on(self) -> bool:
        if self._continues and self.thoughts_go_on:
            return self._cut is None
        return self.thoughts_go_on and self._engine.continues_messages and not self._refused

    def body(self, sampling: Sampling) -> dict[str, Any]:
        messages = self._sent
        if self._cut is not None and self.goes_on:
            messages = [*messages, {"role": "assistant", "content": self.prefill}]
        if not self._engine.empty_turns:
            messages = _merged([m for m in messages if not is_empty(m)], "\n\n")
        if not self._engine.system_role:
            messages = _without_system(messages)
        body: dict[str, Any] = {"messages": [self._with_reasoning(m) for m in messages]}
        if messages[-1]["role"] == "assistant":
            body |= self._engine.prefill_parameters
        return body

    def _with_reasoning(self, message: dict[str, Any]) -> dict[str, Any]:
        """The message with its reasoning if the endpoint wants it back, and else without."""
        if self._engine.wants_reasoning and message["role"] == "assistant":
            return {"reasoning_content": "", **message}
        return {key: value for key, value in message.items() if key != "reasoning_content"}

    @property
    def prefill(self) -> str:
        if self._cut is not None and self.goes_on:
            return self._cut.text or f"<think>\n{self._cut.reasoning}"
        last = self._sent[-1]
        return str(last["content"] or "") if last["role"] == "assistant" else ""

    @property
    def _sent(self) -> list[dict[str, Any]]:
        """The messages as they are sent: where the endpoint continues a message, what follows the opening is one.

        Tool calls and their results stay messages of their own.
        """
        if not self._continues:
            return self._messages
        sent = list(self._opening)
        for message in self._messages[len(sent) :]:
            if message["role"] == "tool":
                sent.append(message)
                continue
            begun = sent.pop()["content"] if sent[-1]["role"] == "assistant" and "tool_calls" not in sent[-1] else ""
            text = begun + (message["content"] or "")
            sent.append({**message, "role": "assistant", "content": text or message["content"]})
        return sent

    def read(self, reply: Reply, stops: Sequence[str]) -> Reply:
        """In completion mode reasoning becomes part of the text, which continues; in chat mode it stays separate."""
        if self._mode == "chat":
            return cut_in_thought(self._separated(reply), stops)
        if not reply.reasoning:
            return reply
        opening = "" if in_thought(self.prefill) else "<think>\n"
        rest = f"\n</think>\n\n{reply.text}" if reply.text else ""
        return replace(reply, text=f"{opening}{reply.reasoning}{rest}", reasoning="")

    def _separated(self, reply: Reply) -> Reply:
        """A server that does not know that it continues hidden reasoning returns the rest of it as text."""
        if self._cut is None or self._cut.text or reply.reasoning or not self.goes_on:
            return reply
        thought, end, text = reply.text.partition("</think>")
        if not end and reply.finish != "length":
            return reply
        return replace(reply, reasoning=thought, text=text.lstrip())

    async def append(self, text: str) -> None:
        self._must_be_open()
        self._tokens += estimate_tokens(text)
        if self._cut is not None:
            self._messages.append(self._message(self._cut))
            self._cut = None
        self._segments.append(Segment("env", text, role="user" if self.in_turns else "assistant"))
        self._messages += self._environment(text)

    def fork(self) -> ChatSession:
        self._must_be_open()
        twin = type(self)(self._engine, (), self._mode)
        self._copy_to(twin)
        twin._opening, twin._continues = self._opening, self._continues
        twin._messages = self._messages.copy()
        twin._read, twin._exact, twin._cut, twin._refused = self._read, self._exact, self._cut, self._refused
        return twin

    def resume(self, turn: Generation, segments: Sequence[Segment]) -> None:
        super().resume(turn, segments)
        self._read = len(self._segments)
        self._exact = all(s.token_ids or not s.text for s in segments)

    def go_on_in_turns(self) -> bool:
        if not self._continues:
            refused = self._cut is not None and self.goes_on
            self._refused |= refused
            return refused
        self._continues = False
        self._segments = [replace(s, role="user") if s.kind == "env" else s for s in self._segments]
        self._messages = [*self._opening[:-1], *_merged(self._messages[len(self._opening) - 1 :])]
        self.ask_to_go_on()
        return True

    def ask_to_go_on(self) -> None:
        """Add a user turn to a context that ends with the model's own text."""
        if self._messages[-1]["role"] == "assistant":
            self._segments.append(Segment("env", GO_ON, role="user"))
            self._messages.append({"role": "user", "content": GO_ON})

    def _environment(self, text: str) -> list[dict[str, Any]]:
        return [{"role": "user", "content": text}]

    def _take(self, turn: Generation) -> None:
        if self._continues and self.thoughts_go_on:
            shown = bool(turn.text.strip()) or turn.finish != "length" or self._engine.continues_messages
            self._cut = None if shown else turn
            self._messages += [self._message(turn)] if shown else []
            return
        if self._cut is not None and self.goes_on:
            turn = replace(turn, text=self._cut.text + turn.text, reasoning=self._cut.reasoning + turn.reasoning)
        nothing = turn.finish == "length" and not turn.text.strip() and not self.goes_on
        self._cut = turn if turn.cut_in_thought or nothing else None
        if self._cut is None:
            self._messages.append(self._message(turn))

    def _message(self, turn: Generation) -> dict[str, Any]:
        return self._assistant(turn) | ({"reasoning_content": turn.reasoning} if turn.reasoning else {})

    def _assistant(self, turn: Generation) -> dict[str, Any]:
        return {"role": "assistant", "content": turn.text}

    def _record(self, turn: Generation, reply: Reply) -> None:
        if self._cut is not None and not self.goes_on:  # requested again: the model has not seen it
            self._segments.pop()
            self._read = len(self._segments)
        known = [i for s in self._segments[: self._read] for i in s.token_ids]
        fresh = self._segments[self._read :]
        agent = Segment("agent", turn.text, role="assistant")
        shown = bool(turn.token_ids and reply.prompt_ids)
        if self._exact and shown and list(reply.prompt_ids[: len(known)]) == known:
            if fresh:
                merged = replace(
                    fresh[0], text="\n\n".join(s.text for s in fresh) if not known else "".join(s.text for s in fresh)
                )
                if len(fresh) > 1:
                    merged = replace(merged, role="")
                fresh = [replace(merged, token_ids=reply.prompt_ids[len(known) :])]
            agent = replace(agent, token_ids=turn.token_ids, logprobs=turn.logprobs)
            self._segments = [*self._segments[: self._read], *fresh, agent]
        else:
            if self._exact and known:
                log.warning(
                    "%s: the chat template rewrites earlier turns; recording without token ids", self._engine.name
                )
            self._exact = False
            self._segments = [replace(s, token_ids=(), logprobs=None) for s in self._segments] + [agent]
        self._read = len(self._segments)


def _without_system(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with the instructions at the head of the first user message."""
    instructions = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    rest = [m for m in messages if m["role"] != "system"]
    if not rest or rest[0]["role"] != "user":
        return [{"role": "user", "content": instructions}, *rest]
    return [{**rest[0], "content": f"{instructions}\n\n{rest[0]['content']}"}, *rest[1:]]


def _merged(messages: Sequence[dict[str, Any]], between: str = "") -> list[dict[str, Any]]:
    """Merge neighbouring messages of the same role, which some chat templates refuse."""
    merged: list[dict[str, Any]] = []
    for message in messages:
        if merged and merged[-1]["role"] == message["role"] != "tool" and not merged[-1].get("tool_calls"):
            message = {**message, "content": f"{merged.pop()['content']}{between}{message['content']}"}
        merged.append(message)
    return merged
