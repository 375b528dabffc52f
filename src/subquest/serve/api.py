"""Asking, watching and looking back: the handlers under `/api`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from ..codec import to_dict
from ..record import Question
from .bodies import Json, Problem, query_integer, read_body
from .chat import with_history
from .compare import MAX_COMPARED, compared
from .export import as_html
from .jobs import Job
from .shelf import ASKED, shown
from .state import State, state_of
from .streams import event_stream, live, stored

FOLLOWED = 8
"""Questions that a follow-up is told of."""


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
    body.only("question", "system", "model", "index", "seed", "follows")
    system, model, index = body.text("system", ""), body.text("model", ""), body.text("index", "")
    asked, follows = body.text("question"), body.text("follows", "")
    question = await asyncio.to_thread(_after, state, follows, asked) if follows else asked
    job = state.board.submit(
        question,
        lambda journal: state.agents.get(system, model, index, journal=journal),
        seed=body.optional_integer("seed"),
        system=system or next(iter(state.agents.systems), ""),
        model=model,
        index=index,
        asked=asked if follows else "",
        follows=follows,
    )
    return _accepted(job)


def _after(state: State, follows: str, asked: str) -> str:
    """A follow-up question with the questions and answers before it, so that it can be understood."""
    before: list[tuple[str, str]] = []
    while follows and len(before) < 2 * FOLLOWED:
        job = state.board.get(follows)
        question = job.question if job else state.shelf.asked(follows)
        if question is None:
            raise Problem(404, f"nothing was asked under {follows!r}")
        said = (job.episode.answer if job.episode else "") if job else state.shelf.answer_of(follows)
        text = str(question.meta.get("asked") or question.question)
        before = [("user", text), ("assistant", said or "(no answer)"), *before]
        follows = str(question.meta.get("follows", ""))
    return with_history(before, asked)


async def again(request: Request) -> Response:
    """Ask once more what was asked under an id, from the beginning."""
    state, question = await _asked(request)
    return _accepted(_resubmitted(state, question, again=question.id))


async def resume(request: Request) -> Response:
    """Go on with an episode that a stop of the server cut off: what was said before is not asked again."""
    state, question = await _asked(request)
    status = await asyncio.to_thread(state.shelf.events, ASKED, question.id, 10**9)
    job = state.board.get(question.id)
    if (job is not None and job.status != "interrupted") or (job is None and status[1] != "interrupted"):
        raise Problem(409, f"the episode {question.id!r} was not interrupted", code="not_interrupted")
    for other in state.board.live():
        if other.question.meta.get("resumes") == question.id:
            return _accepted(other)  # asked for twice: it goes on once
    return _accepted(
        _resubmitted(state, question, journal=str(question.meta.get("journal") or question.id), resumes=question.id)
    )


async def _asked(request: Request) -> tuple[State, Question]:
    state = state_of(request)
    identifier = request.path_params["id"]
    job = state.board.get(identifier)
    question = job.question if job else await asyncio.to_thread(state.shelf.asked, identifier)
    if question is None:
        raise Problem(404, f"nothing was asked under {identifier!r}")
    return state, question


def _resubmitted(state: State, question: Question, *, journal: str = "", **meta: str) -> Job:
    old = {name: str(question.meta.get(name, "")) for name in ("system", "model", "index", "asked", "follows")}
    known = old["system"] if old["system"] in state.agents.systems else ""
    seed = question.meta.get("seed") if journal else None
    return state.board.submit(
        question.question,
        lambda name: state.agents.get(known, old["model"], old["index"], journal=name),
        seed=seed if isinstance(seed, int) else None,
        journal=journal,
        **old,
        **meta,
    )


async def episodes(request: Request) -> Response:
    """Questions that are being answered, and those asked here before."""
    state = state_of(request)
    alive = {job.id for job in state.board.live()}
    try:
        before = await asyncio.to_thread(_page, state, request, ASKED, alive)
    except Problem as problem:
        if problem.status != 404:
            raise
        before = {"total": 0, "episodes": [], "interrupted": []}
    live = state.board.live()
    begun = {job.id for job in live}  # while the page was read
    before["interrupted"] = [one for one in before["interrupted"] if one["id"] not in begun]
    return Json({"live": [_summary(job) for job in live], **before})


async def episode(request: Request) -> Response:
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    job = state.board.get(identifier) if run == ASKED else None
    if job is None:
        return Json(await asyncio.to_thread(state.shelf.episode, run, identifier))
    if job.episode is not None:
        return Json({**shown(job.episode), "status": job.status, "run": ASKED})
    return Json({**_summary(job), "run": ASKED, "events": [to_dict(event) for event in job.events]})


async def tokens(request: Request) -> Response:
    """Every token of an episode: the text of each, whether the agent wrote it, its log-probability, its advantage."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    return Json(await asyncio.to_thread(state.shelf.tokens, run, identifier, state.agents.pieces))


async def siblings(request: Request) -> Response:
    """The other attempts at an episode's question in the same run; in training, the rollouts of its group."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    return Json({"siblings": await asyncio.to_thread(state.shelf.siblings, run, identifier)})


async def html(request: Request) -> Response:
    """A finished episode as one HTML file."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    text = await asyncio.to_thread(lambda: as_html(state.shelf.finished(run, identifier)))
    headers = {"Content-Disposition": "attachment"}  # its script is inline, which this server's own pages may not have
    return Response(text, media_type="text/html", headers=headers)


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


async def curves(request: Request) -> Response:
    """What a run's curves have gained behind a step."""
    after = query_integer(request, "after", -1, -1, 10**9)
    return Json(await asyncio.to_thread(state_of(request).shelf.curves, request.path_params["run"], after))


async def compare(request: Request) -> Response:
    """Runs beside each other: tables, paired tests against the first, questions on which they differ."""
    names = [name for name in request.query_params.get("runs", "").split(",") if name]
    if not 1 <= len(names) <= MAX_COMPARED:
        raise Problem(400, f"`runs` must name 1 to {MAX_COMPARED} runs, apart by commas")
    return Json(await asyncio.to_thread(compared, state_of(request).shelf, names))


async def run_episodes(request: Request) -> Response:
    state = state_of(request)
    return Json(await asyncio.to_thread(_page, state, request, request.path_params["run"]))


def _page(state: State, request: Request, run: str, alive: Collection[str] = ()) -> dict[str, Any]:
    asked = request.query_params
    return state.shelf.episodes(
        run,
        offset=query_integer(request, "offset", 0, 0, 10**9),
        limit=query_integer(request, "limit", 50, 1, 500),
        system=asked.get("system", ""),
        ending=asked.get("ending", ""),
        text=asked.get("text", ""),
        alive=alive,
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
