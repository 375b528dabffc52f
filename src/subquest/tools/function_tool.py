"""Tools that users bring: a name, a description, a JSON schema of the arguments, and what carries a call out.

A Python function becomes one by its signature and its docstring. Tools of MCP servers are made in `mcp_server`.

    def miles_to_km(miles: float) -> float:
        "Convert miles to kilometres."

    tool = from_function(miles_to_km)
    await tool.call({"miles": 26.2})        "42.16"
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import re
import threading
import typing
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

from ..errors import ToolError, UsageError
from ..protocol import fence

DESCRIPTION = 1000
"""Characters of a description that a model reads."""
SCHEMA = 8000
"""Characters of a schema that a model reads; of a longer one it is told nothing but that it is an object."""
NAME = 64
"""Characters of a name, as endpoints accept it."""


class BadArguments(ToolError):
    """The arguments of a call do not fit the tool; the message says why, for the model."""


@dataclass(frozen=True, slots=True)
class FunctionTool:
    """A tool that a user brings."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """The JSON schema of its arguments, an object."""
    call: Callable[[dict[str, Any]], Awaitable[str]]
    """Carries out a call. Raises BadArguments, or another ToolError if it fails."""
    place: str = ""
    """The address that calls are sent to; empty if they stay in programs of this machine."""
    source: str = ""
    """Where it comes from, in one word: the name of a server. Puts apart tools with the same name."""
    keeps_time: bool = False
    """Whether it keeps to the limit of time of a call itself."""

    def declared(self) -> tuple[str, Mapping[str, Any]]:
        """Description and schema as a model may read them: cut, and without anything that could pass for a tag."""
        whole = len(json.dumps(self.parameters, default=str)) <= SCHEMA
        return fence(self.description[:DESCRIPTION]), _fenced(self.parameters) if whole else {"type": "object"}

    def signature(self) -> str:
        """The arguments on one line: `city: string, days?: integer`."""
        _, schema = self.declared()
        required = schema.get("required")
        needed = required if isinstance(required, list) else []
        parts = [
            f"{name}{'' if name in needed else '?'}: {_type_of(_whole(part, schema))}"
            for name, part in _properties(schema).items()
        ]
        return f"{self.name}({', '.join(parts)})"

    def example(self) -> str:
        """A call with made-up values for what it needs."""
        return json.dumps({"name": self.name, "arguments": self._made_up()}, ensure_ascii=False)

    def asked(self) -> str:
        """A task for which the example is the right call."""
        said = " ".join(self.declared()[0].split()).partition(". ")[0].rstrip(".?") or f"What does {self.name} give"
        values = ", ".join(f"{name} {value}" for name, value in self._made_up().items())
        return f"{said} ({values})?" if values else f"{said}?"

    def _made_up(self) -> dict[str, Any]:
        _, schema = self.declared()
        required = schema.get("required")
        properties = _properties(schema)
        needed = [name for name in required if name in properties] if isinstance(required, list) else []
        return {name: _example_of(properties[name]) for name in needed or list(properties)[:1]}


def with_unique_names(tools: Sequence[FunctionTool], taken: Collection[str]) -> tuple[FunctionTool, ...]:
    """The tools under names that endpoints accept and that nothing else has: `get time` becomes `get_time`; if that
    name is taken, the name of the server is put before it, and then a number behind it."""
    used = {name.casefold() for name in taken}
    found = []
    for tool in tools:
        plain = _plain(tool.name) or "tool"
        numbered = (f"{plain[: NAME - 4]}_{number}" for number in range(2, 1000))
        candidates = (plain, _plain(f"{tool.source}_{plain}") if tool.source else plain, *numbered)
        name = next(name for name in candidates if name.casefold() not in used)
        used.add(name.casefold())
        found.append(replace(tool, name=name))
    return tuple(found)


def from_function(function: Callable[..., Any]) -> FunctionTool:
    """A Python function as a tool; a UsageError says what a model could not call."""
    name = str(getattr(function, "__name__", type(function).__name__))
    what = f"the tool {name}"
    if not callable(function) or isinstance(function, type):
        raise UsageError(f"{function!r:.80} is no tool: give a function, or 'mcp:COMMAND' or 'mcp:http://…'")
    if not name.isidentifier():
        raise UsageError(f"{what} has no name that a model could call: define it with `def`")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"{what} is a generator: return a list instead")
    arguments, defaults = _arguments_of(function, name, what)
    parameters = _schema_of(arguments, name, what)
    for field, default in defaults.items():
        if isinstance(default, str | int | float | bool):
            parameters["properties"][field]["default"] = default

    async def call(given: dict[str, Any]) -> str:
        try:
            values = msgspec.convert(given, arguments, strict=False)
        except msgspec.ValidationError as error:
            raise BadArguments(str(error).replace("`$.", "`").replace(" - at `$`", "")) from None
        passed = {field: getattr(values, field) for field in arguments.__struct_fields__}
        passed = {field: value for field, value in passed.items() if value is not msgspec.UNSET}
        return as_text(await _carried_out(function, passed))

    return FunctionTool(name, inspect.getdoc(function) or "", parameters, call)


def as_text(result: Any) -> str:
    """What a function returned, for a model: a text as it is, everything else as JSON."""
    if isinstance(result, str):
        return result
    if isinstance(result, bytes | bytearray):
        return f"({len(result):,} bytes)"
    try:
        return msgspec.json.encode(result, enc_hook=str).decode()
    except (TypeError, ValueError, RecursionError):
        return str(result)


def _arguments_of(function: Callable[..., Any], name: str, what: str) -> tuple[type[msgspec.Struct], dict[str, Any]]:
    """The arguments of a function as a struct, and the defaults of those that have one."""
    try:
        signature = inspect.signature(function)
        target = function if inspect.isroutine(function) else type(function).__call__
        hints = typing.get_type_hints(target, include_extras=True)
    except (TypeError, ValueError, NameError) as error:
        raise UsageError(f"{what}: its signature cannot be read: {error}") from None
    fields: list[Any] = []
    defaults: dict[str, Any] = {}
    for parameter in signature.parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            plain = str(parameter).partition(":")[0]
            raise UsageError(f"{what}: {plain} cannot be called by name: give it plain parameters")
        hint = _described(hints.get(parameter.name, Any))
        if parameter.default is parameter.empty:
            fields.append((parameter.name, hint))
        else:
            defaults[parameter.name] = parameter.default
            fields.append((parameter.name, hint | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True), defaults


def _described(hint: Any) -> Any:
    """`Annotated[str, "the city"]` as msgspec reads it."""
    if typing.get_origin(hint) is Annotated:
        kind, *notes = typing.get_args(hint)
        texts = [note for note in notes if isinstance(note, str)]
        rest = [note for note in notes if not isinstance(note, str)]
        meta = [*rest, *([msgspec.Meta(description=" ".join(texts))] if texts else ())]
        hint = Annotated[kind, *meta] if meta else kind
    return typing.Union[hint, None] if hint is None else hint  # noqa: UP007


def _schema_of(arguments: type[msgspec.Struct], name: str, what: str) -> dict[str, Any]:
    try:
        (_,), parts = msgspec.json.schema_components([arguments], ref_template="#/$defs/{name}")
    except TypeError:
        odd = ", ".join(field.name for field in msgspec.structs.fields(arguments) if not _in_json(field.type))
        raise UsageError(
            f"{what}: {odd or 'a parameter'} is of a type that JSON does not have; use str, int, float, bool, list, "
            "dict, Literal or a dataclass of these"
        ) from None
    own = dict(parts.pop(name))
    return {key: own[key] for key in ("type", "properties", "required") if key in own} | (
        {"$defs": parts} if parts else {}
    )


def _in_json(kind: Any) -> bool:
    try:
        msgspec.json.schema(kind)
    except TypeError:
        return False
    return True


async def _carried_out(function: Callable[..., Any], passed: Mapping[str, Any]) -> Any:
    """What a function returns; one that is not async runs in a thread of its own, which a hanging call cannot share
    with others or keep the program from ending."""
    target = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    try:
        if inspect.iscoroutinefunction(target):
            return await function(**passed)
        result = await _in_thread(function, passed)
        return await result if inspect.isawaitable(result) else result
    except (Exception, SystemExit) as error:
        raise ToolError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) from error


async def _in_thread(function: Callable[..., Any], passed: Mapping[str, Any]) -> Any:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()

    def finish(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error if isinstance(error, Exception) else ToolError(repr(error)))
        else:
            done.set_result(result)

    def work() -> None:
        result, error = None, None
        try:
            result = function(**passed)
        except BaseException as raised:
            error = raised
        try:
            loop.call_soon_threadsafe(finish, result, error)
        except RuntimeError:  # the loop was closed meanwhile: nobody waits
            return

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(work,), name="subquest-tool", daemon=True).start()
    return await done


def _plain(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name).strip("_")[:NAME]


def _fenced(value: Any) -> Any:
    """A schema without tags in any of its texts."""
    if isinstance(value, str):
        return fence(value)
    if isinstance(value, Mapping):
        return {fence(str(key)): _fenced(inner) for key, inner in value.items()}
    return [_fenced(inner) for inner in value] if isinstance(value, list | tuple) else value


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def _whole(part: Any, schema: Mapping[str, Any], depth: int = 4) -> Any:
    """A part of a schema with what it refers to in place of the references."""
    if isinstance(part, list):
        return [_whole(inner, schema, depth) for inner in part]
    if not isinstance(part, Mapping):
        return part
    named = str(part.get("$ref", "")).removeprefix("#/$defs/")
    defined = schema.get("$defs")
    if named and depth and isinstance(defined, Mapping) and isinstance(defined.get(named), Mapping):
        return _whole({key: v for key, v in defined[named].items() if key != "title"}, schema, depth - 1)
    return {key: _whole(inner, schema, depth) for key, inner in part.items()}


_LONG = 200
_SIMPLE = ("string", "integer", "number", "boolean", "null")


def _type_of(part: Any) -> str:
    """The type of one argument in a few words, with its description."""
    if not isinstance(part, Mapping):
        return "any"
    said = str(part.get("description") or "")
    kind = part.get("type")
    if kind in _SIMPLE and "enum" not in part:
        text = str(kind)
    elif isinstance(part.get("enum"), list):
        text = " or ".join(json.dumps(value, ensure_ascii=False) for value in part["enum"])
    else:
        rest = {key: value for key, value in part.items() if key not in ("title", "description", "default")}
        text = json.dumps(rest, ensure_ascii=False, default=str) if rest else "any"
    return text[:_LONG] + (f" ({' '.join(said.split())[:_LONG]})" if said else "")


def _example_of(part: Any) -> Any:
    kind = part.get("type") if isinstance(part, Mapping) else None
    if isinstance(part, Mapping) and isinstance(part.get("enum"), list) and part["enum"]:
        return part["enum"][0]
    examples = {"integer": 3, "number": 1.5, "boolean": True, "array": [], "object": {}}
    return examples.get(kind, "A1") if isinstance(kind, str) else "A1"
