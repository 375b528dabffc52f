"""A connection that gives up on clients that stop in the middle of a request, or whose request head never ends.

Uvicorn alone would wait for such clients forever, and many of them would use up all connections.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 1 << 16
"""Bytes of a request head; the parser itself has no limit."""
PATIENCE = 30.0
"""Seconds for a request head to arrive, and seconds without a byte of a body, before a client is disconnected."""
BODY_TIME = 300.0
"""Seconds for a whole body to arrive: one that trickles would hold its connection for as long as it likes."""
FAREWELL_TIME, FAREWELL_BYTES = 2.0, 1 << 18
"""Seconds and bytes for the rest of a body whose request has been answered, as a refused one is, before the connection
is closed. A short rest is read and dropped: closing on it would lose the reply on its way."""

_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-type: text/plain\r\n"
    b"content-length: 47\r\n\r\nThe head of the request is longer than 64 KiB.\n"
)


class Connection(HttpToolsProtocol):
    """Uvicorn's connection with limits."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._awaited = True
        """The client has not finished the request that it started, or has not started its first one."""
        self._head_size: int | None = None
        """Bytes of the request head so far; None between heads."""
        self._in_body = False
        self._began = 0.0
        """When the client started the request."""
        self._heard = 0.0
        """When the client started the head, or last sent a part of the body."""
        self._timer: asyncio.TimerHandle | None = None
        self._farewell: asyncio.TimerHandle | None = None
        """Closes the connection of a client that goes on sending a body whose request has been answered."""
        self._dropped = 0
        """Bytes of that body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._heard = time.monotonic()
        self._check_client()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end_farewell()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_size is None:
            self._heard = time.monotonic()
        if not self._in_body and (self._head_size or 0) + _head_length(data) > MAX_HEAD:
            self._refuse_head()
            return
        if self._farewell is not None:
            self._dropped += len(data)
            if self._dropped > FAREWELL_BYTES:
                self.transport.close()
                return
        super().data_received(data)
        if self._awaited and self._timer is None:
            self._check_client()
        if self._head_size is not None:
            self._head_size += len(data)

    def on_message_begin(self) -> None:
        self._awaited, self._head_size, self._began = True, 0, time.monotonic()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_size, self._in_body = None, True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._awaited = self._in_body = False
        self._end_farewell()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and self.cycle.response_complete and not self.transport.is_closing():
            self._dropped = 0
            self._farewell = self.loop.call_later(FAREWELL_TIME, self.transport.close)

    def _end_farewell(self) -> None:
        if self._farewell is not None:
            self._farewell.cancel()
            self._farewell = None

    def _refuse_head(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_LONG)
            self.transport.close()

    def _check_client(self) -> None:
        """Disconnect a client that has been silent for too long; look again while it owes us a request."""
        self._timer = None
        if not self._awaited or self.transport.is_closing():
            return
        now = time.monotonic()
        late = now - self._heard > PATIENCE or (self._in_body and now - self._began > BODY_TIME)
        if late and not self.flow.read_paused:
            self.transport.close()
        else:
            self._timer = self.loop.call_later(PATIENCE / 6, self._check_client)


def _head_length(data: bytes) -> int:
    """How many of these bytes belong to a request head that they start or continue."""
    end = data.find(b"\r\n\r\n")
    return len(data) if end < 0 else end
