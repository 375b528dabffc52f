import asyncio
from types import SimpleNamespace

import pytest

from subquest.engine.openai import rate_limits as limits
from subquest.engine.openai.rate_limits import Gate, Limits, Window


class Clock:
    """Time that passes by sleeping alone, so that no test depends on how busy the machine is."""

    now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limits, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(limits, "asyncio", SimpleNamespace(sleep=made.sleep, Lock=asyncio.Lock))
    return made


async def test_no_stretch_of_time_holds_more_than_the_limit(clock: Clock) -> None:
    window = Window(5, period=60)
    times: list[float] = []

    async def take() -> None:
        await window.book(1)
        times.append(clock.now)

    await asyncio.gather(*(take() for _ in range(17)))
    assert times == [0.0] * 5 + [60.0] * 5 + [120.0] * 5 + [180.0] * 2


async def test_amounts_count_and_corrections_free_room(clock: Clock) -> None:
    window = Window(100, period=60)
    first = await window.book(90)
    first.amount = 20
    await window.book(80)
    assert clock.now == 0
    await window.book(1)
    assert clock.now == 60


async def test_more_than_the_limit_waits_for_an_empty_window(clock: Clock) -> None:
    window = Window(10, period=60)
    await window.book(50)
    assert clock.now == 0
    await window.book(50)
    assert clock.now == 60


async def test_a_gate_books_tokens_and_requests() -> None:
    gate = Gate(Limits(concurrency=2, requests_per_minute=100, tokens_per_minute=1000))
    async with gate.enter(400) as booking:
        booking.amount = 10
    async with gate.enter(900):
        pass
    blocked = asyncio.ensure_future(gate.enter(500).__aenter__())
    await asyncio.sleep(0.05)
    assert not blocked.done()
    blocked.cancel()
