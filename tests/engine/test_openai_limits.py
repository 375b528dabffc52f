import asyncio
import time

from subquest.engine.openai.limits import Gate, Limits, Window


async def test_no_stretch_of_time_holds_more_than_the_limit() -> None:
    window = Window(5, period=0.2)
    times: list[float] = []

    async def take() -> None:
        await window.book(1)
        times.append(time.monotonic())

    await asyncio.gather(*(take() for _ in range(17)))
    assert len(times) == 17
    assert all(later - earlier >= 0.2 for earlier, later in zip(times, times[5:], strict=False))
    assert times[4] - times[0] < 0.2


async def test_amounts_count_and_corrections_free_room() -> None:
    window = Window(100, period=0.3)
    first = await window.book(90)
    first.amount = 20
    start = time.monotonic()
    await window.book(80)
    assert time.monotonic() - start < 0.1
    await window.book(1)
    assert time.monotonic() - start >= 0.25


async def test_more_than_the_limit_waits_for_an_empty_window() -> None:
    window = Window(10, period=0.2)
    start = time.monotonic()
    await window.book(50)
    assert time.monotonic() - start < 0.1
    await window.book(50)
    assert time.monotonic() - start >= 0.2


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
