"""Native tool calling for systems that act by tags.

A system's actions are a small table. Endpoints are told about them as functions; when the model calls one, the call is
written into the turn's text as the tag the system would have parsed anyway, and environment text goes back as the
call's tool message:

    call    search({"query": "capital of Peru"})
    text    <search>capital of Peru</search>

Systems, limits and records therefore do not change, and a model that writes the tags itself is understood as well.
A system hands its table over once, to any engine that is `Acting`:

    engine = engine.with_actions({"executor": [Action("search", "Search the corpus.", "query"), …]})

and with a table by role, `engine.for_role(role)` picks that role's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..base import Engine, Generation, Sampling, ToolCall
from .reply import Reply
from .session import ChatSession


@dataclass(frozen=True, slots=True)
class Action:
    """Something a role can do by writing `<name>argument</name>`."""

    name: str
    description: str
    """For the model: when to use it and what comes back."""
    argument: str = "text"
    """What the argument is called in the function's signature."""
    about: str = ""
    """For the model: what the argument should hold."""
    opening: str = ""
    """Opening and closing tags where they are not `<name>` and `</name>`."""
    closing: str = ""

    def tag(self, argument: str) -> str:
        return f"{self.opening or f'<{self.name}>'}{argument}{self.closing or f'</{self.name}>'}"

    def declaration(self) -> dict[str, Any]:
        """The function in the form of the `tools` parameter."""
        about = {"description": self.about} if self.about else {}
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": {
                    "type": "object",
                    "properties": {self.argument: {"type": "string", **about}},
                    "required": [self.argument],
                },
            },
        }

    def argument_of(self, arguments: str) -> str:
        """The argument from the JSON a model wrote; whatever it wrote instead is taken as it is."""
        try:
            values = json.loads(arguments)
        except ValueError:
            return arguments
        if isinstance(values, dict):
            values = values.get(self.argument, next(iter(values.values()), "") if len(values) < 2 else values)
        return values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)


Actions = Sequence[Action] | Mapping[str, Sequence[Action]]
"""One table for all roles, or one by role."""


@runtime_checkable
class Acting(Protocol):
    """An engine that can be told what a system's roles can do."""

    def with_actions(self, actions: Actions) -> Engine: ...


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
