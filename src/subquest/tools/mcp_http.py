"""An MCP server at an address, spoken to over streamable HTTP: answers have a bounded length."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from ..address import Address, is_loopback

MESSAGE = 16 << 20
"""Bytes of one answer."""


@asynccontextmanager
async def http_streams(address: Address, seconds: float) -> AsyncIterator[Any]:
    """The two streams of messages to the server; redirects are followed only within the server."""
    timeout = httpx2.Timeout(30.0, read=seconds)
    async with (
        httpx2.AsyncClient(
            headers=address.headers,
            params=address.query,
            timeout=timeout,
            trust_env=not is_loopback(address.url),
            event_hooks={"response": [_bounded]},
        ) as client,
        streamable_http_client(address.url, http_client=client, max_sse_event_size=MESSAGE) as streams,
    ):
        yield streams


async def _bounded(response: httpx2.Response) -> None:
    """An answer that is longer than it may be fails while it is read."""
    kind = response.headers.get("content-type", "")
    if not kind.lower().startswith("text/event-stream"):  # each of its events has its own bound
        response.stream = _Bounded(response.stream)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._inner:
            size += len(part)
            if size > MESSAGE:
                raise httpx2.StreamError(f"the answer is longer than {MESSAGE >> 20} MB")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()
