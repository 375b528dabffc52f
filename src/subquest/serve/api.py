"""Asking, watching and looking back: the handlers under `/api`."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from ..codec import to_dict
from .bodies import Json, Problem, query_integer, read_body
from .jobs import Job
from .shelf import ASKED, shown
from .state import State, state_of
from .streams import event_stream, live, stored


async def about(request: Request) -> Response:
    """What can be asked of this server."""
    state = state_of(request)
    return Json(
        {
            "version": __version__,
            "systems": state.agents.systems,
            "models": state.agents.models,
            "indexes": state.agents.indexes.names,
            "asks": state.settings.asks,
            "read_only": state.settings.read_only,
        }
    )


async def ask(request: Request) -> Response:
    state = state_of(request)
    body = await read_body(request, state.settings.max_body)
    body.only("question", "system", "model", "index", "seed")
    model, index = body.text("model", ""), body.text("index", "")
    agent = state.agents.get(body.text("system", ""), model, index)
    job = state.board.submit(body.text("question"), agent, seed=body.optional_integer("seed"), model=model, index=index)
    return _accepted(job)


async def again(request: Request) -> Response:
    """Ask once more what was asked under an id: after a failure, or where a stop of the server cut it off."""
    state = state_of(request)
    identifier = request.path_params["id"]
    question = await asyncio.to_thread(state.shelf.asked, identifier)
    if question is None:
        raise Problem(404, f"nothing was asked under {identifier!r}")
    system = await asyncio.to_thread(state.shelf.system_of, identifier)
    model, index = str(question.meta.get("model", "")), str(question.meta.get("index", ""))
    agent = state.agents.get(system if system in state.agents.systems else "", model, index)
    return _accepted(state.board.submit(question.question, agent, model=model, index=index, again=identifier))


async def episodes(request: Request) -> Response:
    """Questions that are being answered, and those asked here before."""
    state = state_of(request)
    try:
        before = await asyncio.to_thread(_page, state, request, ASKED)
    except Problem as problem:
        if problem.status != 404:
            raise
        before = {"total": 0, "episodes": [], "interrupted": []}
    alive = {job.id for job in state.board.live()}
    before["interrupted"] = [one for one in before["interrupted"] if one["id"] not in alive]
    return Json({"live": [_summary(job) for job in state.board.live()], **before})


async def episode(request: Request) -> Response:
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    job = state.board.get(identifier) if run == ASKED else None
    if job is None:
        return Json(await asyncio.to_thread(state.shelf.episode, run, identifier))
    if job.episode is not None:
        return Json({**shown(job.episode), "status": job.status, "run": ASKED})
    return Json({**_summary(job), "run": ASKED, "events": [to_dict(event) for event in job.events]})


async def cancel(request: Request) -> Response:
    state = state_of(request)
    identifier = request.path_params["id"]
    job = state.board.get(identifier)
    if job is None:
        raise Problem(404, f"no question {identifier!r} is being answered")
    await state.board.cancel(job)
    return Json({"id": job.id, "status": job.status})


async def events(request: Request) -> Response:
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    after = _last_seen(request)
    job = state.board.get(identifier) if run == ASKED else None
    if job is not None:
        return event_stream(live(job, after))
    return event_stream(stored(*await asyncio.to_thread(state.shelf.events, run, identifier, after)))


async def runs(request: Request) -> Response:
    return Json({"runs": await asyncio.to_thread(state_of(request).shelf.runs)})


async def run(request: Request) -> Response:
    return Json(await asyncio.to_thread(state_of(request).shelf.run, request.path_params["run"]))


async def run_episodes(request: Request) -> Response:
    state = state_of(request)
    return Json(await asyncio.to_thread(_page, state, request, request.path_params["run"]))


def _page(state: State, request: Request, run: str) -> dict[str, Any]:
    asked = request.query_params
    return state.shelf.episodes(
        run,
        offset=query_integer(request, "offset", 0, 0, 10**9),
        limit=query_integer(request, "limit", 50, 1, 500),
        system=asked.get("system", ""),
        ending=asked.get("ending", ""),
        text=asked.get("text", ""),
    )


def _last_seen(request: Request) -> int:
    said = request.headers.get("last-event-id", "")
    if not said:
        return query_integer(request, "after", -1, -1, 10**9)
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise Problem(400, "`Last-Event-ID` must be the id of an event")
    return int(said)


def _accepted(job: Job) -> Json:
    place = f"/api/episodes/{job.id}"
    return Json({"id": job.id, "status": job.status, "events": f"{place}/events"}, 202, {"Location": place})


def _summary(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "status": job.status,
        "question": to_dict(job.question),
        "system": job.system.name,
        "model": job.system.model_name,
    }
