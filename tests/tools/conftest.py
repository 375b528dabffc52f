"""What holds for all tests of tools."""

import pytest


@pytest.fixture(autouse=True)
def _an_interrupt_may_take_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code reacts to an interrupt late on a busy machine. Tests of code that never does set this lower."""
    monkeypatch.setattr("subquest.tools.sandbox.watchdog.GRACE", 60.0)
