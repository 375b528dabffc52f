"""Processes that work for another one: none outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PARENT = """
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from subquest.children import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), end_with_parent) as pool:
        pool.submit(time.sleep, 600), pool.submit(time.sleep, 600)
        while len(pool._processes) < 2 or not all(p.is_alive() for p in pool._processes.values()):
            time.sleep(0.1)
        print(*pool._processes, flush=True)
        time.sleep(600)
"""


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_killed_parent_leaves_nobody_behind(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    children = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(children) == 2
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until = time.monotonic() + 30
    while any(map(alive, children)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(alive, children))
