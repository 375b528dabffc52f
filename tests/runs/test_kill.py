"""A writing process is really killed, again and again, and every record it was told is safe must be there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from subquest.runs import RunStore
from subquest.runs.salvage import verify_run

from .samples import episode

ROOT = Path(__file__).resolve().parents[2]
KILLS = 20
WRITER = """
import asyncio, sys
from subquest.runs import RunStore
from tests.runs.samples import episode

async def worker(run, name):
    for n in range(10_000):
        made = episode(f"{name}-{n}", n)
        for event in made.events[:3]:
            run.add_event(made.id, event)
        await run.add_episode(made, attempt=n)
        print(made.id, flush=True)      # acknowledged: from here on it must never be lost

async def main(path, generation):
    with RunStore.resume(path, settings={"kind": "kill test"}) as run:
        await asyncio.gather(*(worker(run, f"{generation}-{w}") for w in range(20)))

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_in_twenty_kills(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    rng = random.Random(20)
    acknowledged: set[str] = set()
    for generation in range(KILLS):
        told = _write_until_killed(path, generation, after=rng.randrange(1, 60), pause=rng.random() * 0.02)
        assert told
        acknowledged |= told
        with RunStore.open(path) as run:
            found = {summary.id for summary in run.summaries()}
            assert acknowledged <= found
            assert not set(run.interrupted()) & found
    assert verify_run(path).problems == ()
    with RunStore.open(path) as run:
        for name in acknowledged:
            assert run.episode(name) == episode(name, int(name.rsplit("-", 1)[1]))


def _write_until_killed(path: Path, generation: int, *, after: int, pause: float) -> set[str]:
    """Names acknowledged by a writer that is killed some time after its nth acknowledgement."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(generation)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    told: list[str] = []
    for line in writer.stdout:
        told.append(line.strip())
        if len(told) == after:
            threading.Timer(pause, os.kill, (writer.pid, signal.SIGKILL)).start()
    assert writer.wait() == -signal.SIGKILL
    writer.stdout.close()
    return {name for name in told if name.count("-") == 2 and _is_whole(name)}


def _is_whole(name: str) -> bool:
    """The last line may have been cut by the kill; a cut name is a shorter number, which was acknowledged before."""
    return all(part.isdigit() for part in name.split("-"))
