"""Handlers under `/api`: asking questions, following episodes, reading stored runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import Any

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from ..codec import to_dict
from ..exports import MEDIA_TYPES, export
from ..readers.images import can_recognise
from ..record import Question
from .chat import FollowUp
from .compare import MAX_COMPARED, compare_runs
from .episode_view import as_html
from .jobs import Job
from .replies import Json, Problem
from .requests import AfterEvent, AfterStep, Ask, MatrixPage, Paging, ReportFormat, RunNames, read_body, read_query
from .run_library import ASKED
from .sse import event_stream, live_events, stored_events
from .state import State, state_of

FOLLOWED = 8
"""Earlier questions that a follow-up includes."""
FOLLOWED_TEXT = 2000
"""Characters of each earlier answer; a report has many more."""


async def about(request: Request) -> Response:
    """What this server offers."""
    state = state_of(request)
    return Json(
        {
            "version": __version__,
            "systems": state.agents.systems,
            "models": state.agents.models,
            "model_details": await state.agents.describe_models(),
            "system_details": state.agents.describe_systems(),
            "indexes": state.agents.indexes.names,
            "asks": state.settings.asks,
            "read_only": state.settings.read_only,
            "max_file": state.settings.max_file,
            "ocr": can_recognise(),
        }
    )


async def ask(request: Request) -> Response:
    state = state_of(request)
    body = await read_body(request, Ask, state.settings.max_body)
    question = FollowUp((), body.question)
    if body.beside and await asyncio.to_thread(state.library.asked, body.beside) is None:
        raise Problem(404, f"nothing was asked under {body.beside!r}")
    if body.follows:
        question = await asyncio.to_thread(_with_earlier, state, body.follows, body.question)
    job = await state.jobs.submit(
        question.text,
        lambda replay: state.agents.get(body.system, body.model, body.index, replay=replay),
        seed=body.seed,
        system=body.system or next(iter(state.agents.systems), ""),
        model=body.model,
        index=body.index,
        style=body.style,
        follows=body.follows,
        beside=body.beside,
        **question.meta,
    )
    return _accepted(job)


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rsplit(None, 1)[0]} …"


def _with_earlier(state: State, follows: str, asked: str) -> FollowUp:
    """A follow-up question with the earlier questions and answers, so that it can be understood."""
    before: list[tuple[str, str]] = []
    while follows and len(before) < 2 * FOLLOWED:
        job = state.jobs.get(follows)
        question = job.question if job else state.library.asked(follows)
        if question is None:
            raise Problem(404, f"nothing was asked under {follows!r}")
        said = (job.episode.answer if job.episode else "") if job else state.library.answer_of(follows)
        text = str(question.meta.get("asked") or question.question)
        before = [("user", text), ("assistant", shortened(said, FOLLOWED_TEXT) or "(no answer)"), *before]
        follows = str(question.meta.get("follows", ""))
    return FollowUp(before, asked)


async def again(request: Request) -> Response:
    """Ask the question of an episode again, from the start."""
    state, question = await _asked(request)
    return _accepted(await _ask_again(state, question, again=question.id))


async def resume(request: Request) -> Response:
    """Resume an episode that was interrupted when the server stopped; no model is asked twice for the same turn."""
    state, question = await _asked(request)
    status = await asyncio.to_thread(state.library.events, ASKED, question.id, 10**9)
    job = state.jobs.get(question.id)
    if (job is not None and job.status != "interrupted") or (job is None and status[1] != "interrupted"):
        raise Problem(409, f"the episode {question.id!r} was not interrupted", code="not_interrupted")
    for other in state.jobs.live():
        if other.question.meta.get("resumes") == question.id:
            return _accepted(other)  # a second request resumes nothing new
    replay = str(question.meta.get("journal") or question.id)
    return _accepted(await _ask_again(state, question, replay=replay, resumes=question.id))


async def _asked(request: Request) -> tuple[State, Question]:
    state = state_of(request)
    identifier = request.path_params["id"]
    job = state.jobs.get(identifier)
    question = job.question if job else await asyncio.to_thread(state.library.asked, identifier)
    if question is None:
        raise Problem(404, f"nothing was asked under {identifier!r}")
    return state, question


_KEPT = ("system", "model", "index", "style", "asked", "links", "follows", "beside")
"""What a question that is asked again takes over from the first time."""


async def _ask_again(state: State, question: Question, *, replay: str = "", **meta: str) -> Job:
    old = {name: str(question.meta.get(name, "")) for name in _KEPT}
    known = old["system"] if old["system"] in state.agents.systems else ""
    model = old["model"] if old["model"] in state.agents.models else ""
    seed = question.meta.get("seed") if replay else None
    return await state.jobs.submit(
        question.question,
        lambda name: state.agents.get(known, model, old["index"], replay=name),
        seed=seed if isinstance(seed, int) else None,
        replay=replay,
        **old,
        **meta,
    )


async def episodes(request: Request) -> Response:
    """Questions that are being answered, and those asked here before."""
    state = state_of(request)
    live = {job.id for job in state.jobs.live()}
    try:
        page = await asyncio.to_thread(_page, state, request, ASKED, live)
    except Problem as problem:
        if problem.status != 404:
            raise
        page = {"total": 0, "episodes": [], "interrupted": []}
    jobs = state.jobs.live()
    live = {job.id for job in jobs}  # some may have started while the page was read
    page["interrupted"] = [episode for episode in page["interrupted"] if episode["id"] not in live]
    return Json({"live": [_summary(job) for job in jobs], **page})


async def episode(request: Request) -> Response:
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    job = state.jobs.get(identifier) if run == ASKED else None
    if job is None:
        return Json(await asyncio.to_thread(state.library.episode, run, identifier))
    if job.episode is not None:
        return Json({**state.library.view(job.episode), "status": job.status, "run": ASKED})
    return Json({**_summary(job), "run": ASKED, "events": [to_dict(event) for event in job.events]})


async def tokens(request: Request) -> Response:
    """Every token of an episode: its text, whether the agent wrote it, its log-probability."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    return Json(await asyncio.to_thread(state.library.tokens, run, identifier, state.agents.pieces))


async def thread(request: Request) -> Response:
    """The conversation that a question belongs to, turn by turn; what was asked side by side is one turn."""
    turns = await asyncio.to_thread(state_of(request).library.thread, request.path_params["id"])
    return Json(
        {
            "turns": [
                {
                    "asked": turn[0].meta.get("asked") or turn[0].question,
                    "episodes": [
                        {
                            "id": question.id,
                            **{name: question.meta.get(name, "") for name in ("system", "model", "index", "style")},
                        }
                        for question in turn
                    ],
                }
                for turn in turns
            ]
        }
    )


async def siblings(request: Request) -> Response:
    """All attempts at an episode's question in the same run; in training, the rollouts of its group."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    return Json({"siblings": await asyncio.to_thread(state.library.siblings, run, identifier)})


async def html(request: Request) -> Response:
    """A finished episode as one HTML file."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    text = await asyncio.to_thread(lambda: as_html(state.library.finished(run, identifier)))
    headers = {"Content-Disposition": "attachment"}  # our security policy forbids its inline script
    return Response(text, media_type="text/html", headers=headers)


async def report(request: Request) -> Response:
    """The answer of a finished episode and its sources as a document to download."""
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    form = read_query(request, ReportFormat).format
    data = await asyncio.to_thread(lambda: export(state.library.finished(run, identifier), form))
    headers = {"Content-Disposition": f'attachment; filename="report.{form}"'}
    return Response(data, media_type=MEDIA_TYPES[form], headers=headers)


async def cancel(request: Request) -> Response:
    state = state_of(request)
    identifier = request.path_params["id"]
    job = state.jobs.get(identifier)
    if job is None:
        raise Problem(404, f"no question {identifier!r} is being answered")
    await state.jobs.cancel(job)
    return Json({"id": job.id, "status": job.status})


async def events(request: Request) -> Response:
    state = state_of(request)
    run, identifier = request.path_params.get("run", ASKED), request.path_params["id"]
    after = _last_seen(request)
    job = state.jobs.get(identifier) if run == ASKED else None
    if job is not None:
        return event_stream(live_events(job, after, text=read_query(request, AfterEvent).text))
    return event_stream(stored_events(*await asyncio.to_thread(state.library.events, run, identifier, after)))


async def runs(request: Request) -> Response:
    return Json({"runs": await asyncio.to_thread(state_of(request).library.runs)})


async def run(request: Request) -> Response:
    return Json(await asyncio.to_thread(state_of(request).library.run, request.path_params["run"]))


async def matrix(request: Request) -> Response:
    """The questions of a run with the answer of each system."""
    query = to_builtins(read_query(request, MatrixPage))
    return Json(await asyncio.to_thread(state_of(request).library.matrix, request.path_params["run"], **query))


async def curves(request: Request) -> Response:
    """The points of a run's curves after a step."""
    after = read_query(request, AfterStep).after
    return Json(await asyncio.to_thread(state_of(request).library.curves, request.path_params["run"], after))


async def compare(request: Request) -> Response:
    """Compare runs: tables, paired tests against the first, questions on which they differ."""
    names = [name for name in read_query(request, RunNames).runs.split(",") if name]
    if not 1 <= len(names) <= MAX_COMPARED:
        raise Problem(400, f"`runs` must be the names of 1 to {MAX_COMPARED} runs, separated by commas")
    return Json(await asyncio.to_thread(compare_runs, state_of(request).library, names))


async def run_episodes(request: Request) -> Response:
    state = state_of(request)
    return Json(await asyncio.to_thread(_page, state, request, request.path_params["run"]))


def _page(state: State, request: Request, run: str, live: Collection[str] = ()) -> dict[str, Any]:
    page = read_query(request, Paging)
    return state.library.episodes(
        run,
        offset=page.offset,
        limit=page.limit,
        system=page.system,
        ending=page.ending,
        text=page.text,
        live=live,
    )


def _last_seen(request: Request) -> int:
    said = request.headers.get("last-event-id", "")
    if not said:
        return read_query(request, AfterEvent).after
    if not (said.isascii() and said.isdigit() and len(said) < 10):
        raise Problem(400, "`Last-Event-ID` must be the id of an event")
    return int(said)


def _accepted(job: Job) -> Json:
    address = f"/api/episodes/{job.id}"
    return Json({"id": job.id, "status": job.status, "events": f"{address}/events"}, 202, {"Location": address})


def _summary(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "status": job.status,
        "question": to_dict(job.question),
        "seconds": round(time.monotonic() - job.started, 3) if job.started else 0.0,
        "system": job.system.name,
        "model": job.system.model_name,
    }
