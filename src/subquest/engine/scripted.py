"""The scripted engine: replies from a list or a function, for tests, demos and overhead measurements.

    ScriptedEngine(["<task>…</task>", "<answer>…</answer>"])      one queue, shared by all sessions, in calling order
    ScriptedEngine({"planner": […], "executor": […]})             one queue a role
    ScriptedEngine(lambda context: …)                             a function, sync or async, of the visible context

It behaves like a model in all that the rest of the package can see: stop strings cut a reply, `max_tokens` cuts it,
forks share a prefix, both modes work, and every segment has token ids and log-probs. A token is a word with the white
space before it; its id is a checksum of its text, so the same text has the same ids in every process.
"""

from __future__ import annotations

import asyncio
import functools
import re
import time
import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import ContextOverflow, DataError, EngineRefused, UsageError
from ..input_file import is_text, parse_json, read_text
from ..record import Segment, Usage
from .interface import FinishReason, Generation, Message, Mode, OnText, Sampling, cut_at_stop, estimate_tokens

VOCABULARY = 32_768
END_ID = 0
"""The end-of-turn token; words have ids from 1."""

_WORD = re.compile(r"\s*\S+|\s+")


@functools.lru_cache(maxsize=65_536)
def word_id(word: str) -> int:
    return 1 + zlib.crc32(word.encode()) % (VOCABULARY - 1)


def word_logprob(token_id: int) -> float:
    """A made-up log-probability between -1.0 and -0.1 that depends on the token alone."""
    return -0.1 * (1 + token_id % 10)


@dataclass(frozen=True, slots=True)
class Context:
    """What a scripted reply may depend on: exactly what a model in its place would have read."""

    messages: tuple[Message, ...]
    """In completion mode environment text is inside the last assistant message, where the model saw it."""
    role: str
    """The role the session was opened for, where the runtime said so (`ScriptedEngine.for_role`)."""
    turn: int
    """How many turns the model has written in this context."""

    @property
    def text(self) -> str:
        return "\n".join(m.content for m in self.messages)

    @property
    def last(self) -> str:
        """The newest message."""
        return self.messages[-1].content


Reply = str | Exception
"""An exception in a script is raised in place of a reply, as a failing engine would."""
ReplyFunction = Callable[[Context], Reply | Awaitable[Reply]]
Script = Sequence[Reply] | Mapping[str, Sequence[Reply]] | ReplyFunction


class ScriptedEngine:
    """An engine whose turns are written in advance.

    With a mapping, a session takes its role from `for_role`; one opened without takes the first key that occurs in
    the text of its opening messages.
    """

    prompt_set = "compact"
    """A script does not read its prompts."""

    def __init__(
        self,
        replies: Script,
        *,
        name: str = "scripted",
        latency: float = 0.0,
        context_window: int | None = None,
        token_ids: bool = True,
    ) -> None:
        """`latency` is slept before each reply; `token_ids=False` shows no ids, as most hosted endpoints."""
        self.name = name
        self.context_window = context_window
        self.latency = latency
        self.token_ids = token_ids
        self.calls = 0
        """Turns written so far, by all sessions."""
        self._function: ReplyFunction | None = None
        self._queues: dict[str, deque[Reply]] = {}
        if callable(replies):
            self._function = replies
        elif isinstance(replies, Mapping):
            self._queues = {role: deque(queue) for role, queue in replies.items()}
        elif isinstance(replies, str):
            raise UsageError("a script is a list of replies, not one string")
        else:
            self._queues = {"": deque(replies)}

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedEngine:
        """A script from JSON lines: each a string, or `{"reply": …}`, with a `"role"` on every line or on none."""
        queues: dict[str, list[Reply]] = {}
        for number, line in enumerate(read_text(path, "the script").split("\n"), 1):
            if not line.strip():
                continue
            entry = parse_json(line, f"{path}:{number}")
            if isinstance(entry, str):
                entry = {"reply": entry}
            if not isinstance(entry, dict) or not isinstance(entry.get("reply"), str):
                raise DataError(f'{path}:{number}: expected a string or {{"reply": "...", "role": "..."}}')
            if not is_text(entry["reply"]):
                raise DataError(f"{path}:{number}: the reply holds half of a surrogate pair, which is no text")
            queues.setdefault(str(entry.get("role", "")), []).append(entry["reply"])
        if "" in queues and len(queues) > 1:
            raise DataError(f"{path}: give every line a role, or none")
        return cls(queues, name=f"scripted:{path}")

    def for_role(self, role: str) -> ScriptedRole:
        """The engine as one role sees it."""
        return ScriptedRole(self, role)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat", role: str = "") -> ScriptedSession:
        if not messages:
            raise EngineRefused("a prompt needs a message")
        if not role and self._queues and "" not in self._queues:
            text = "\n".join(m.content for m in messages)
            role = next((r for r in self._queues if r in text), "")
        return ScriptedSession(self, list(messages), mode, role)

    def count_tokens(self, text: str) -> int:
        return len(_WORD.findall(text)) if self.token_ids else estimate_tokens(text)

    async def close(self) -> None:
        pass

    async def reply(self, context: Callable[[], Context], role: str) -> str:
        """The next reply; the context is built only for functions."""
        self.calls += 1
        if self.latency:
            await asyncio.sleep(self.latency)
        reply: Reply | Awaitable[Reply]
        if self._function is not None:
            reply = self._function(context())
            if not isinstance(reply, str | Exception):
                reply = await reply
        else:
            queue = self._queues.get(role, self._queues.get(""))
            if queue is None:
                raise EngineRefused(f"the script has no role {role!r}; it has {', '.join(self._queues)}")
            if not queue:
                raise EngineRefused(f"the script has no more replies{f' for {role}' if role else ''}")
            reply = queue.popleft()
        if isinstance(reply, Exception):
            raise reply
        return reply


class ScriptedRole:
    """A scripted engine bound to a role; everything else is the engine's."""

    def __init__(self, engine: ScriptedEngine, role: str) -> None:
        self.engine = engine
        self.role = role

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def context_window(self) -> int | None:
        return self.engine.context_window

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> ScriptedSession:
        return await self.engine.open(messages, mode=mode, role=self.role)

    def count_tokens(self, text: str) -> int:
        return self.engine.count_tokens(text)

    async def close(self) -> None:
        await self.engine.close()


class ScriptedSession:
    """A context of the scripted engine."""

    def __init__(self, engine: ScriptedEngine, messages: list[Message], mode: Mode, role: str) -> None:
        self._engine = engine
        self._messages = messages
        self._mode = mode
        self._role = role
        self._turn = 0
        self._tokens = 0
        self._read = 0
        self.on_text: OnText | None = None
        """Called with each word of a reply."""
        self._closed = False
        self._segments: list[Segment] = []
        for message in messages:
            self._add(Segment("prompt", message.content, self._ids(message.content), role=message.role))

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def context_tokens(self) -> int:
        return self._tokens

    async def generate(self, sampling: Sampling) -> Generation:
        self._must_be_open()
        if self._engine.context_window is not None and self._tokens >= self._engine.context_window:
            raise ContextOverflow(f"{self._tokens} tokens do not fit a window of {self._engine.context_window}")
        start = time.perf_counter()
        text = await self._engine.reply(self._context, self._role)
        text, finish, stop = cut_at_stop(text, sampling.stop)
        text, ids, finish = self._cut_at_length(text, finish, sampling.max_tokens)
        if finish == "length":
            stop = ""
        if self.on_text is not None:
            for word in _WORD.findall(text):
                self.on_text(word)
        logprobs = tuple(map(word_logprob, ids)) if sampling.logprobs and self._engine.token_ids else None
        prompt, cached = self._tokens, self._read
        self._add(Segment("agent", text, ids, logprobs, role="assistant"))
        self._say("assistant", text)
        self._turn += 1
        self._read = self._tokens
        usage = Usage(
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=self._tokens - prompt,
            peak_context=self._tokens,
            model_calls=1,
            seconds=round(time.perf_counter() - start, 6),
        )
        return Generation(text, finish, ids, logprobs, stop, usage)

    async def append(self, text: str) -> None:
        self._must_be_open()
        role = "user" if self._mode == "chat" else "assistant"
        self._add(Segment("env", text, self._ids(text), role=role))
        self._say("user" if self._mode == "chat" else "assistant", text)

    def fork(self) -> ScriptedSession:
        self._must_be_open()
        twin = ScriptedSession(self._engine, [], self._mode, self._role)
        twin._messages, twin._segments = self._messages.copy(), self._segments.copy()
        twin._turn, twin._tokens, twin._read = self._turn, self._tokens, self._read
        return twin

    async def close(self) -> None:
        self._closed = True

    def _context(self) -> Context:
        return Context(tuple(self._messages), self._role, self._turn)

    def _must_be_open(self) -> None:
        if self._closed:
            raise UsageError("the session is closed")

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(map(word_id, _WORD.findall(text))) if self._engine.token_ids else ()

    def _add(self, segment: Segment) -> None:
        self._segments.append(segment)
        self._tokens += len(segment.token_ids) if self._engine.token_ids else estimate_tokens(segment.text)

    def _say(self, role: str, text: str) -> None:
        last = self._messages[-1]
        if role == "assistant" and self._mode == "completion" and last.role == "assistant":
            self._messages[-1] = Message("assistant", last.content + text)
        else:
            self._messages.append(Message("user" if role == "user" else "assistant", text))

    def _cut_at_length(
        self, text: str, finish: FinishReason, max_tokens: int
    ) -> tuple[str, tuple[int, ...], FinishReason]:
        if not self._engine.token_ids:
            if estimate_tokens(text) > max_tokens:
                return text[: 4 * max_tokens], (), "length"
            return text, (), finish
        words = _WORD.findall(text)
        if len(words) > max_tokens:
            words, finish = words[:max_tokens], "length"
            text = "".join(words)
        ids = tuple(map(word_id, words))
        return text, (*ids, END_ID) if finish == "end" else ids, finish
