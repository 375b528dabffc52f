"""Processes can be started while other threads search.

uvloop starts a process by forking, and Python frees the other threads' data in the child. A connection to SQLite that
is closed there waits forever for a lock that one of those threads held, and the event loop waits for the child.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STRESS = """
import asyncio, sys
import uvloop
from subquest import Index
from subquest.record import Document

async def main():
    documents = [Document(f"d{n}", f"Title {n}", f"word{n} word{n % 7} shared text") for n in range(500)]
    with Index.build(sys.argv[1], documents) as index:
        stopping = False

        def search():
            while not stopping:
                index.search_many([f"word{n}" for n in range(8)], 10)

        searches = [asyncio.create_task(asyncio.to_thread(search)) for _ in range(3)]
        try:
            await asyncio.sleep(0.2)
            for _ in range(60):
                process = await asyncio.create_subprocess_exec("true")
                await process.wait()
        finally:
            stopping = True
            await asyncio.gather(*searches)

with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
    runner.run(main())
"""


def test_a_process_is_started_while_threads_search(tmp_path: Path) -> None:
    pytest.importorskip("uvloop")
    process = subprocess.Popen([sys.executable, "-c", STRESS, str(tmp_path / "docs.sq")], start_new_session=True)
    try:
        assert process.wait(600) == 0
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
