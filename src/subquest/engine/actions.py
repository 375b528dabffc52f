"""The actions of a system's roles, as a table that engines can offer to the model as native tools.

Systems act by tags. A system that declares them (`System.actions`) can also be driven by an endpoint's tool calls: the
table goes to every engine that is a `CallsTools`, and the engine writes each call as the tag the system parses.

    engine = engine.with_actions([Action("search", "Search the corpus.", "query"), …])

Engines without tool calls ignore the table, and so does a `CallsTools` engine whose protocol is tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .interface import Engine


@dataclass(frozen=True, slots=True)
class Action:
    """Something a role can do by writing `<name>argument</name>`."""

    name: str
    description: str
    """For the model: when to use it and what comes back."""
    argument: str = "text"
    """The name of the argument in the function's signature."""
    about: str = ""
    """For the model: what the argument should contain."""
    opening: str | None = None
    """The text before and after the argument if it is not `<name>` and `</name>`."""
    closing: str | None = None
    quoted: bool = False
    """The argument is written as a JSON string."""
    one_line: bool = False
    """The argument is written on one line, because the system reads actions line by line."""
    parameters: Mapping[str, Any] | None = None
    """The JSON schema of all arguments if there may be several: they are then written as one JSON object."""

    def tag(self, argument: str) -> str:
        """The action as the system parses it."""
        opening = f"<{self.name}>" if self.opening is None else self.opening
        closing = f"</{self.name}>" if self.closing is None else self.closing
        argument = " ".join(argument.split()) if self.one_line else argument
        return f"{opening}{json.dumps(argument, ensure_ascii=False) if self.quoted else argument}{closing}"

    def declaration(self) -> dict[str, Any]:
        """The function in the form of the `tools` parameter."""
        if self.parameters is not None:
            function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
            return {"type": "function", "function": function}
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
        """The argument from the JSON a model wrote, even if malformed; other text is taken unchanged."""
        values = _read(arguments)
        if isinstance(values, str) and values.lstrip().startswith("{"):  # broken, or JSON in a JSON string
            values = _read(values)
        if self.parameters is not None:  # no tag can stand in it
            return json.dumps(values or {}, ensure_ascii=False).replace("<", "\\u003c")
        if isinstance(values, dict):
            values = values.get(self.argument, next(iter(values.values()), "") if len(values) < 2 else values)
        return values if isinstance(values, str) else json.dumps(values, ensure_ascii=False)


_HEAD = re.compile(r"""\s*\{\s*["']?\w+["']?\s*:\s*(["']?)""", re.ASCII)


def _read(arguments: str) -> Any:
    """Parse what a model meant as JSON: raw line breaks in strings, trailing text, other quotes, no closing brace."""
    try:
        if arguments.lstrip().startswith("{"):
            return json.JSONDecoder(strict=False).raw_decode(arguments.lstrip())[0]
        return json.loads(arguments)
    except (ValueError, RecursionError):
        head = _HEAD.match(arguments)
    if head is None:
        return arguments
    return arguments[head.end() :].strip().removesuffix("}").rstrip().removesuffix(head[1])


Actions = Sequence[Action] | Mapping[str, Sequence[Action]]
"""One table for all roles, or one by role."""


@runtime_checkable
class CallsTools(Protocol):
    """An engine that accepts the actions of a system's roles."""

    @property
    def calls_tools(self) -> bool:
        """Whether the model is offered the actions as tools; otherwise it acts by tags."""
        ...

    def with_actions(self, actions: Actions) -> Engine: ...
