"""What concerns the whole process: interpreter settings are restored, and no child outlives its parent."""

import gc
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import subquest
from subquest.process import GARBAGE_THRESHOLD, SWITCH_INTERVAL, collect_rarely, switch_often

PARENT = """
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
import subquest
from subquest.process import end_with_parent

if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn"), end_with_parent) as pool:
        pool.submit(time.sleep, 600), pool.submit(time.sleep, 600)
        while len(pool._processes) < 2 or not all(p.is_alive() for p in pool._processes.values()):
            time.sleep(0.1)
        print(*pool._processes, flush=True)
        time.sleep(600)
"""


def test_no_process_is_forked() -> None:
    """A fork copies the locks of other threads as they are, and nobody opens them in the child."""
    forks = re.compile(
        r"os\.fork(pty)?\(|create_subprocess_|subprocess_exec\(|preexec_fn|(context|start_method)\([\"']fork(server)?[\"']"
    )
    pools = re.compile(r"(ProcessPoolExecutor|multiprocessing\.(Pool|Process))\(")
    for path in sorted(Path(subquest.__file__).parent.rglob("*.py")):
        text = path.read_text()
        assert not forks.search(text), path
        if pools.search(text):
            assert 'get_context("spawn")' in text, path


def test_the_last_user_sets_it_back() -> None:
    before = gc.get_threshold(), sys.getswitchinterval()
    first, second = collect_rarely(), collect_rarely()
    first.__enter__()
    second.__enter__()
    assert gc.get_threshold() == (max(before[0][0], GARBAGE_THRESHOLD), *before[0][1:])
    first.__exit__(None, None, None)
    assert gc.get_threshold()[0] >= GARBAGE_THRESHOLD
    second.__exit__(None, None, None)
    with switch_often():
        assert abs(sys.getswitchinterval() - min(before[1], SWITCH_INTERVAL)) < 1e-6
    assert (gc.get_threshold(), sys.getswitchinterval()) == before


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
    until = time.monotonic() + 300
    while any(map(alive, children)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(alive, children))
