"""The routes of the server in one table, from which the OpenAPI document is generated too."""

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
from . import chat, episode_handlers, schemas, search_handlers
from .bodies import Json, as_problem
from .schemas import Schema, many, record, text, whole
from .state import state_of

Handler = Callable[[Request], Awaitable[Response]]
EVENTS = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path."""

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


_PAGING = {
    "offset": whole("", 0, 10**9),
    "limit": whole("", 1, 500),
    "system": text("only episodes of this system"),
    "ending": text("only episodes with this stop reason"),
    "text": text("only episodes with this text in question or answer"),
}
_AFTER = {"after": whole("only events after this one; Last-Event-ID takes precedence", -1, 10**9)}
_SEARCH_REFUSALS = (404, 409, 413)
_ASK_REFUSALS = (404, 409, 429, 503)


def _episode_operations(base: str) -> tuple[Operation, ...]:
    """What can be read of an episode, here or in a stored run."""
    of, one = episode_handlers, f"{base}/{{id}}"
    return (
        Operation("GET", one, of.episode, "An episode", reply=schemas.ANY, refuses=(404,)),
        Operation("GET", f"{one}/events", of.events, "Its events", kind=EVENTS, query=_AFTER, refuses=(404,)),
        Operation("GET", f"{one}/tokens", of.tokens, "Every token of it", reply=schemas.ANY, refuses=(404,)),
        Operation("GET", f"{one}/html", of.html, "It as one HTML file", kind="text/html", refuses=(404,)),
        Operation(
            "GET",
            f"{one}/siblings",
            of.siblings,
            "All attempts at its question",
            reply=schemas.SIBLINGS,
            refuses=(404,),
        ),
    )


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
        refuses=(*_ASK_REFUSALS, 413, 502),
    ),
    Operation("GET", "/api/about", episode_handlers.about, "What this server offers", reply=schemas.ANY),
    Operation(
        "POST",
        "/api/ask",
        episode_handlers.ask,
        "Ask a question",
        schemas.ASK,
        schemas.JOB,
        202,
        refuses=(*_ASK_REFUSALS, 413),
    ),
    Operation(
        "GET", "/api/episodes", episode_handlers.episodes, "Questions asked here", reply=schemas.PAGE, query=_PAGING
    ),
    *_episode_operations("/api/episodes"),
    Operation(
        "POST",
        "/api/episodes/{id}/cancel",
        episode_handlers.cancel,
        "Stop an episode",
        reply=schemas.JOB,
        refuses=(404,),
    ),
    Operation(
        "POST",
        "/api/episodes/{id}/again",
        episode_handlers.again,
        "Ask its question again",
        reply=schemas.JOB,
        status=202,
        refuses=_ASK_REFUSALS,
    ),
    Operation(
        "POST",
        "/api/episodes/{id}/resume",
        episode_handlers.resume,
        "Resume an interrupted episode",
        reply=schemas.JOB,
        status=202,
        refuses=_ASK_REFUSALS,
    ),
    Operation(
        "GET",
        "/api/compare",
        episode_handlers.compare,
        "Compare runs, with paired tests",
        reply=schemas.ANY,
        query={"runs": text("names, separated by commas")},
        refuses=(404,),
    ),
    Operation("GET", "/api/runs", episode_handlers.runs, "Stored runs", reply=record("runs", runs=many(schemas.ANY))),
    Operation(
        "GET",
        "/api/runs/{run}",
        episode_handlers.run,
        "A run: result table and curves",
        reply=schemas.ANY,
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/runs/{run}/curves",
        episode_handlers.curves,
        "New points of its curves",
        reply=schemas.ANY,
        query={"after": whole("only points after this step", -1, 10**9)},
        refuses=(404,),
    ),
    Operation(
        "GET",
        "/api/runs/{run}/episodes",
        episode_handlers.run_episodes,
        "Its episodes",
        reply=schemas.PAGE,
        query=_PAGING,
        refuses=(404,),
    ),
    *_episode_operations("/api/runs/{run}/episodes"),
    Operation(
        "GET", "/api/indexes", search_handlers.indexes, "Indexes", reply=record("indexes", indexes=many(schemas.ANY))
    ),
    Operation(
        "POST",
        "/api/indexes/{index}/search",
        search_handlers.search_index,
        "Search an index",
        schemas.INDEX_SEARCH,
        record("hits", hits=many(schemas.HIT)),
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "GET",
        "/api/indexes/{index}/document",
        search_handlers.document,
        "A document",
        reply=record("id title text", id=text(), title=text(), text=text()),
        query={"id": text("of the document")},
        refuses=(404, 409),
    ),
    Operation(
        "POST",
        "/api/indexes/{index}/documents",
        search_handlers.add_documents,
        "Add documents to an index, which is created if there is none",
        schemas.DOCUMENTS,
        schemas.ANY,
        201,
        refuses=(403, 409, 413),
    ),
    Operation(
        "POST",
        "/retrieve",
        search_handlers.retrieve,
        "Search-R1: search",
        schemas.RETRIEVE,
        schemas.RESULT,
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "POST",
        "/rerank",
        search_handlers.rerank,
        "Search-R1: rerank",
        schemas.RERANK,
        schemas.RESULT,
        refuses=(413, 502),
    ),
    Operation(
        "POST",
        "/search",
        search_handlers.search,
        "ReCall: search",
        schemas.SEARCH,
        many({}),
        refuses=_SEARCH_REFUSALS,
    ),
    Operation(
        "POST",
        "/batch_search",
        search_handlers.batch_search,
        "ReCall: many searches",
        schemas.BATCH,
        many({}),
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
