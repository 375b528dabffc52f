"""`POST /retrieve` by the shortest way: training asks it thousands of times a second.

A request that is plainly good (the usual header, the token where one is needed, queries that want scores) is answered
where its bytes arrive: no task, no request and response objects, no framework. Whatever is not plainly good goes to the
app, which has the same rules and knows how to refuse. Heads are read by uvicorn's own parser, each the first time it
comes. The short way reaches into uvicorn, so it is taken only where uvicorn is as it was written for (`Door.rehearse`).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from ..errors import SubquestError
from .bodies import Problem, as_problem, parsed, problem_reply
from .guard import Guard
from .searching import result, scored_search
from .state import State

PATH = "/retrieve"
_LINE = b"POST %b HTTP/1.1\r\n" % PATH.encode()
_UNUSUAL = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"content-encoding"})
_HEADS = 4096
"""Heads remembered at most."""
HEAD_BYTES = 1 << 16
"""The largest head of a request; the parser itself would take any."""
PATIENCE = 30.0
"""Seconds for a head to be complete, and without a byte of a body, before a client is given up."""
log = logging.getLogger("subquest.serve")


class Door:
    """What all connections of a server share on the short way."""

    def __init__(self, app: Starlette) -> None:
        self.state: State = app.state.subquest
        self.guard = Guard(app, self.state.settings)
        self.heads: dict[bytes, int] = {}
        """Heads of requests (all up to the body) that were found plain, with the size of the body they announce. A
        client sends the same head again and again: what was read once need not be read another time."""
        self.waiting: set[Connection] = set()
        """Connections that owe the rest of a request, or their first one."""
        self._sweeping: asyncio.TimerHandle | None = None
        self.seconds = self.state.metrics.counter("subquest_request_seconds_total", route=PATH)
        self._counters: dict[int, Callable[[float], None]] = {}

    def connection(self, **given: Any) -> Connection:
        """A new connection, as uvicorn asks for it."""
        return Connection(self, **given)

    def rehearse(self) -> None:
        """Raise an error where uvicorn is not as the short way knows it: by a request that leads nowhere."""
        config = uvicorn.Config(_nobody, lifespan="off")
        config.load()
        state = ServerState()
        made = self.connection(config=config, server_state=state, app_state={})
        made.connection_made(_Nowhere())
        made.data_received(_LINE + b"Host: x\r\n\r\n")
        for task in state.tasks:
            task.cancel()
        cycle, lines = made.cycle, list(made.headers)
        if (cycle.response_complete, cycle.disconnected, cycle.keep_alive) != (False, False, True):
            raise TypeError("a request that has just begun seems to have ended")
        if made.flow.write_paused or lines != [(b"host", b"x")] or state.default_headers or not made.parser:
            raise TypeError("a connection that has just begun is not ready")
        if not callable(made.on_response_complete) or not STATUS_LINE[200].startswith(b"HTTP/1.1 200 "):
            raise TypeError("an answer cannot be written")
        made.connection_lost(None)
        if not cycle.disconnected:
            raise TypeError("a client that goes is not noticed")

    def wait_for(self, connection: Connection) -> None:
        """Keep an eye on a client that has more to say: many that say no more would use up all connections."""
        self.waiting.add(connection)
        if self._sweeping is None:
            self._sweeping = connection.loop.call_later(PATIENCE / 6, self._sweep, connection.loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        for connection in [one for one in self.waiting if one.heard + PATIENCE < now and not one.flow.read_paused]:
            self.waiting.discard(connection)
            connection.transport.close()
        self._sweeping = loop.call_later(PATIENCE / 6, self._sweep, loop) if self.waiting else None

    def remember(self, head: bytes, size: int) -> None:
        if len(self.heads) >= _HEADS:
            self.heads.clear()
        self.heads[head] = size

    def count(self, status: int, seconds: float) -> None:
        counter = self._counters.get(status)
        if counter is None:
            counter = self.state.metrics.counter(
                "subquest_requests_total", route=PATH, method="POST", status=str(status)
            )
            self._counters[status] = counter
        counter(1.0)
        self.seconds(seconds)


class Direct:
    """A request on the short way; takes the place of uvicorn's own record of a connection's request."""

    __slots__ = ("begun", "disconnected", "keep_alive", "response_complete")
    message_event = asyncio.Event()
    """Uvicorn sets it when a client goes; nobody waits for it here."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.keep_alive = True
        self.disconnected = self.response_complete = False


class Connection(HttpToolsProtocol):
    """A connection that knows the short way."""

    def __init__(self, door: Door, **given: Any) -> None:
        super().__init__(**given)
        self._door = door
        self._held = b""
        """The beginning of a request whose head is known, until its body is here."""
        self._head = b""
        """What a request began with, while its head is being read."""
        self._between = True
        """The parser is between two requests."""
        self._head_size: int | None = None
        """Bytes of a head so far, while it is not complete."""
        self.heard = time.monotonic()
        """When the client began a head, or last sent a part of a body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._door.wait_for(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.waiting.discard(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_size is None:
            self.heard = time.monotonic()
        self._receive(data)
        if self._between and not self._held:
            self._door.waiting.discard(self)
            return
        self._door.wait_for(self)
        if self._head_size is not None:
            self._head_size += len(data)
            if self._head_size > HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()

    def _receive(self, data: bytes) -> None:
        if self._between and (self.cycle is None or self.cycle.response_complete):
            if self._held:
                data, self._held = self._held + data, b""
            end = data.find(b"\r\n\r\n") + 4
            size = self._door.heads.get(data[:end])
            if size is not None and not self.flow.write_paused:
                self._unset_keepalive_if_required()
                missing = end + size - len(data)
                if missing > 0:
                    self._held = data
                    return
                if missing == 0 and self._search(data[end:]):
                    return
            self._head = data[:end] if data.startswith(_LINE) else b""
        super().data_received(data)

    def on_message_begin(self) -> None:
        self._between, self._head_size = False, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_size = None
        if self._head and self._is_plain():
            self._door.remember(self._head, int(dict(self.headers)[b"content-length"]))
        self._head = b""
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._between = True
        super().on_message_complete()

    def _is_plain(self) -> bool:
        """Whether the app would let such a request in, and its head can be read in one way only."""
        lines = dict(self.headers)
        size = lines.get(b"content-length", b"")
        return (
            self.parser.should_keep_alive()
            and _read(self._head) == self.headers
            and len(lines) == len(self.headers)
            and _UNUSUAL.isdisjoint(lines)
            and size.isdigit()
            and int(size) <= self._door.state.settings.max_body
            and self._door.guard.knows(lines)
        )

    def _search(self, body: bytes) -> bool:
        """Begin to answer; False where the app has to."""
        try:
            found = scored_search(self._door.state, parsed(body))
        except (Problem, SubquestError):
            return False
        if found is None:
            return False
        direct = Direct()
        self.cycle = direct  # type: ignore[assignment]
        found.add_done_callback(functools.partial(self._answer, direct))
        return True

    def _answer(self, direct: Direct, found: asyncio.Future[list[bytes]]) -> None:
        status, lines, body = _reply(found)
        if direct.disconnected or self.transport.is_closing():
            status = 499
        else:
            lines += b"".join(b"%b: %b\r\n" % line for line in self.server_state.default_headers)
            if not direct.keep_alive:
                lines += b"connection: close\r\n"
            self.transport.write(b"%b%bcontent-length: %d\r\n\r\n%b" % (STATUS_LINE[status], lines, len(body), body))
            direct.response_complete = True
            if not direct.keep_alive:
                self.transport.close()
            self.on_response_complete()
        self._door.count(status, time.monotonic() - direct.begun)


_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: 47\r\n\r\nThe head of the request is longer than 64 KiB.\n"
)


class _Nowhere(asyncio.Transport):
    """A transport that leads nowhere."""

    def close(self) -> None:
        pass


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    """An app that is never asked."""


def _read(head: bytes) -> list[tuple[bytes, bytes]]:
    """The header lines of a head, read without any leniency; where the parser read the same, no doubt is left."""
    _, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    pairs = (line.partition(b":") for line in lines)
    return [(name.lower(), value.strip(b" \t")) for name, _, value in pairs] if b"\n" not in b"".join(lines) else []


def _reply(found: asyncio.Future[list[bytes]]) -> tuple[int, bytes, bytes]:
    """Status, header lines and body for a search that has ended."""
    lines = b"content-type: application/json\r\nx-content-type-options: nosniff\r\n"
    error = None if found.cancelled() else found.exception()
    if error is None and not found.cancelled():
        return 200, lines, result(found.result())
    problem = (
        as_problem(error) if isinstance(error, Exception) else Problem(503, "the server is stopping", code="stopping")
    )
    if problem.status == 500:
        log.error("POST %s failed", PATH, exc_info=error)
    return problem.status, lines, bytes(problem_reply(problem).body)
