"""Limits of the sandbox: memory, processes, disk, output and time."""

import asyncio
import os
import signal
from dataclasses import replace

import pytest

from subquest.tools.sandbox import Sandbox, watchdog
from subquest.tools.sandbox.watchdog import tree

from .sandboxes import SMALL, alive, box, clock, needs_processes, output

__all__ = ["box", "clock"]
BEGUN = "open('begun', 'w').close()"


@pytest.mark.parametrize(
    ("name", "code", "verdicts"),
    [
        ("one process", "x = bytearray(800 << 20)", {""}),
        ("many small lists", "x = []\nwhile True: x.append('x' * 100_000)", {"", "memory"}),
        ("shared memory file", "open('/dev/shm/x', 'wb').write(bytes(100 << 20))", {""}),
        ("temporary files", "open('/tmp/x', 'wb').write(bytes(100 << 20))", {""}),
        ("anonymous file", "import os\nf = os.memfd_create('x')\nos.write(f, bytes(1000))", {""}),
    ],
)
async def test_memory_is_bounded(box, name, code, verdicts):
    result = await box.run(code)
    assert not result.ok
    assert result.stopped in verdicts, result
    assert not alive(box) or result.stopped == ""


async def test_groups_are_made_where_they_can_be_and_removed(box):
    await box.run("1")
    group = box._live.group
    folders = list(group.folders)
    everybody = set(tree(box._live._init))
    assert len(everybody) >= 2
    assert all(everybody <= set(map(int, (f / "cgroup.procs").read_text().split())) for f in folders)
    await box.close()
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm"])
async def test_temporary_files_are_bounded_in_number(box, place):
    code = f"import os\nn = 0\nwhile True:\n    os.close(os.open(f'{place}/{{n}}', os.O_CREAT)); n += 1"
    assert "too many files" in (await box.run(code)).error
    assert await output(box, f"len(os.listdir('{place}'))") == "0"


@needs_processes
async def test_fork_bomb():
    code = """
import os, time
until = time.time() + 1
while time.time() < until:
    try: os.fork()
    except OSError: pass
"""
    async with Sandbox(SMALL) as box:
        await box.run("x = 1")
        await box.run(code)
        assert len(alive(box)) <= 3
        assert (await output(box, "x + 1")).endswith("2")


@needs_processes
async def test_processes_that_a_call_left_have_ended_when_it_returns():
    """Each has memory to give back, which takes a while after it was killed."""
    code = """
import os, time
for n in range(6):
    if os.fork() == 0:
        held = bytearray(os.urandom(1 << 20) * 40)
        open(f'ready{n}', 'w').close()
        while True: time.sleep(60)
while not all(os.path.exists(f'ready{n}') for n in range(6)): time.sleep(0.01)
"""
    async with Sandbox(replace(SMALL, memory=1 << 30)) as box:
        assert (await box.run(code)).ok
        assert len(alive(box)) <= 3


async def test_threads_are_bounded(box):
    start = "threading.Thread(target=time.sleep, args=(9,), daemon=True).start()"
    code = f"import threading, time\nfor _ in range(200): {start}"
    result = await box.run(code)
    assert not result.ok
    assert "can't start new thread" in result.error or result.stopped == "processes"


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'wb').write(bytes(4 << 20))", "No space left"),
        ("n = 0\nwhile True:\n    n += 1\n    open(f'f{n}', 'wb')", "too many files"),
        ("import os\nwhile True:\n    os.mkdir('d'); os.chdir('d')", "too many files"),
    ],
    ids=["bytes", "entries", "depth"],
)
async def test_disk_is_bounded_and_given_back(code, error, tmp_path):
    (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
    async with Sandbox(SMALL) as box:
        box.folder.add(tmp_path / "mine.csv")
        await output(box, "x = 7\nimport os\nos.mkdir('old')\nopen('old/kept', 'w').write('kept')")
        stopped = await box.run(code)
        assert error in stopped.error
        assert os.fstatvfs(box.folder.descriptor).f_blocks * 4096 <= SMALL.disk
        text = "[open(name).read() for name in ('mine.csv', 'old/kept')]" if error != "No space left" else "'kept'"
        assert "kept" in await output(box, f"os.chdir('/work') if 'os' in globals() else None\n{text}")
        if not stopped.stopped:
            assert await output(box, "x") == "7"


async def test_one_file_cannot_outgrow_the_disk(box):
    assert "File too large" in (await box.run("f = open('x', 'wb'); f.truncate(1 << 40)")).error


async def test_output_flood(box):
    await box.run("kept = 5")
    result = await box.run("while True: print('x' * 10_000)")
    assert "too much output" in result.error
    assert len(result.output) < 2200
    assert await output(box, "kept") == "5"


async def test_long_output_keeps_head_and_tail(box):
    text = await output(box, "print('begin' + 'x' * 20_000 + 'end')")
    assert text.startswith("begin")
    assert text.endswith("end")
    assert "left out" in text


@pytest.mark.parametrize(
    ("code", "kept"),
    [
        (f"{BEGUN}\nwhile True: pass", True),
        (f"import threading\n{BEGUN}\nthreading.Event().wait()", True),
        (
            f"while True:\n    try:\n        {BEGUN}\n        while True: pass\n    except KeyboardInterrupt: break",
            True,
        ),
        (
            "import subprocess\n"
            "subprocess.run(['sh', '-c', 'trap : TERM INT HUP; : > begun; while :; do sleep 1; done'])",
            True,
        ),
        (
            "import signal, time\nfor s in range(1, 65):\n    try: signal.signal(s, signal.SIG_IGN)\n"
            f"    except (OSError, ValueError): pass\n{BEGUN}\nwhile True: time.sleep(1)",
            False,
        ),
        (f"while True:\n    try: {BEGUN}; __import__('time').sleep(1)\n    except BaseException: pass", False),
        (
            "import os, signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
            f"{BEGUN}\nos.kill(os.getpid(), signal.SIGSTOP)",
            False,
        ),
        (f"input = None\nimport os\n{BEGUN}\nos.read(__import__('__main__').CHANNELS['commands'], 1)", True),
    ],
    ids=["loop", "waiting", "caught", "child", "signals ignored", "caught for ever", "stopped", "reads its commands"],
)
async def test_time_is_bounded(box, clock, monkeypatch, code, kept):
    """Code that reacts to an interrupt keeps its variables; other code is killed, and the next call is told."""
    if not kept:
        monkeypatch.setattr(watchdog, "GRACE", 0.4)
    assert (await box.run("x = 41")).ok
    call = asyncio.create_task(box.run(code))
    while not call.done() and "begun" not in box.folder.names():  # noqa: ASYNC110 (only the code can tell)
        await asyncio.sleep(0.01)
    clock.now += SMALL.seconds + 1
    result = await call
    if kept:
        assert not result.stopped
        assert "stopped after 60 seconds" in result.error or "single process" in result.error
        assert await output(box, "x + 1") == "42"
    else:
        assert result.stopped == "time"
        assert alive(box) == []
        assert await output(box, "1") == "(variables of earlier calls are gone: x)\n1"


@needs_processes
async def test_daemons_do_not_outlive_the_call_or_the_task():
    box = Sandbox(SMALL)
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True:
            open('alive', 'a').write('x'); time.sleep(0.01)
    os._exit(0)
os.wait()
while not (os.path.exists('alive') and os.path.getsize('alive')): time.sleep(0.01)
"""
    assert (await box.run(code)).ok
    size = len(box.read("alive"))
    assert size > 0
    await asyncio.sleep(0.2)
    assert len(box.read("alive")) - size <= 1
    while len(alive(box)) > 3:  # noqa: ASYNC110 (the driver, and bubblewrap's two where they run under the same uid)
        await asyncio.sleep(0.01)
    await box.close()
    assert alive(box) == []


@needs_processes
async def test_a_process_that_is_ever_another_does_not_outlive_the_call(box):
    """One that forks and ends, again and again, is no longer there when a list of processes is worked off."""
    code = """
import os, time
if os.fork() == 0:
    n = 0
    while True:
        try:
            if os.fork() > 0: os._exit(0)
        except BlockingIOError: continue  # those that ended count until the sandbox's init has waited for them
        n += 1
        if n % 20 == 0: open('alive', 'a').write('x')
while not os.path.exists('alive'): time.sleep(0.01)
"""
    for _ in range(3):
        result = await box.run(code)
        assert result.ok or result.stopped == "strays"
        size = len(box.read("alive"))
        await asyncio.sleep(0.3)
        assert len(box.read("alive")) - size <= 1


@needs_processes
async def test_orphans_do_not_count_for_the_next_call(box):
    """Until the sandbox's init has waited for them, which it does late on a busy machine: here it is held up."""
    await box.run("import os, time")
    live = box._live
    os.kill(live._init, signal.SIGSTOP)
    asyncio.get_running_loop().call_later(0.5, os.kill, live._init, signal.SIGCONT)
    code = """
for _ in range(9):
    if os.fork() == 0:
        if os.fork() == 0: time.sleep(60)
        os._exit(0)
    os.wait()
"""
    assert (await box.run(code)).ok
    assert tree(live._init) == [live._init, live._guest]


async def test_threads_rest_between_calls(box):
    code = """
import threading, time
ticks = []
def tick():
    while True:
        ticks.append(time.monotonic()); time.sleep(0.005)
threading.Thread(target=tick, daemon=True).start()
while len(ticks) < 5: time.sleep(0.005)
"""
    assert (await box.run(code)).ok
    await asyncio.sleep(1)
    pause = float(
        await output(box, "while len(ticks) < 10: time.sleep(0.005)\nmax(b - a for a, b in zip(ticks, ticks[1:]))")
    )
    assert pause > 0.9
