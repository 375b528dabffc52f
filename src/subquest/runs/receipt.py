"""Receipts: how whoever gave something to be written learns that it is on the disk, or why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any


class Receipt:
    """A write under way: `await` it, or `wait()` for it where there is no event loop. Then it is on the disk."""

    def __init__(self) -> None:
        self._future: Future[None] = Future()
        self._future.set_running_or_notify_cancel()  # a cancelled waiter does not cancel the write
        self.seen = False

    def __await__(self) -> Generator[Any, None, None]:
        self.seen = True
        if self._future.done():  # the event loop need not hear of it
            self._future.result()
        else:
            yield from asyncio.wrap_future(self._future).__await__()

    def wait(self, timeout: float | None = None) -> None:
        self.seen = True
        self._future.result(timeout)


class Failures:
    """What could not be written; remembered until somebody is told."""

    def __init__(self) -> None:
        self._found: list[tuple[Receipt | None, Exception]] = []

    def settle(self, receipt: Receipt | None, failure: Exception | None) -> None:
        """End a write that somebody may wait for (or nobody can: None)."""
        if failure is not None:
            self._found.append((receipt, failure))
        if receipt is not None:
            if failure is None:
                receipt._future.set_result(None)
            else:
                receipt._future.set_exception(failure)

    def raise_unseen(self) -> None:
        """Raise the first failure that nobody waited for."""
        found, self._found = self._found, []
        for receipt, error in found:
            if receipt is None or not receipt.seen:
                raise error
