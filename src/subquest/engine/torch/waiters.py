"""Tasks that wait for turns: the engine's thread wakes them in their own event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Waiter(NamedTuple):
    """A task waiting for a turn."""

    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


def wake(woken: Iterable[tuple[Waiter, BaseException | None]]) -> None:
    """Wake tasks, with one call per event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[None], BaseException | None]]] = {}
    for waiter, error in woken:
        loops.setdefault(waiter.loop, []).append((waiter.future, error))
    for loop, results in loops.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, results)


def _resolve(results: Sequence[tuple[asyncio.Future[None], BaseException | None]]) -> None:
    for future, error in results:
        if future.done():
            continue
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
