"""A server whose event loop is stuck says so and can be stopped, even if the code that is stuck holds Python's lock."""

import signal
import subprocess
from pathlib import Path

import httpx2
import pytest

from subquest.runs import RunStore

from .conftest import QUESTION
from .test_episode_handlers import until
from .test_serve_command import SERVE, place, process

__all__ = ["place"]
STUCK = """
import ctypes, time
from subquest.runtime.system import System
from subquest.runtime.run import Answer

def blocked():
    {call}

class Stuck(System):
    name = "stuck"
    roles = ("agent",)

    async def answer(self, run):
        open("stuck", "w").close()
        blocked()
        return Answer("at last")
"""
FOREVER = {
    "blocking call": "time.sleep(600)",
    "native lock": "lock, c = ctypes.create_string_buffer(64), ctypes.PyDLL(None); "
    "[c.pthread_mutex_lock(lock) for _ in range(2)]",
}


def stuck(place: Path, call: str, grace: float) -> list[str]:
    (place / "stuck.py").write_text(STUCK.format(call=call))
    return [*SERVE, "--system", "stuck.py:Stuck", "--grace", str(grace)]


def stderr(server: "subprocess.Popen[str]") -> str:
    assert server.stderr is not None
    return server.stderr.read()


def ask(url: str, place: Path) -> str:
    identifier = str(httpx2.post(f"{url}/api/ask", json={"question": QUESTION}, timeout=120).json()["id"])
    until((place / "stuck").exists)
    return identifier


@pytest.mark.slow
def test_a_stall_is_reported_once(place: Path) -> None:
    with process(*stuck(place, "ctypes.PyDLL(None).sleep(1)", 100), "--stall", "0.4") as (server, url):
        ask(url, place)
        health = httpx2.get(f"{url}/health", timeout=120).json()
        assert health["status"] == "ok"
        assert health["stalls"] >= 1  # a busy machine has some of its own
        assert health["longest_stall"] >= 0.8
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == 0
        said = stderr(server)
    assert said.count("in blocked") == 1
    assert "the event loop stood still for" in said


@pytest.mark.slow
@pytest.mark.parametrize("how", FOREVER)
def test_a_server_that_is_stuck_can_be_stopped(place: Path, how: str) -> None:
    with process(*stuck(place, FOREVER[how], 0.1)) as (server, url):
        identifier = ask(url, place)
        server.send_signal(signal.SIGTERM)
        assert server.wait(120) == -signal.SIGKILL
        said = stderr(server)
    assert "did not stop 5.1 s after a signal" in said
    assert "in blocked" in said
    with RunStore.open(place / "runs" / "asked.sqlite") as store:
        assert [question.id for question in store.questions()] == [identifier]
