"""A clock for time limits that begins to run when a test says so: what comes before may take as long as it takes."""

import time
from types import SimpleNamespace

import pytest

from subquest.engine.scripted import ScriptedEngine
from subquest.limits import Limits

LIMITS = Limits(seconds=1000.0)


class LateClock:
    """Stands still; from `run` on, `LIMITS` leave a few seconds more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._began: float | None = None
        self._left = 0.0

    def now(self) -> float:
        return 0.0 if self._began is None else 1000.0 - self._left + time.monotonic() - self._began

    def run(self, left: float = 1.0) -> None:
        if self._began is None:
            self._began, self._left = time.monotonic(), left

    def run_from(self, words: str) -> None:
        """Run from the moment on at which a scripted model has written these words."""
        reply = ScriptedEngine.reply

        async def watched(engine, context, role):  # type: ignore[no-untyped-def]
            written = await reply(engine, context, role)
            if words in str(written):
                self.run()
            return written

        self._monkeypatch.setattr(ScriptedEngine, "reply", watched)


@pytest.fixture
def late_clock(monkeypatch: pytest.MonkeyPatch) -> LateClock:
    found = LateClock(monkeypatch)
    monkeypatch.setattr("subquest.limits.time", SimpleNamespace(monotonic=found.now))
    return found
