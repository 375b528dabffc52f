"""The thread that stops a call: what tells it to stop, and when it does."""

import threading

from subquest.tools.sandbox.watchdog import Watchdog


def test_a_call_that_is_stopped_while_its_limits_are_looked_at_is_interrupted() -> None:
    """Looking takes time on a busy machine; what it finds must not take the place of a request to stop."""
    looked, interrupted = threading.Event(), threading.Event()

    def judge() -> str:
        if not looked.is_set():
            looked.set()
            watchdog.stop("cancelled")
        return ""

    with (watchdog := Watchdog(judge, interrupted.set, lambda: None)):
        assert interrupted.wait(20)
    assert watchdog.verdict == "cancelled"


def test_a_limit_that_is_broken_is_the_verdict() -> None:
    interrupted = threading.Event()
    with Watchdog(lambda: "files", interrupted.set, lambda: None) as watchdog:
        assert interrupted.wait(20)
    assert watchdog.verdict == "files"
