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

from typing import Any

from ..actions import Action
from ..base import Generation, Sampling, ToolCall
from .reply import Reply
from .session import ChatSession


class ToolSession(ChatSession):
    """A chat whose turns may be tool calls. Environment text after a call is the call's result, in either mode."""

    def body(self, sampling: Sampling) -> dict[str, Any]:
        return super().body(sampling) | {"tools": [a.declaration() for a in self._engine.actions]}

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
        contents = [text] + ["Answered together with the first call."] * (len(calls) - 1)
        return [
            {"role": "tool", "tool_call_id": call["id"], "content": content}
            for call, content in zip(calls, contents, strict=True)
        ]
