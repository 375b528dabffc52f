"""OpenAI's chat completions: a question in, an answer out, with additional fields that say how it was found.

    message.reasoning_content   the steps, one per line; streamed while they happen
    subquest                    {"episode", "supported", "parts_supported", "evidence", "confidence", "stop_reason", …}

The last user message is the question; the messages before it are put in front, so that a follow-up can be understood.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ..codec import to_dict
from ..events import Event
from ..protocol import fence
from ..record import Episode
from ..runtime.system import System
from ..tools.egress import urls_in
from .episode_view import status_of
from .jobs import Job
from .replies import Json, Problem
from .requests import Chat, Message, read_body
from .sse import event_stream, frame, with_heartbeat
from .state import State, state_of


async def models(request: Request) -> Response:
    state = state_of(request)
    data = [{"id": name, "object": "model", "created": 0, "owned_by": "subquest"} for name in state.agents.names()]
    return Json({"object": "list", "data": data})


async def model(request: Request) -> Response:
    name = request.path_params["name"]
    state_of(request).agents.named(name)
    return Json({"id": name, "object": "model", "created": 0, "owned_by": "subquest"})


async def completions(request: Request) -> Response:
    state = state_of(request)
    body = await read_body(request, Chat, state.settings.max_body)
    if body.n != 1:
        raise Problem(400, "`n` must be 1: an episode has one answer")
    if body.tools:
        raise Problem(400, "`tools` are not supported: the system has its own")
    name, index = body.model, body.index
    system, engine = state.agents.named(name)
    history = history_of(body.messages)

    def make(replay: str) -> System[Any]:
        return state.agents.get(system, engine, index, replay=replay)

    parts = {"system": system, "model": engine, "index": index}
    job = await state.jobs.submit(history.text, make, seed=body.seed, **parts, **history.meta)
    if body.stream:
        options = body.stream_options
        with_usage = isinstance(options, dict) and options.get("include_usage") is True
        return event_stream(with_heartbeat(_chunks(state, job, name, with_usage)))
    try:
        await _until_over_or_disconnected(request, job)
    finally:
        await state.jobs.cancel(job)
    episode = answered(job)
    message: dict[str, Any] = {"role": "assistant", "content": episode.stated_answer}
    message["reasoning_content"] = "".join(filter(None, map(step, job.events)))
    return Json(
        {
            **_head(job, name, "chat.completion"),
            "choices": [{"index": 0, "message": message, "finish_reason": _finish(episode), "logprobs": None}],
            "usage": usage(episode),
            "subquest": details(episode),
        }
    )


async def _until_over_or_disconnected(request: Request, job: Job) -> None:
    over = asyncio.ensure_future(job.wait())
    try:
        while not over.done():
            await asyncio.wait({over}, timeout=1.0)
            if not over.done() and await request.is_disconnected():
                return
    finally:
        over.cancel()


async def _chunks(state: State, job: Job, name: str, with_usage: bool) -> AsyncIterator[bytes]:
    head = _head(job, name, "chat.completion.chunk")

    def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None}
        return frame({**head, "choices": [choice], **more})

    try:
        yield chunk({"role": "assistant", "content": ""})
        async for event in job.follow():
            if text := step(event):
                yield chunk({"reasoning_content": text})
        try:
            episode = answered(job)
        except Problem as problem:
            yield frame({"error": {"message": str(problem), "type": "server_error", "code": problem.code}})
            return
        yield chunk({"content": episode.stated_answer})
        yield chunk({}, _finish(episode), subquest=details(episode))
        if with_usage:
            yield frame({**head, "choices": [], "usage": usage(episode)})
        yield b"data: [DONE]\n\n"
    finally:  # the client has everything, or has disconnected
        await state.jobs.cancel(job)


def history_of(messages: Sequence[Message]) -> FollowUp:
    """The question in a list of messages, after the ones before it."""
    turns = [(message.role, _content(message)) for message in messages]
    if not turns or turns[-1][0] != "user":
        raise Problem(400, "`messages` must end with a user message")
    before = [turn for turn in turns[:-1] if turn[0] in ("user", "assistant", "system", "developer")]
    return FollowUp(before, turns[-1][1])


class FollowUp(NamedTuple):
    """A question after earlier messages, which are pairs of role and text; there may be none.

    An earlier answer may repeat what a document says, so it is text from outside: fenced, no line of it can pass for
    another message, and the URLs in it are not the user's, who alone can offer some to a run over private documents.
    """

    before: Sequence[tuple[str, str]]
    asked: str

    @property
    def text(self) -> str:
        """The question as systems get it."""
        if not self.before:
            return self.asked
        said = [f"{role}: {fence(text)}".replace("\n", "\n  ") for role, text in self.before]
        return "\n".join(["What was said before:", *said, "", f"Question: {self.asked}"])

    @property
    def meta(self) -> dict[str, str]:
        """What is kept with the question: as it was typed, and the URLs that the user has given before."""
        if not self.before:
            return {}
        links = [url for role, text in self.before if role != "assistant" for url in urls_in(text)]
        return {"asked": self.asked, "links": " ".join(dict.fromkeys(links))}


def _content(message: Message) -> str:
    content = message.content
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        parts = [part.get("text") for part in content if part.get("type") == "text"]
        if len(parts) == len(content) and all(isinstance(p, str) for p in parts):
            return "".join(p for p in parts if isinstance(p, str))
        raise Problem(400, "only text is supported: every part of `content` must be of type text")
    return ""


def step(event: Event) -> str:
    """A line about an event for someone who waits for the answer; empty for events that do not matter to them."""
    data = event.data
    depth = "  " * event.trajectory.count(".")
    if event.kind == "task":
        return f"{depth}task: {data.get('task', '')}\n"
    if event.kind == "search":
        return "".join(f"{depth}search: {query}\n" for query in data.get("queries", ()))
    if event.kind == "result":
        return f"{depth}result: {data.get('result', '')}\n"
    if event.kind in ("error", "limit"):
        return f"{depth}{event.kind}: {data.get('message') or data.get('what', '')}\n"
    return ""


def usage(episode: Episode) -> dict[str, Any]:
    """The tokens of all roles."""
    spent = episode.usage
    return {
        "prompt_tokens": spent.prompt_tokens,
        "completion_tokens": spent.completion_tokens,
        "total_tokens": spent.prompt_tokens + spent.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": spent.cached_tokens},
    }


def details(episode: Episode) -> dict[str, Any]:
    return {
        "episode": episode.id,
        "system": episode.system,
        "supported": episode.supported,
        "parts_supported": episode.parts_supported,
        "evidence": [to_dict(e) for e in episode.evidence],
        "confidence": episode.confidence,
        "stop_reason": episode.stop_reason,
        "forced": episode.forced,
    }


def answered(job: Job) -> Episode:
    episode = job.episode
    status = status_of(episode) if episode and job.status == "unstored" else job.status
    if episode is None or status != "finished":
        met = episode.errors if episode else ()
        reasons = [f"{f.where}: {f.message}" for f in ([f for f in met if f.fatal] or met[-1:])]
        raise Problem(502, "; ".join(reasons) or f"the episode was {status}", code=status)
    return episode


def _head(job: Job, name: str, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{job.id}", "object": kind, "created": int(time.time()), "model": name}


def _finish(episode: Episode) -> str:
    return "length" if episode.forced else "stop"
