"""Native tool calling for systems that act by tags.

A system's actions are a small table. Endpoints get them as functions; when the model calls one, the call is written
into the turn's text as the tag the system would have parsed anyway, and environment text goes back as the call's tool
message:

    call    search({"query": "capital of Peru"})
    text    <search>capital of Peru</search>

Systems, limits and records therefore do not change. A model that writes the tags itself is understood as well, and goes
on as it would without tools: in completion mode, what comes back continues its message. A call that the server hands
through as text (`protocol.text_calls`) is a call. `engine.actions` describes how a system passes its table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...protocol import parse
from ...protocol.text_calls import find_calls
from ..actions import Action
from ..interface import Generation, Message, Mode, Sampling, ToolCall
from .reply import Reply
from .session import ChatSession, Completer

WITH_THE_FIRST = (
    "What came back stands with the first call. A call whose result is not there was not carried out: "
    "if it is still needed, make it again, one call at a time."
)
CALL_ONE = "To go on, call one of the functions: {}."


class _Read(NamedTuple):
    """A call as it was understood."""

    action: Action
    argument: str
    problem: str
    """What is wrong with it."""
    useless: bool
    """Whether nothing can be done with it."""


class ToolSession(ChatSession):
    """A chat whose turns may be tool calls. Environment text after a call is the call's result, in either mode."""

    thoughts_go_on = False

    def __init__(self, engine: Completer, messages: Sequence[Message], mode: Mode) -> None:
        super().__init__(engine, messages, mode)
        self.read_from_text = False
        """The newest turn's calls were in its text: the server had not recognised them."""
        self._useless: dict[str, str] = {}
        """Problems of unusable calls in the newest turn, by call id."""

    def fork(self) -> ToolSession:
        twin = super().fork()
        assert isinstance(twin, ToolSession)
        twin._useless = self._useless
        return twin

    async def append(self, text: str) -> None:
        """Reminders speak of tags: after its calls, a model whose turn holds none is also told its functions."""
        last, names = self._messages[-1], (action.name for action in self._engine.actions)
        silent = last["role"] == "assistant" and "tool_calls" not in last
        if silent and self.in_turns and any("tool_calls" in message for message in self._messages):
            text = f"{text.rstrip()}\n{CALL_ONE.format(', '.join(names))}"
        await super().append(text)

    def body(self, sampling: Sampling) -> dict[str, Any]:
        return super().body(sampling) | {"tools": [a.declaration() for a in self._engine.actions]}

    @property
    def in_turns(self) -> bool:
        last = self._messages[-1]
        return super().in_turns or "tool_calls" in last or last["role"] == "tool"

    def read(self, reply: Reply, stops: Sequence[str]) -> Reply:
        """Reasoning stays separate: calls come in their own field, and results answer them."""
        self.read_from_text = False
        if not reply.tool_calls:
            text, calls = find_calls(reply.text, {a.name for a in self._engine.actions}, cut=reply.finish == "length")
            self.read_from_text = bool(calls)
            reply = replace(reply, text=text, tool_calls=tuple(ToolCall("", *call) for call in calls))
        elif reply.finish == "length" and not _is_object(reply.tool_calls[-1].arguments):  # its argument is not whole
            reply = replace(reply, tool_calls=reply.tool_calls[:-1])
        return replace(reply, tool_calls=self._identified(reply.tool_calls))

    def _identified(self, calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
        """The calls with an id each: where the server gives none, or one that is taken, nine letters and digits, the
        only form that Mistral's templates accept."""
        used = {call["id"] for message in self._messages for call in message.get("tool_calls", ())}
        identified = []
        for call in calls:
            name = call.id if call.id and call.id not in used else f"call{len(used):05}"
            used.add(name)
            identified.append(ToolCall(name, call.name, call.arguments))
        return tuple(identified)

    def render(self, reply: Reply, text: str) -> str:
        tags = self._tags(reply.tool_calls)
        return f"{text}\n{tags}" if text and tags else text + tags

    def problems(self, reply: Reply) -> tuple[str, ...]:
        return tuple(problem for call in reply.tool_calls if (problem := self._understood(call).problem))

    def _understood(self, call: ToolCall) -> _Read:
        known = {a.name: a for a in self._engine.actions}
        action = known.get(call.name)
        if action is None:
            action = Action(call.name, "")
            problem = f"there is no function {call.name!r}; there are {', '.join(known)}"
            return _Read(action, action.argument_of(call.arguments), problem, True)
        argument = action.argument_of(call.arguments)
        if not argument.strip():
            return _Read(action, argument, f"{action.name} was called without its {action.argument}", True)
        problem = "" if _is_object(call.arguments) else f"the arguments of {action.name} are no JSON object"
        return _Read(action, argument, problem, False)

    def _tags(self, calls: tuple[ToolCall, ...]) -> str:
        """The calls as the system parses them; unusable calls only if there is no other."""
        read = [self._understood(call) for call in calls]
        return "\n".join(r.action.tag(r.argument) for r in [r for r in read if not r.useless] or read)

    def _assistant(self, turn: Generation) -> dict[str, Any]:
        if not turn.tool_calls:
            return super()._assistant(turn)
        content = turn.text.removesuffix(self._tags(turn.tool_calls)).removesuffix("\n")
        calls = [
            {"id": c.id, "type": "function", "function": {"name": _sendable(c.name), "arguments": self._arguments(c)}}
            for c in turn.tool_calls
        ]
        self._useless = {c.id: r.problem for c in turn.tool_calls if (r := self._understood(c)).useless}
        return {"role": "assistant", "content": content or None, "tool_calls": calls}

    def _arguments(self, call: ToolCall) -> str:
        """The arguments as JSON: chat templates raise on anything else."""
        if _is_object(call.arguments):
            return call.arguments
        action, argument, *_ = self._understood(call)
        return json.dumps({action.argument: argument}, ensure_ascii=False)

    def _environment(self, text: str) -> list[dict[str, Any]]:
        calls = self._messages[-1].get("tool_calls") or []
        if not calls:
            return super()._environment(text)
        useful = [call["id"] for call in calls if call["id"] not in self._useless]
        if not useful:
            first, *rest = (self._useless[call["id"]] for call in calls)
            contents = [f"{first}\n{text}", *rest]
        else:
            shares = iter(_shared_out(text, len(useful)))
            contents = [self._useless.get(call["id"]) or next(shares) for call in calls]
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": content}
            for call, content in zip(calls, contents, strict=True)
        ]


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _sendable(name: str) -> str:
    """A function's name as endpoints accept it back."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unknown"


def _shared_out(text: str, calls: int) -> list[str]:
    """The result for each call of a turn: one block each if the text has as many, otherwise all of it for the first."""
    blocks = parse(text).blocks if calls > 1 else ()
    if len(blocks) != calls:
        return [text] + [WITH_THE_FIRST] * (calls - 1)
    starts = [0, *(block.start for block in blocks[1:])]
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
