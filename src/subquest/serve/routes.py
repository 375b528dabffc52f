"""Every address of the server in one table, from which both the routes and the OpenAPI document are made."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .._version import __version__
from . import api, chat, schemas, searching
from .bodies import Json, as_problem
from .schemas import Schema, many, record, text, whole
from .state import state_of

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    handler: Handler
    summary: str
    body: Schema | None = None
    reply: Schema = field(default_factory=dict)
    status: int = 200
    kind: str = "application/json"
    query: Mapping[str, Schema] = field(default_factory=dict)
    refuses: tuple[int, ...] = ()
    """Statuses beside the good one that a well-formed request may meet."""


async def health(request: Request) -> Response:
    return Json({"status": "ok", "version": __version__})


async def metrics(request: Request) -> Response:
    state = state_of(request)
    live = state.board.live()
    for status in ("queued", "running"):
        state.metrics.set("subquest_jobs", sum(job.status == status for job in live), status=status)
    return PlainTextResponse(state.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(request: Request) -> Response:
    return Json(document())


_PAGING = {
    "offset": whole("", 0, 10**9),
    "limit": whole("", 1, 500),
    "system": text("only this system's"),
    "ending": text("only those that ended so"),
    "text": text("only those with this in question or answer"),
}
_AFTER = {"after": whole("only events behind this one; Last-Event-ID goes before it", -1, 10**9)}
_STREAM = "text/event-stream"
OPERATIONS = (
    Operation("GET", "/health", health, "Is the server up?", reply=record("status", status=text(), version=text())),
    Operation("GET", "/metrics", metrics, "Counters for Prometheus", kind="text/plain"),
    Operation("GET", "/openapi.json", openapi, "This document", reply=schemas.ANY),
    Operation("GET", "/v1/models", chat.models, "OpenAI: the agents as models", reply=record(data=many(schemas.ANY))),
    Operation("GET", "/v1/models/{name}", chat.model, "OpenAI: one agent", reply=schemas.ANY, refuses=(404,)),
    Operation(
        "POST",
        "/v1/chat/completions",
        chat.completions,
        "OpenAI: answer the last message",
        schemas.CHAT,
        schemas.ANY,
        refuses=(404, 409, 413, 429, 502, 503),
    ),
    Operation("GET", "/api/about", api.about, "What can be asked of this server", reply=schemas.ANY),
    Operation(
        "POST", "/api/ask", api.ask, "Ask a question", schemas.ASK, schemas.JOB, 202, refuses=(404, 409, 413, 429, 503)
    ),
    Operation("GET", "/api/episodes", api.episodes, "Questions asked here", reply=schemas.PAGE, query=_PAGING),
    Operation("GET", "/api/episodes/{id}", api.episode, "An episode asked here", reply=schemas.ANY, refuses=(404,)),
    Operation(
        "GET",
        "/api/episodes/{id}/events",
        api.events,
        "Its events, live",
        kind=_STREAM,
        query=_AFTER,
        refuses=(404,),
    ),
    Operation("POST", "/api/episodes/{id}/cancel", api.cancel, "Stop it", reply=schemas.JOB, refuses=(404,)),
    Operation(
        "POST",
        "/api/episodes/{id}/again",
        api.again,
        "Ask the same once more",
        reply=schemas.JOB,
        status=202,
        refuses=(404, 409, 429, 503),
    ),
    Operation(
        "POST",
        "/api/episodes/{id}/resume",
        api.resume,
        "Go on with an interrupted episode",
        reply=schemas.JOB,
        status=202,
        refuses=(404, 409, 429, 503),
    ),
    Operation("GET", "/api/episodes/{id}/tokens", api.tokens, "Every token of it", reply=schemas.ANY, refuses=(404,)),
    Operation("GET", "/api/episodes/{id}/html", api.html, "It as one HTML file", kind="text/html", refuses=(404,)),
    Operation(
        "GET",
        "/api/episodes/{id}/siblings",
        api.siblings,
        "Other attempts at its question",
        reply=schemas.SIBLINGS,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/compare",
        api.compare,
        "Runs beside each other, with paired tests",
        reply=schemas.ANY,
        query={"runs": text("names, apart by commas")},
        refuses=(404,),
    ),
    Operation("GET", "/api/runs", api.runs, "Stored runs", reply=record("runs", runs=many(schemas.ANY))),
    Operation("GET", "/api/runs/{run}", api.run, "A run: result table and curves", reply=schemas.ANY, refuses=(404,)),
    Operation(
        "GET",
        "/api/runs/{run}/curves",
        api.curves,
        "What its curves have gained",
        reply=schemas.ANY,
        query={"after": whole("only points behind this step", -1, 10**9)},
        refuses=(404,),
    ),
    Operation(
        "GET", "/api/runs/{run}/episodes/{id}/tokens", api.tokens, "Every token", reply=schemas.ANY, refuses=(404,)
    ),
    Operation(
        "GET", "/api/runs/{run}/episodes/{id}/html", api.html, "It as one HTML file", kind="text/html", refuses=(404,)
    ),
    Operation(
        "GET",
        "/api/runs/{run}/episodes/{id}/siblings",
        api.siblings,
        "Other attempts at its question",
        reply=schemas.SIBLINGS,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/runs/{run}/episodes",
        api.run_episodes,
        "Its episodes",
        reply=schemas.PAGE,
        query=_PAGING,
        refuses=(404,),
    ),
    Operation("GET", "/api/runs/{run}/episodes/{id}", api.episode, "One of them", reply=schemas.ANY, refuses=(404,)),
    Operation(
        "GET",
        "/api/runs/{run}/episodes/{id}/events",
        api.events,
        "Its events",
        kind=_STREAM,
        query=_AFTER,
        refuses=(404,),
    ),
    Operation("GET", "/api/indexes", searching.indexes, "Indexes", reply=record("indexes", indexes=many(schemas.ANY))),
    Operation(
        "POST",
        "/api/indexes/{index}/search",
        searching.search_index,
        "Search an index",
        schemas.INDEX_SEARCH,
        record("hits", hits=many(schemas.HIT)),
        refuses=(404, 409, 413),
    ),
    Operation(
        "GET",
        "/api/indexes/{index}/document",
        searching.document,
        "A document",
        reply=record("id title text", id=text(), title=text(), text=text()),
        query={"id": text("of the document")},
        refuses=(404, 409),
    ),
    Operation(
        "POST",
        "/api/indexes/{index}/documents",
        searching.add_documents,
        "Add documents; makes the index where there is none",
        schemas.DOCUMENTS,
        schemas.ANY,
        201,
        refuses=(403, 409, 413),
    ),
    Operation(
        "POST",
        "/retrieve",
        searching.retrieve,
        "Search-R1: search",
        schemas.RETRIEVE,
        schemas.RESULT,
        refuses=(404, 409, 413),
    ),
    Operation(
        "POST", "/rerank", searching.rerank, "Search-R1: rerank", schemas.RERANK, schemas.RESULT, refuses=(413, 502)
    ),
    Operation("POST", "/search", searching.search, "ReCall: search", schemas.SEARCH, many({}), refuses=(404, 409, 413)),
    Operation(
        "POST",
        "/batch_search",
        searching.batch_search,
        "ReCall: many searches",
        schemas.BATCH,
        many({}),
        refuses=(404, 409, 413),
    ),
)


def routes() -> list[Route]:
    return [Route(o.path, _counted(o), methods=[o.method]) for o in OPERATIONS]


def _counted(operation: Operation) -> Handler:
    """The handler, with what it did counted under the route's own name."""

    async def handle(request: Request) -> Response:
        begun = time.monotonic()
        status = "499"  # the client has gone
        try:
            response = await operation.handler(request)
            status = str(response.status_code)
            return response
        except Exception as error:
            status = str(as_problem(error).status)
            raise
        finally:
            counters = state_of(request).metrics
            counters.add("subquest_requests_total", route=operation.path, method=operation.method, status=status)
            counters.add("subquest_request_seconds_total", time.monotonic() - begun, route=operation.path)

    return handle


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Subquest", "version": __version__, "description": "Ask, watch, search, look back."},
        "paths": paths,
        "components": {
            "schemas": {"Error": schemas.ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _described(operation: Operation) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    taken = operation.body is not None or operation.query
    refuses = sorted({*operation.refuses, 401, 403, *((400,) if taken else ())})
    out: dict[str, Any] = {
        "summary": operation.summary,
        "operationId": operation.handler.__name__ + ("_of_run" if "{run}/episodes/{id}" in operation.path else ""),
        "responses": {
            str(operation.status): {
                "description": "done",
                "content": {operation.kind: {"schema": operation.reply} if operation.reply else {}},
            },
            **{str(status): {"description": "refused", "content": error} for status in refuses},
        },
    }
    names = re.findall(r"{(\w+)}", operation.path)
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": text(minLength=1, pattern="^[^/]+$")} for name in names
    ]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    if parameters:
        out["parameters"] = parameters
    if operation.body is not None:
        out["requestBody"] = {"required": True, "content": {"application/json": {"schema": operation.body}}}
    return out
