"""The routes of the server in one table, from which the OpenAPI document is generated too."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from .._version import __version__
from ..exports import MEDIA_TYPES
from . import chat, replies, requests
from . import episode_handlers as episodes
from . import file_handlers as files
from . import model_handlers as models
from . import search_handlers as searches
from .openapi import Handler, Operation, openapi_document
from .replies import Json, Object, as_problem
from .state import state_of

_get, _post = partial(Operation, "GET"), partial(Operation, "POST")
_MISSING = (404,)
_SEARCH = (404, 409, 413)
_ASK = (404, 409, 429, 503, 507)


async def health(request: Request) -> Response:
    """Status 200 even if the disk is full: whoever restarts the server then would lose the answers it still holds."""
    jobs, watch = state_of(request).jobs, state_of(request).watch
    return Json(
        {
            "status": "storage" if jobs.storage_problem else "ok",
            "version": __version__,
            "storage": "the disk is full or fails; see the server's log" if jobs.storage_problem else "",
            "unstored": jobs.unstored,
            "stalls": watch.stalls,
            "longest_stall": round(watch.longest, 1),
        }
    )


async def metrics(request: Request) -> Response:
    state = state_of(request)
    live = state.jobs.live()
    for status in ("queued", "running"):
        state.counters.set("subquest_jobs", sum(job.status == status for job in live), status=status)
    return PlainTextResponse(state.counters.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


async def openapi(request: Request) -> Response:
    return Json(openapi_document(OPERATIONS))


def _episode_operations(base: str) -> tuple[Operation, ...]:
    """What can be read of an episode, here or in a stored run."""
    one, events = f"{base}/{{id}}", requests.AfterEvent
    return (
        _get(one, episodes.episode, "An episode", Object, refuses=_MISSING),
        _get(
            f"{one}/events",
            episodes.events,
            "Its events, live",
            query=events,
            refuses=_MISSING,
            media_type="text/event-stream",
        ),
        _get(f"{one}/tokens", episodes.tokens, "Every token of it", Object, refuses=_MISSING),
        _get(f"{one}/html", episodes.html, "It as one HTML file", refuses=_MISSING, media_type="text/html"),
        _get(
            f"{one}/report",
            episodes.report,
            "Its answer and sources as a document",
            query=requests.ReportFormat,
            refuses=_MISSING,
            media_type=",".join(kind.partition(";")[0] for kind in MEDIA_TYPES.values()),
        ),
        _get(f"{one}/siblings", episodes.siblings, "All attempts at its question", replies.Siblings, refuses=_MISSING),
    )


OPERATIONS = (
    _get("/health", health, "Is the server up?", replies.Health),
    _get("/metrics", metrics, "Counters for Prometheus", media_type="text/plain"),
    _get("/openapi.json", openapi, "This document", Object),
    _get("/v1/models", chat.models, "OpenAI: the agents as models", replies.ModelList),
    _get("/v1/models/{name}", chat.model, "OpenAI: one agent", Object, refuses=_MISSING),
    _post(
        "/v1/chat/completions",
        chat.completions,
        "OpenAI: answer the last message",
        Object,
        requests.Chat,
        refuses=(*_ASK, 413, 502),
    ),
    _get("/api/about", episodes.about, "What this server offers", Object),
    _get("/api/model", models.model_settings_shown, "Which model is used, and whether it may be set", Object),
    Operation(
        "PUT",
        "/api/model",
        models.set_model,
        "Use a model at an endpoint",
        Object,
        requests.Model,
        refuses=(413, 501, 507),
    ),
    Operation("DELETE", "/api/model", models.unset_model, "Use the server's own model again", Object, refuses=(507,)),
    _post(
        "/api/model/try",
        models.try_model,
        "Ask an endpoint a few tiny questions and say what works",
        Object,
        requests.Model,
        refuses=(413, 429, 501),
    ),
    _post("/api/ask", episodes.ask, "Ask a question", replies.Accepted, requests.Ask, refuses=(*_ASK, 413), status=202),
    _get("/api/episodes", episodes.episodes, "Questions asked here", replies.EpisodePage, query=requests.Paging),
    *_episode_operations("/api/episodes"),
    _get(
        "/api/episodes/{id}/thread",
        episodes.thread,
        "The conversation that it belongs to",
        replies.Thread,
        refuses=_MISSING,
    ),
    _post("/api/episodes/{id}/cancel", episodes.cancel, "Stop an episode", replies.Accepted, refuses=_MISSING),
    _post(
        "/api/episodes/{id}/again",
        episodes.again,
        "Ask its question again",
        replies.Accepted,
        refuses=_ASK,
        status=202,
    ),
    _post(
        "/api/episodes/{id}/resume",
        episodes.resume,
        "Resume an interrupted episode",
        replies.Accepted,
        refuses=_ASK,
        status=202,
    ),
    _get(
        "/api/compare",
        episodes.compare,
        "Compare runs, with paired tests",
        Object,
        query=requests.RunNames,
        refuses=_MISSING,
    ),
    _get("/api/runs", episodes.runs, "Stored runs", replies.RunList),
    _get("/api/runs/{run}", episodes.run, "A run: result table and curves", Object, refuses=_MISSING),
    _get(
        "/api/runs/{run}/curves",
        episodes.curves,
        "New points of its curves",
        Object,
        query=requests.AfterStep,
        refuses=_MISSING,
    ),
    _get(
        "/api/runs/{run}/episodes",
        episodes.run_episodes,
        "Its episodes",
        replies.EpisodePage,
        query=requests.Paging,
        refuses=_MISSING,
    ),
    *_episode_operations("/api/runs/{run}/episodes"),
    _get(
        "/api/runs/{run}/questions",
        episodes.matrix,
        "Its questions with the answer of each system",
        replies.Matrix,
        query=requests.MatrixPage,
        refuses=_MISSING,
    ),
    _get("/api/indexes", searches.indexes, "Indexes", replies.IndexList),
    _post(
        "/api/indexes/{index}/search",
        searches.search_index,
        "Search an index",
        replies.IndexHits,
        requests.IndexSearch,
        refuses=_SEARCH,
    ),
    _get(
        "/api/indexes/{index}/document",
        files.document,
        "A document, with its neighbours in its file",
        replies.DocumentInFile,
        query=requests.DocumentAround,
        refuses=(404, 409),
    ),
    Operation(
        "DELETE",
        "/api/indexes/{index}/document",
        searches.remove_document,
        "Remove a document",
        Object,
        query=requests.DocumentId,
        refuses=(403, 404, 409, 507),
    ),
    _post(
        "/api/indexes/{index}/documents",
        searches.add_documents,
        "Add documents to an index, which is created if there is none",
        Object,
        requests.AddDocuments,
        refuses=(403, 409, 413, 507),
        status=201,
    ),
    _get("/api/cited", files.cited, "Which index has a cited document", replies.IndexOf, query=requests.Cited),
    _get(
        "/api/indexes/{index}/page",
        files.page,
        "A page of a PDF as it looks",
        Object,
        query=requests.PageOfFile,
        refuses=(404, 409, 501),
    ),
    _get(
        "/api/indexes/{index}/files",
        files.listed,
        "The files of an index",
        replies.FilePage,
        query=requests.FileList,
        refuses=(404, 409),
    ),
    Operation(
        "PUT",
        "/api/indexes/{index}/file",
        files.add,
        "Add a file to an index, which is created if there is none",
        replies.FileAdded,
        query=requests.NewFile,
        takes_file=True,
        refuses=(403, 409, 413, 507),
        status=201,
    ),
    Operation(
        "DELETE",
        "/api/indexes/{index}/file",
        files.remove,
        "Remove a file and its passages",
        Object,
        query=requests.FileName,
        refuses=(403, 404, 409, 507),
    ),
    _post(
        "/api/indexes/{index}/file/read",
        files.read_again,
        "Read a file again",
        replies.FileAdded,
        query=requests.FileName,
        refuses=(403, 404, 409, 507),
    ),
    _post("/retrieve", searches.retrieve, "Search-R1: search", replies.Result, requests.Retrieve, refuses=_SEARCH),
    _post("/rerank", searches.rerank, "Search-R1: rerank", replies.Result, requests.Rerank, refuses=(413, 502)),
    _post("/search", searches.search, "ReCall: search", list[Any], requests.Search, refuses=_SEARCH),
    _post("/batch_search", searches.batch_search, "ReCall: searches", list[Any], requests.BatchSearch, refuses=_SEARCH),
)


def routes() -> list[Route]:
    """One route for each path, so that a 405 names all of its methods."""
    paths: dict[str, dict[str, Handler]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _counted(operation)
    return [Route(path, _by_method(handlers), methods=list(handlers)) for path, handlers in paths.items()]


def _by_method(handlers: dict[str, Handler]) -> Handler:
    async def handle(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handle


def _counted(operation: Operation) -> Handler:
    """The handler, with its requests counted under the route's path."""

    async def handle(request: Request) -> Response:
        begun = time.monotonic()
        status = "499"  # the client has disconnected
        try:
            response = await operation.handler(request)
            status = str(response.status_code)
            return response
        except ClientDisconnect:
            raise
        except Exception as error:
            problem = as_problem(error)
            status = str(problem.status)
            if problem.status == 507:
                raise problem from error
            raise
        finally:
            counters = state_of(request).counters
            counters.add("subquest_requests_total", route=operation.path, method=operation.method, status=status)
            counters.add("subquest_request_seconds_total", time.monotonic() - begun, route=operation.path)

    return handle
