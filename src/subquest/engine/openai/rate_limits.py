"""Limits on requests to one endpoint: at once, and per minute."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """What an endpoint allows; None is no limit."""

    concurrency: int = 32
    """Requests in flight at the same time."""
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    """Prompt and completion together. A request books an estimate, corrected when the true usage is known."""


class Booking:
    """An amount taken from a window at one moment; mutable, so that an estimate can be corrected."""

    __slots__ = ("amount", "at")

    def __init__(self, at: float, amount: int) -> None:
        self.at = at
        self.amount = amount


class Window:
    """At most `limit` in any stretch of `period` seconds, first come, first served."""

    def __init__(self, limit: int, period: float = 60.0) -> None:
        self.limit = limit
        self.period = period
        self._bookings: deque[Booking] = deque()
        self._turn = asyncio.Lock()

    async def book(self, amount: int) -> Booking:
        """Wait until `amount` fits; more than the limit waits for an empty window."""
        async with self._turn:
            await _until(lambda: self._wait(amount))
            booking = Booking(time.monotonic(), amount)
            self._bookings.append(booking)
            return booking

    def _wait(self, amount: int) -> float:
        now = time.monotonic()
        while self._bookings and self._bookings[0].at + self.period <= now:
            self._bookings.popleft()
        excess = sum(b.amount for b in self._bookings) + min(amount, self.limit) - self.limit
        for booking in self._bookings:
            if excess <= 0:
                break
            excess -= booking.amount
            wait = booking.at + self.period - now
            if excess <= 0:
                return wait
        return 0.0


class Gate:
    """All limits of one endpoint, in one event loop."""

    def __init__(self, limits: Limits) -> None:
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._requests = Window(limits.requests_per_minute) if limits.requests_per_minute else None
        self._tokens = Window(limits.tokens_per_minute) if limits.tokens_per_minute else None
        self._resume_at = 0.0

    @asynccontextmanager
    async def enter(self, tokens: int) -> AsyncIterator[Booking]:
        """Hold a slot for one request that will take about `tokens` tokens."""
        async with self._slots:
            await _until(lambda: self._resume_at - time.monotonic())
            if self._requests is not None:
                await self._requests.book(1)
            yield await self._tokens.book(tokens) if self._tokens is not None else Booking(0.0, tokens)

    def pause(self, seconds: float) -> None:
        """Block new requests for a while, as the endpoint asked (Retry-After)."""
        self._resume_at = max(self._resume_at, time.monotonic() + seconds)


async def _until(wait: Callable[[], float]) -> None:
    """Sleep as long as `wait` asks for more."""
    seconds = wait()
    while seconds > 0:
        await asyncio.sleep(seconds)
        seconds = wait()
