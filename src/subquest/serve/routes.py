"""The routes of the server in one table, from which the OpenAPI document is generated too."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .._version import __version__
from . import chat, episode_handlers, replies, search_handlers
from .replies import Json, Object, as_problem
from .requests import (
    AddDocuments,
    AfterEvent,
    AfterStep,
    Ask,
    BatchSearch,
    Chat,
    DocumentId,
    IndexSearch,
    Paging,
    Rerank,
    Retrieve,
    RunNames,
    Search,
)
from .state import state_of

Handler = Callable[[Request], Awaitable[Response]]
EVENTS = "text/event-stream"
_COMPONENTS = "#/components/schemas/"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: type[msgspec.Struct] | None = None
    reply: Any = None
    status: int = 200
    kind: str = "application/json"
    query: type[msgspec.Struct] | None = None
    refuses: tuple[int, ...] = ()
    """Error statuses that a well-formed request may get."""


async def health(request: Request) -> Response:
    return Json({"status": "ok", "version": __version__})


async def metrics(request: Request) -> Response:
    state = state_of(request)
    live = state.jobs.live()
    for status in ("queued", "running"):
        state.counters.set("subquest_jobs", sum(job.status == status for job in live), status=status)
    return PlainTextResponse(state.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(request: Request) -> Response:
    return Json(document())


_SEARCH_REFUSALS = (404, 409, 413)
_ASK_REFUSALS = (404, 409, 429, 503)


def _episode_operations(base: str) -> tuple[Operation, ...]:
    """What can be read of an episode, here or in a stored run."""
    of, one = episode_handlers, f"{base}/{{id}}"
    return (
        Operation("GET", one, of.episode, "An episode", reply=Object, refuses=(404,)),
        Operation("GET", f"{one}/events", of.events, "Its events", kind=EVENTS, query=AfterEvent, refuses=(404,)),
        Operation("GET", f"{one}/tokens", of.tokens, "Every token of it", reply=Object, refuses=(404,)),
        Operation("GET", f"{one}/html", of.html, "It as one HTML file", kind="text/html", refuses=(404,)),
        Operation(
            "GET",
            f"{one}/siblings",
            of.siblings,
            "All attempts at its question",
            reply=replies.Siblings,
            refuses=(404,),
        ),
    )


OPERATIONS = (
    Operation("GET", "/health", health, "Is the server up?", reply=replies.Health),
    Operation("GET", "/metrics", metrics, "Counters for Prometheus", kind="text/plain"),
    Operation("GET", "/openapi.json", openapi, "This document", reply=Object),
    Operation("GET", "/v1/models", chat.models, "OpenAI: the agents as models", reply=replies.ModelList),
    Operation("GET", "/v1/models/{name}", chat.model, "OpenAI: one agent", reply=Object, refuses=(404,)),
    Operation(
        "POST",
        "/v1/chat/completions",
        chat.completions,
        "OpenAI: answer the last message",
        Chat,
        Object,
        refuses=(*_ASK_REFUSALS, 413, 502),
    ),
    Operation("GET", "/api/about", episode_handlers.about, "What this server offers", reply=Object),
    Operation(
        "POST",
        "/api/ask",
        episode_handlers.ask,
        "Ask a question",
        Ask,
        replies.Accepted,
        202,
        refuses=(*_ASK_REFUSALS, 413),
    ),
    Operation(
        "GET",
        "/api/episodes",
        episode_handlers.episodes,
        "Questions asked here",
        reply=replies.EpisodePage,
        query=Paging,
    ),
    *_episode_operations("/api/episodes"),
    Operation(
        "POST",
        "/api/episodes/{id}/cancel",
        episode_handlers.cancel,
        "Stop an episode",
        reply=replies.Accepted,
        refuses=(404,),
    ),
    Operation(
        "POST",
        "/api/episodes/{id}/again",
        episode_handlers.again,
        "Ask its question again",
        reply=replies.Accepted,
        status=202,
        refuses=_ASK_REFUSALS,
    ),
    Operation(
        "POST",
        "/api/episodes/{id}/resume",
        episode_handlers.resume,
        "Resume an interrupted episode",
        reply=replies.Accepted,
        status=202,
        refuses=_ASK_REFUSALS,
    ),
    Operation(
        "GET",
        "/api/compare",
        episode_handlers.compare,
        "Compare runs, with paired tests",
        reply=Object,
        query=RunNames,
        refuses=(404,),
    ),
    Operation("GET", "/api/runs", episode_handlers.runs, "Stored runs", reply=replies.RunList),
    Operation(
        "GET",
        "/api/runs/{run}",
        episode_handlers.run,
        "A run: result table and curves",
        reply=Object,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/runs/{run}/curves",
        episode_handlers.curves,
        "New points of its curves",
        reply=Object,
        query=AfterStep,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/runs/{run}/episodes",
        episode_handlers.run_episodes,
        "Its episodes",
        reply=replies.EpisodePage,
        query=Paging,
        refuses=(404,),
    ),
    *_episode_operations("/api/runs/{run}/episodes"),
    Operation("GET", "/api/indexes", search_handlers.indexes, "Indexes", reply=replies.IndexList),
    Operation(
        "POST",
        "/api/indexes/{index}/search",
        search_handlers.search_index,
        "Search an index",
        IndexSearch,
        replies.IndexHits,
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "GET",
        "/api/indexes/{index}/document",
        search_handlers.document,
        "A document",
        reply=replies.StoredDocument,
        query=DocumentId,
        refuses=(404, 409),
    ),
    Operation(
        "POST",
        "/api/indexes/{index}/documents",
        search_handlers.add_documents,
        "Add documents to an index, which is created if there is none",
        AddDocuments,
        Object,
        201,
        refuses=(403, 409, 413),
    ),
    Operation(
        "POST",
        "/retrieve",
        search_handlers.retrieve,
        "Search-R1: search",
        Retrieve,
        replies.Result,
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "POST",
        "/rerank",
        search_handlers.rerank,
        "Search-R1: rerank",
        Rerank,
        replies.Result,
        refuses=(413, 502),
    ),
    Operation(
        "POST",
        "/search",
        search_handlers.search,
        "ReCall: search",
        Search,
        list[Any],
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "POST",
        "/batch_search",
        search_handlers.batch_search,
        "ReCall: many searches",
        BatchSearch,
        list[Any],
        refuses=_SEARCH_REFUSALS,
    ),
)


def routes() -> list[Route]:
    return [Route(o.path, _counted(o), methods=[o.method]) for o in OPERATIONS]


def _counted(operation: Operation) -> Handler:
    """The handler, with its requests counted under the route's path."""

    async def handle(request: Request) -> Response:
        begun = time.monotonic()
        status = "499"  # the client has disconnected
        try:
            response = await operation.handler(request)
            status = str(response.status_code)
            return response
        except Exception as error:
            status = str(as_problem(error).status)
            raise
        finally:
            counters = state_of(request).counters
            counters.add("subquest_requests_total", route=operation.path, method=operation.method, status=status)
            counters.add("subquest_request_seconds_total", time.monotonic() - begun, route=operation.path)

    return handle


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    kinds = [kind for o in OPERATIONS for kind in (o.body, o.reply, o.query) if kind is not None]
    shown, components = msgspec.json.schema_components([*kinds, replies.Error], ref_template=f"{_COMPONENTS}{{name}}")
    schemas = dict(zip(map(str, kinds), shown, strict=False))
    for body in {o.body for o in OPERATIONS if o.body is not None}:
        _allow_null(components[body.__name__])
    queries = {
        o.query: components.pop(o.query.__name__) for o in OPERATIONS if o.query and o.query.__name__ in components
    }
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
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
            str(operation.status): {"description": "done", "content": {operation.kind: reply}},
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
    if operation.body is not None:
        content = {"application/json": {"schema": schemas[str(operation.body)]}}
        out["requestBody"] = {"required": True, "content": content}
    return out
