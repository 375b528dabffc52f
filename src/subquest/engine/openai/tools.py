"""Native tool calling for systems that act by tags.

A system's actions are a small table. Endpoints are told about them as functions; when the model calls one, the call is
written into the turn's text as the tag the system would have parsed anyway, and environment text goes back as the
call's tool message:

    call    search({"query": "capital of Peru"})
    text    <search>capital of Peru</search>

Systems, limits and records therefore do not change, and a model that writes the tags itself is understood as well.
How a system hands its table over is in `engine.actions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...protocol import parse
from ..actions import Action
from ..base import Generation, Message, Mode, Sampling, ToolCall
from .reply import Reply
from .session import ChatSession

if TYPE_CHECKING:
    from .engine import OpenAIEngine

WITH_THE_FIRST = "See what came back for the first call."


class ToolSession(ChatSession):
    """A chat whose turns may be tool calls. Environment text after a call is the call's result, in either mode."""

    def __init__(self, engine: OpenAIEngine, messages: Sequence[Message], mode: Mode) -> None:
        super().__init__(engine, messages, mode)
        self._continues = False

    def body(self, sampling: Sampling) -> dict[str, Any]:
        return super().body(sampling) | {"tools": [a.declaration() for a in self._engine.actions]}

    @property
    def goes_on(self) -> bool:
        return False

    def read(self, reply: Reply, stops: Sequence[str]) -> Reply:
        """Thoughts stay apart: calls come in a field of their own, and results answer them."""
        return reply

    def render(self, reply: Reply, text: str) -> str:
        tags = self._tags(reply.tool_calls)
        return f"{text}\n{tags}" if text and tags else text + tags

    def _tags(self, calls: tuple[ToolCall, ...]) -> str:
        known = {a.name: a for a in self._engine.actions}
        actions = [(known.get(c.name) or Action(c.name, ""), c.arguments) for c in calls]
        return "\n".join(action.tag(action.argument_of(arguments)) for action, arguments in actions)

    def _assistant(self, turn: Generation) -> dict[str, Any]:
        if not turn.tool_calls:
            return super()._assistant(turn)
        content = turn.text.removesuffix(self._tags(turn.tool_calls)).removesuffix("\n")
        calls = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
            for c in turn.tool_calls
        ]
        return {"role": "assistant", "content": content or None, "tool_calls": calls}

    def _environment(self, text: str) -> list[dict[str, Any]]:
        calls = self._messages[-1].get("tool_calls") or []
        if not calls:
            return super()._environment(text)
        contents = _shared_out(text, len(calls))
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": content}
            for call, content in zip(calls, contents, strict=True)
        ]


def _shared_out(text: str, calls: int) -> list[str]:
    """What each call of a turn is told: a block each where the text has as many, otherwise the first is told it all."""
    blocks = parse(text).blocks if calls > 1 else ()
    if len(blocks) != calls:
        return [text] + [WITH_THE_FIRST] * (calls - 1)
    starts = [0, *(block.start for block in blocks[1:])]
    return [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
