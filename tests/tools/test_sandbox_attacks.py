"""Attacks on the sandbox's limits, with and without control groups, and what is left of the variables afterwards."""

import asyncio
import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from subquest.tools.sandbox import CodeResult, Fetched, Sandbox, SandboxLimits, SandboxUnavailable, bubblewrap, cgroup

from .sandboxes import clock

try:
    bubblewrap.way()
except SandboxUnavailable as error:
    pytest.skip(f"no sandbox here: {error}", allow_module_level=True)

__all__ = ["clock"]
LIMITS = SandboxLimits(seconds=60, memory=400 << 20, processes=16, disk=16 << 20, files=200, output=2000)
SLACK = 64 << 20
"""What the measure itself takes: page tables of others, caches, the tests' own process."""
TRIES = 20


@pytest.fixture(params=["groups", "no groups"])
async def box(request, monkeypatch):
    if request.param == "groups" and not cgroup.available():
        pytest.skip("no control groups here")
    if request.param == "no groups":
        monkeypatch.setattr(cgroup, "available", lambda: False)
    async with Sandbox(LIMITS) as sandbox:
        await sandbox.run("kept = 41")
        yield sandbox


async def output(box: Sandbox, code: str) -> str:
    result = await box.run(code)
    assert result.ok, result.text
    return result.output.strip()


def available() -> int:
    """Memory of the machine that nobody uses. Disk caches do not count as used: the kernel takes them back."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemAvailable"].split()[0]) * 1024


async def most_taken(box: Sandbox, code: str, bound: int = LIMITS.memory) -> tuple[CodeResult, int]:
    """A call's result, and the most memory that the machine had less during it.

    Others take memory too, so a call that seems to take too much is made again; what comes from it comes each time.
    """
    taken: list[int] = []
    while len(taken) < TRIES:
        before = least = available()
        running = asyncio.create_task(box.run(code))
        while not running.done():
            least = min(least, available())
            await asyncio.sleep(0.005)
        taken.append(before - least)
        if taken[-1] <= bound + SLACK:
            break
        await asyncio.sleep(0.1 * len(taken))
    return running.result(), min(taken)


MEMORY = {
    "one process": "x = b'x' * (600 << 20)",
    "small objects": "x = []\nwhile True: x.append('x' * 100_000)",
    "threads": """
import threading
def take():
    held = []
    while True: held.append(bytearray(b'x') * (8 << 20))
threads = [threading.Thread(target=take, daemon=True) for _ in range(12)]
for t in threads: t.start()
for t in threads: t.join()
""",
    "children at once": """
import os, time
r, w = os.pipe()
for _ in range(12):
    if os.fork() == 0:
        os.read(r, 1)
        x = bytearray(b'x') * (250 << 20)
        time.sleep(60)
time.sleep(0.3); os.write(w, b'x' * 12); time.sleep(60)
""",
    "children and files": """
import os, time
for place, mb in (('/tmp/x', 16), ('/dev/shm/x', 8), ('/work/x', 15)): open(place, 'wb').write(b'x' * (mb << 20))
for _ in range(12):
    if os.fork() == 0:
        x = bytearray(b'x') * (300 << 20); time.sleep(60)
time.sleep(60)
""",
    "shared, let go of": """
import mmap, os, time
def take():
    held = mmap.mmap(-1, 200 << 20)
    for at in range(0, 200 << 20, 1 << 20):
        held[at:at + (1 << 20)] = b'x' * (1 << 20)
        held.madvise(mmap.MADV_DONTNEED)
    time.sleep(60)
for _ in range(12):
    if os.fork() == 0: take()
time.sleep(60)
""",
    "vfork and exec": """
import subprocess, sys
take = "x = bytearray(b'x') * (250 << 20); import time; time.sleep(60)"
for _ in range(12): subprocess.Popen([sys.executable, '-I', '-S', '-c', take])
import time; time.sleep(60)
""",
    "raw clone": """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
number = {'x86_64': 56, 'aarch64': 220}.get(os.uname().machine)
started = 0
for _ in range(12):
    pid = libc.syscall(number, 17, 0, 0, 0, 0)
    if pid == 0:
        x = bytearray(b'x') * (250 << 20); time.sleep(60); os._exit(0)
    started += pid > 0
print('started', started)
if started: time.sleep(60)
""",
    "pages held by pipes": """
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
class Vec(ctypes.Structure): _fields_ = [('at', ctypes.c_void_p), ('size', ctypes.c_size_t)]
held = []
for _ in range(50):
    r, w = os.pipe(); held.append((r, w))
    for _ in range(16):
        start = libc.mmap(None, 4 << 20, 3, 0x22, -1, 0)
        huge = (start + (2 << 20) - 1) & ~((2 << 20) - 1)
        libc.madvise(huge, 2 << 20, 14)
        ctypes.memset(huge, 1, 2 << 20)
        if libc.vmsplice(w, ctypes.byref(Vec(huge, 1)), 1, 0) < 0: raise OSError(ctypes.get_errno(), 'vmsplice')
        libc.munmap(start, 4 << 20)
time.sleep(1)
""",
    "bytes waiting in sockets": """
import os, socket, time
def fill():
    held = []
    try:
        while True:
            a, b = socket.socketpair()
            a.setblocking(False); held.append((a, b))
            try:
                while True: a.send(bytes(60_000))
            except BlockingIOError: pass
    except OSError: return held
held = fill()
try:
    for _ in range(10):
        if os.fork() == 0: fill(), time.sleep(60)
except OSError: pass
time.sleep(1)
""",
    "record locks": """
import fcntl, os
fds = [os.open(f'l{n}', os.O_RDWR | os.O_CREAT) for n in range(100)]
n = 0
while True:
    for fd in fds:
        for k in range(50): fcntl.lockf(fd, fcntl.LOCK_EX, 1, (1 << 40) - 2 * (n + k))
    n += 50
""",
    "locked memory": """
import ctypes, mmap
libc = ctypes.CDLL(None, use_errno=True)
m = mmap.mmap(-1, 200 << 20)
if libc.mlockall(3) == 0 or libc.mlock(ctypes.addressof(ctypes.c_char.from_buffer(m)), 200 << 20) == 0: print('locked')
raise MemoryError
""",
}


@pytest.mark.parametrize("name", MEMORY)
async def test_memory_stays_below_the_stated_limit(box, name):
    groups = list(box._live.group.folders)
    box.limits = replace(LIMITS, seconds=3)  # some take what they can and wait
    result, taken = await most_taken(box, MEMORY[name])
    box.limits = LIMITS
    assert taken <= LIMITS.memory + SLACK, f"{taken >> 20} MB"
    for place in [folder / file for folder in groups for file in ("memory.max_usage_in_bytes", "memory.peak")]:
        if place.exists():
            assert int(place.read_text()) <= LIMITS.memory + SLACK  # the kernel lets processes that end have a bit more
    assert "locked" not in result.output
    for _ in range(5):  # threads that are left may take the memory of the next call
        after = await box.run("kept if 'kept' in globals() else 'lost 41'")
        if after.ok:
            break
    assert "41" in after.output


DISK = {
    "fallocate": "import os\nf = os.open('big', os.O_RDWR | os.O_CREAT)\nos.posix_fallocate(f, 0, 10 << 30)",
    "fallocate, kept size": """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
for n in range(100):
    f = os.open(f'f{n}', os.O_RDWR | os.O_CREAT)
    if libc.fallocate(f, 1, 0, 12 << 20): raise OSError(ctypes.get_errno(), 'full')
""",
    "many writers": """
import threading
def fill(k):
    for n in range(100): open(f'{k}-{n}', 'wb').write(b'x' * (4 << 20))
for k in range(8): threading.Thread(target=fill, args=(k,)).start()
fill(9)
""",
    "sparse, then written": """
fs = [open(f's{n}', 'wb') for n in range(20)]
for f in fs: f.truncate(16 << 20)
for at in range(0, 16 << 20, 1 << 20):
    for f in fs: f.seek(at); f.write(b'x' * (1 << 20)); f.flush()
""",
    "mapped": """
import mmap
held = []
for n in range(20):
    f = open(f'm{n}', 'wb+'); f.truncate(8 << 20)
    m = mmap.mmap(f.fileno(), 8 << 20); held.append(m)
    m[:] = b'x' * (8 << 20)
""",
    "without a name": """
import os
held = []
for n in range(60):
    f = os.open('/work', os.O_TMPFILE | os.O_RDWR); held.append(f)
    os.write(f, b'x' * (1 << 20))
raise OSError(28, 'No space left')
""",
    "copied in the kernel": """
import os
f = os.open('a', os.O_RDWR | os.O_CREAT); os.write(f, b'x' * (8 << 20))
for n in range(50):
    g = os.open(f'c{n}', os.O_RDWR | os.O_CREAT)
    if os.copy_file_range(f, g, 8 << 20, 0, 0) < 8 << 20: raise OSError(28, 'No space left')
""",
    "attributes": "import os\nopen('a', 'w')\nfor n in range(10_000): os.setxattr('a', f'user.{n}', bytes(60_000))",
}


@pytest.mark.parametrize("name", DISK)
async def test_disk_cannot_be_taken_in_a_burst(box, name):
    """Neither on the host's disk nor in memory; the call gets an error and the next one can clear up."""
    before = os.statvfs(box.folder.given)
    result, taken = await most_taken(box, DISK[name], LIMITS.memory // 4)
    assert not result.ok
    assert taken <= LIMITS.memory // 4 + SLACK, f"{taken >> 20} MB"
    after = os.statvfs(box.folder.given)
    assert before.f_bfree - after.f_bfree < (1 << 30) // after.f_frsize  # ten times less than one fallocate took
    used = os.fstatvfs(box.folder.descriptor)
    assert (used.f_blocks - used.f_bfree) * used.f_frsize <= LIMITS.disk


async def test_record_locks_are_bounded_without_groups(monkeypatch):
    """The kernel keeps each in memory of its own, which no limit of a process covers; a database needs a few."""
    monkeypatch.setattr(cgroup, "available", lambda: False)
    async with Sandbox(LIMITS) as box:
        assert (await box.run(MEMORY["record locks"])).stopped == "locks"
        code = "import sqlite3\nc = sqlite3.connect('x.db')\nc.execute('create table t (a)')\nc.commit()\n'stored'"
        assert (await output(box, code)).endswith("stored")


async def test_many_small_files(box):
    code = "import os\nn = 0\nwhile True:\n    os.symlink('x' * 4000, f'l{n}'); os.mkdir(f'd{n}'); n += 1"
    result, taken = await most_taken(box, code, LIMITS.memory // 4)
    assert "too many files" in result.error
    assert taken <= LIMITS.memory // 4 + SLACK
    assert await output(box, "os.listdir('.'), kept") == "([], 41)"


async def test_hard_links_and_holes_survive_a_restart_without_growing(box):
    """A file with many names and holes is one small file; copied naively it would fill the disk."""
    code = """
import os
f = open('a', 'wb'); f.seek(12 << 20); f.write(b'end'); f.close()
for n in range(50): os.link('a', f'a{n}')
os.symlink('a', 'link'); os.mkdir('shut'); open('shut/x', 'w').write('inside'); os.chmod('shut', 0); os.chmod('a', 0)
"""
    assert (await box.run(code)).ok
    assert (await box.run("os._exit(1)")).stopped == "exit"
    code = "import os\nos.stat('a').st_nlink, os.stat('a').st_blocks < 100, os.readlink('link'), open('shut/x').read()"
    assert (await output(box, code)).endswith("(51, True, 'a', 'inside')")
    assert await output(box, "open('a49', 'rb').read()[-3:]") == "b'end'"


# ---- the rest of the kernel


REFUSED = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
arm = os.uname().machine == 'aarch64'
allowed = []
def attempt(name, x86, arm64, *args):
    number = arm64 if arm else x86
    if libc.syscall(number, *args) != -1: allowed.append(name)
buffer = ctypes.create_string_buffer(4096)
attempt('io_setup', 206, 0, 128, buffer)
attempt('inotify_init1', 294, 26, 0)
attempt('setxattr', 188, 5, b'/work', b'user.x', b'x', 1, 0)
attempt('vmsplice', 278, 75, 1, buffer, 0, 0)
attempt('splice', 275, 76, 0, 0, 1, 0, 0, 0)
attempt('tee', 276, 77, 0, 1, 0, 0)
attempt('sendfile', 40, 71, 1, 0, 0, 0)
attempt('memfd_create', 319, 279, b'x', 0)
attempt('unshare', 272, 97, 0x10000000)
attempt('userfaultfd', 323, 282, 0)
attempt('bpf', 321, 280, 0, buffer, 128)
attempt('perf_event_open', 298, 241, buffer, 0, -1, -1, 0)
attempt('process_vm_writev', 311, 271, 1, buffer, 0, buffer, 0, 0)
attempt('ptrace', 101, 117, 16, 1, 0, 0)
for number in range(424, 512):
    if number not in (436, 437, 439, 441, 449, 452, 454, 455, 456) and libc.syscall(number, 0, 0, 0, 0, 0, 0) != -1:
        allowed.append(number)
allowed
"""


async def test_calls_that_take_kernel_memory_or_are_newer_than_the_filter_are_refused(box):
    assert await output(box, REFUSED) == "[]"


async def test_the_host_is_not_made_to_write_its_disks(box):
    """`sync` would wait for everything that anybody on the host has to write; inside it does nothing."""
    assert await output(box, "import os\nos.sync()\nos.fsync(os.open('/work', os.O_RDONLY))\n'done'") == "done"


async def test_the_first_process_of_the_sandbox_cannot_be_taken_over(box):
    """An ordinary user's sandbox runs bubblewrap under the uid of the code: its memory must be out of reach."""
    code = """
import os
reached = []
for name in ('mem', 'maps', 'cmdline', 'environ', 'root', 'fd', 'task/1/mem', 'cwd', 'attr/current', 'oom_score_adj'):
    try:
        reached.append((name, os.open(f'/proc/1/{name}', os.O_RDWR if 'mem' in name else os.O_RDONLY)))
    except OSError: pass
try: os.umask(0), os.mkdir('/proc/1/x'), reached.append('mkdir')
except OSError: pass
reached
"""
    assert await output(box, code) == "[]"
    for signal in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGHUP", "SIGUSR1"):
        await box.run(f"import os, signal\nfor pid in (1, 0, -1): os.kill(pid, signal.{signal}) if pid == 1 else None")
    assert await output(box, "kept") == "41"


async def test_only_the_channels_are_inherited(box):
    code = """
import os
found = {}
for n in range(256):
    try: found[n] = os.readlink(f'/proc/self/fd/{n}').partition(':')[0]
    except OSError: pass
sorted(found.values())
"""
    seen = await output(box, code)
    assert set(eval(seen)) <= {"/dev/null", "pipe", "socket"}, seen
    assert (await box.run("import os; os._exit(0)")).stopped == "exit"
    after = (await output(box, code)).splitlines()[-1]
    assert set(eval(after)) <= {"/dev/null", "pipe", "socket"}, after


async def test_the_files_of_an_earlier_sandbox_are_no_second_disk(box):
    """The folder that a new sandbox takes over is closed before code runs."""
    await box.run("open('a', 'wb').write(bytes(10 << 20))\nimport os\nos._exit(0)")
    code = "import os\n[n for n in range(256) if os.path.isdir(f'/proc/self/fd/{n}')], os.path.getsize('a') >> 20"
    assert (await output(box, code)).endswith("([], 10)")


async def test_secrets_of_the_host_are_nowhere_in_proc(monkeypatch):
    monkeypatch.setenv("SQ_SECRET", "canary-in-the-environment")
    code = """
import os
found = []
for folder, _, names in os.walk('/proc'):
    if folder.count('/') > 4 or '/task' in folder: continue
    for name in names:
        try:
            fd = os.open(f'{folder}/{name}', os.O_RDONLY | os.O_NONBLOCK)
            with open(fd, 'rb') as f: text = f.read(1 << 16) or b''
        except (OSError, ValueError): continue
        if b'canary' in text and b'canary-in-the-' + b'environment' in text: found.append(f'{folder}/{name}')
found
"""
    async with Sandbox(LIMITS) as box:
        assert await output(box, code) == "[]"


async def test_priority_is_below_the_hosts(box):
    assert int(await output(box, "import os\nos.nice(0)")) >= 10
    assert "PermissionError" in (await box.run("os.nice(-1)")).error or "denied" in (await box.run("os.nice(-1)")).text


async def test_zombies_do_not_pile_up(box):
    """Orphans are waited for by the sandbox's init; otherwise sixteen of them would be all that code can start."""
    code = """
import os, time
for _ in range(50):
    try: pid = os.fork()
    except PermissionError: break
    if pid == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
while len([name for name in os.listdir('/proc') if name.isdigit()]) > 2: time.sleep(0.01)
kept
"""
    assert await output(box, code) == "41"


async def test_children_of_earlier_calls_do_not_count(box):
    """Nobody waits for a child that ended, or was ended between two calls; sixteen of them would be the limit."""
    start = "import os\npid = os.fork()\nif pid == 0: os._exit(0)"
    if not cgroup.available():
        assert "single process" in (await box.run(start)).error
        return
    for _ in range(LIMITS.processes + 4):
        assert (await box.run(start)).ok
    assert await output(box, "len([name for name in os.listdir('/proc') if name.isdigit()]), kept") == "(2, 41)"


@pytest.mark.skipif(not cgroup.available(), reason="without control groups, code has a single process")
async def test_code_still_learns_how_its_children_ended():
    code = """
import multiprocessing, os, subprocess, time
failed = subprocess.Popen(['sh', '-c', 'exit 3'])
running = subprocess.Popen(['sleep', '60'])
child = multiprocessing.get_context('fork').Process(target=os._exit, args=(5,))
child.start()
for pid in failed.pid, child.pid:
    while open(f'/proc/{pid}/stat').read().split()[2] != 'Z': time.sleep(0.01)
"""
    async with Sandbox(LIMITS) as box:
        await output(box, code)
        assert await output(box, "child.join(1), child.exitcode") == "(None, 5)"
        assert await output(box, "failed.wait(), running.poll()") == "(3, -9)"
        await output(box, "subprocess.Popen = 0\nif os.fork() == 0: os._exit(0)")
        assert await output(box, "len([name for name in os.listdir('/proc') if name.isdigit()])") == "2"


async def test_the_output_pipe_cannot_be_turned_against_the_host(box):
    """Made tiny, made huge, read instead of written, filled without an end of line: the call ends with a result."""
    for code in (
        "import fcntl\nfcntl.fcntl(1, 1031, 4096)\nprint('x' * 100_000)",
        "import fcntl\ntry: fcntl.fcntl(1, 1031, 1 << 20)\nexcept OSError: pass\nprint('x' * 100_000)",
        "import os\nos.set_blocking(1, False)\ntry:\n    while True: os.write(1, b'x' * 65536)\nexcept OSError: pass",
        "import os\nprint('lost')\nf = os.open('/proc/self/fd/1', os.O_RDONLY | os.O_NONBLOCK)",
        "import os\nos.write(1, bytes(range(256)) * 100 + b'\\x1b]0;title\\x07')",
    ):
        (await box.run(code)).text.encode()
    assert "41" in await output(box, "kept if 'kept' in globals() else 41")


async def test_a_call_of_the_broker_that_was_interrupted_does_not_answer_the_next(clock):
    """The page of the first request comes when nobody waits for it any more; the second must not get it."""
    slow, asked = asyncio.Event(), asyncio.Event()

    async def fetch(url: str) -> Fetched:
        asked.set()
        if "slow" in url:
            await slow.wait()
        return Fetched(200, url, "text/plain", url.encode() * 20_000)

    async with Sandbox(LIMITS, fetch) as box:
        call = asyncio.create_task(box.run("fetch('http://slow/')"))
        await asked.wait()
        clock.now += LIMITS.seconds + 1
        assert "stopped after" in (await call).error
        slow.set()
        code = "r = fetch('http://fast/')\nr.url, r.content == b'http://fast/' * 20_000"
        assert await output(box, code) == "('http://fast/', True)"


@pytest.mark.parametrize(
    ("message", "times"),
    [
        (b'{"number": 1, "url": "x"}', 3000),
        (b"", 1),
        (b"[]", 1),
        (b'{"number": -1, "url": 1}', 1),
        (b'{"number": 1e400, "url": 1}', 1),
        (b"\xff" * 100, 1),
        (b"[" * 60_000, 1),
    ],
    ids=["flood", "empty", "no object", "negative", "infinite", "no text", "nested"],
)
async def test_the_broker_stands_whatever_it_is_sent(message, times):
    async with Sandbox(LIMITS) as box:
        await output(box, "kept = 41\nimport __main__, os")
        box.limits = replace(LIMITS, seconds=0.5)  # a flood waits when the channel is full
        code = f"for _ in range({times}): os.write(__main__.CHANNELS['broker'], {message!r})"
        (await box.run(code)).text.encode()
        box.limits = LIMITS
        assert await output(box, "kept") == "41"


async def test_names_of_variables_are_no_way_out():
    """They are named when they are lost: odd ones must not break the reply or the note."""
    async with Sandbox(LIMITS) as box:
        code = "g = globals()\ng['\\udcff'] = g['x' * 9_000_000] = 1\nfor n in range(100_000): g[f'v{n}'] = n\ng[5] = 5"
        assert (await box.run(code)).ok
        assert (await box.run("import os; os._exit(0)")).stopped == "exit"
        text = await output(box, "1")
        assert "gone" in text
        assert len(text) < 3000


async def test_no_process_of_the_host_is_seen_in_the_same_session(box):
    with socket.socketpair()[0], subprocess.Popen(["sleep", "30"]) as victim:  # noqa: ASYNC220
        code = f"""
import os
reached = []
for call in (lambda: os.getpgid({victim.pid}), lambda: os.kill({victim.pid}, 0), lambda: os.kill(-{os.getpgrp()}, 0),
             lambda: os.sched_getaffinity({victim.pid}), lambda: os.getpriority(os.PRIO_PROCESS, {victim.pid}),
             lambda: __import__('resource').prlimit({victim.pid}, 7)):
    try: reached.append(call())
    except OSError: pass
reached
"""
        assert await output(box, code) == "[]"
        victim.kill()
