"""Server-sent events (SSE): the events of an episode over HTTP, which a client can resume where it lost them.

Each event has its `seq` as the id. A client that returns with `Last-Event-ID: 17` gets event 18 and all that follow,
from memory or from the store, so no event is missing or sent twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from starlette.responses import StreamingResponse

from ..codec import to_dict
from ..events import Event
from .jobs import Job
from .replies import json_bytes

HEARTBEAT = 15.0
"""Seconds of silence after which a comment shows both ends that the other is still there."""


def event_stream(parts: AsyncIterator[bytes]) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts, media_type="text/event-stream", headers=headers)


def frame(data: Any, *, identifier: int | None = None, kind: str = "") -> bytes:
    """One server-sent event."""
    head = (f"id: {identifier}\n" if identifier is not None else "") + (f"event: {kind}\n" if kind else "")
    return head.encode() + b"data: " + json_bytes(data) + b"\n\n"


async def live_events(job: Job, after: int, *, text: bool = False) -> AsyncIterator[bytes]:
    """A job's events until it ends, then its status; with `text`, also what is being written (`event: text`)."""
    async for part in with_heartbeat(_frames(job, after, text)):
        yield part


async def _frames(job: Job, after: int, text: bool) -> AsyncIterator[bytes]:
    async for found in job.watch(after):
        if isinstance(found, Event):
            yield frame(to_dict(found), identifier=found.seq)
        elif text:
            yield frame(found._asdict(), kind="text")
    yield frame({"status": job.status}, kind="done")


async def stored_events(events: list[Event], status: str) -> AsyncIterator[bytes]:
    for event in events:
        yield frame(to_dict(event), identifier=event.seq)
    yield frame({"status": status}, kind="done")


async def with_heartbeat(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts, with a comment whenever there is none for a while."""
    step: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            step = step or asyncio.ensure_future(_next(parts))
            done, _ = await asyncio.wait({step}, timeout=HEARTBEAT)
            if not done:
                yield b": still here\n\n"
                continue
            part, step = step.result(), None
            if part is None:
                return
            yield part
    finally:
        if step is not None:
            step.cancel()
            await asyncio.gather(step, return_exceptions=True)


async def _next(parts: AsyncIterator[bytes]) -> bytes | None:
    return await anext(parts, None)
