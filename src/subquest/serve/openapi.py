"""Operations, each one method of one path, and the OpenAPI document that describes them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from .replies import Error

Handler = Callable[[Request], Awaitable[Response]]
_COMPONENTS = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    reply: Any = None
    body: type[msgspec.Struct] | None = None
    query: type[msgspec.Struct] | None = None
    takes_file: bool = False
    """Whether the body is a file as it is."""
    refuses: tuple[int, ...] = ()
    """Error statuses that a well-formed request may get."""
    status: int = 200
    media_type: str = "application/json"
    """Several are separated by commas."""


def openapi_document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The OpenAPI document of a server with these operations."""
    kinds = [kind for o in operations for kind in (o.body, o.reply, o.query) if kind is not None]
    shown, components = msgspec.json.schema_components([*kinds, Error], ref_template=f"{_COMPONENTS}{{name}}")
    schemas = dict(zip(map(str, kinds), shown, strict=False))
    for body in {o.body for o in operations if o.body is not None}:
        _allow_null(components[body.__name__])
    queries = {
        o.query: components.pop(o.query.__name__) for o in operations if o.query and o.query.__name__ in components
    }
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        parameters = queries[operation.query] if operation.query else {}
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, schemas, parameters)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Subquest", "version": __version__, "description": "Ask, watch, search, look back."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _allow_null(schema: dict[str, Any]) -> None:
    """Null means the same as leaving a field out."""
    for name, field in schema["properties"].items():
        if name not in schema.get("required", ()):
            if "enum" in field:
                field["enum"].append(None)
            elif "type" in field:
                field["type"] = [field["type"], "null"]


def _described(operation: Operation, schemas: Mapping[str, Any], query: Mapping[str, Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": f"{_COMPONENTS}Error"}}}
    taken = operation.body is not None or query
    refuses = sorted({*operation.refuses, 401, 403, *((400,) if taken else ())})
    reply = {"schema": schemas[str(operation.reply)]} if operation.reply is not None else {}
    out: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.handler.__name__ + ("_of_run" if "{run}/episodes/{id}" in operation.path else ""),
        "responses": {
            str(operation.status): {
                "description": "done",
                "content": dict.fromkeys(operation.media_type.split(","), reply),
            },
            **{str(status): {"description": "refused", "content": error} for status in refuses},
        },
    }
    named = {"type": "string", "minLength": 1, "pattern": "^[^/]+$"}
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": named}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    parameters += [
        {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
        for name, schema in query.get("properties", {}).items()
    ]
    if parameters:
        out["parameters"] = parameters
    if operation.takes_file:
        out["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[str(operation.body)]}}
        out["requestBody"] = {"required": True, "content": content}
    return out
