"""An engine whose batches are the same in every run.

What a model writes is rounded according to the turns that share its batch, and which turns do depends on when they
come. A trainer at a high learning rate makes much of the last digit.
"""

import asyncio
import threading
from collections.abc import Callable

from subquest.engine.torch import TorchEngine


class SteadyEngine(TorchEngine):
    """Waits with the first of some turns until nobody in the event loop is about to ask for another one."""

    def _send(self, command: Callable[[], None]) -> None:
        self._asking = asyncio.get_running_loop() if asyncio._get_running_loop() else None
        super()._send(command)

    def _receive(self, *, wait: bool) -> None:
        super()._receive(wait=wait)
        if wait and self._turns and self._asking is not None:
            self._until_idle(self._asking)
            super()._receive(wait=False)

    @staticmethod
    def _until_idle(loop: asyncio.AbstractEventLoop) -> None:
        idle = threading.Event()

        def look() -> None:
            if loop._ready:  # type: ignore[attr-defined]
                loop.call_soon(look)
            else:
                idle.set()

        loop.call_soon_threadsafe(look)
        idle.wait()
