"""What code in the sandbox cannot see of the machine or do to it, by canaries outside it."""

import os
import socket
import subprocess
from pathlib import Path

import pytest

from subquest.errors import MissingDependency, ToolError
from subquest.tools.sandbox import (
    Fetched,
    Sandbox,
    SandboxLimits,
)

from .sandboxes import KNOBS, SMALL, box, needs_processes, output

__all__ = ["box"]


# ---- files and secrets


async def test_host_files_and_environment_are_not_there(box, tmp_path, monkeypatch):
    secret = tmp_path / "secret"
    secret.write_text("canary")
    secret.chmod(0o644)
    monkeypatch.setenv("SQ_SECRET", "canary")
    code = f"""
import glob, os
seen = []
for place in [{str(secret)!r}, '/proc/1/root{secret}', '/proc/self/root{secret}', '/etc/shadow', '/etc/passwd',
              '/root/.ssh', '/home', '/var', '/run', '/sys', '/proc/1/environ']:
    try:
        seen.append((place, os.listdir(place) if os.path.isdir(place) else open(place).read()))
    except OSError:
        pass
print(seen, dict(os.environ))
"""
    assert "canary" not in await output(box, code)
    assert (
        await output(box, "[p for p in ('/root', '/home', '/var', '/sys', '/etc/passwd') if os.path.exists(p)]")
    ) == "[]"


async def test_nothing_outside_the_work_folder_can_be_written(box):
    code = """
import os
wrote = []
for place in ('/usr/x', '/x', '/opt/x', '/opt/driver.py', '/opt/packages/numpy/x', '/etc/x', '/dev/x', '/proc/x'):
    try:
        open(place, 'a').write('x'); wrote.append(place)
    except OSError:
        pass
wrote
"""
    assert await output(box, code) == "[]"


async def test_kernel_knobs_are_read_only(box):
    before = Path("/proc/sys/kernel/core_pattern").read_text()
    assert await output(box, KNOBS) == "[]"
    assert Path("/proc/sys/kernel/core_pattern").read_text() == before


async def test_links_left_behind_are_not_followed(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("canary")
    code = f"""
import os
os.symlink({str(secret)!r}, 'result.txt'); os.symlink('/etc', 'folder'); os.mkfifo('pipe')
open('plain', 'w').write('x'); os.link('plain', 'twin')
"""
    await box.run(code)
    assert {f.name for f in box.files()} == {"plain", "twin"}
    for name in ("result.txt", "folder/passwd", "pipe", "twin", "../work/plain", "/etc/passwd", ""):
        with pytest.raises(ToolError):
            box.read(name)


async def test_a_link_in_the_place_of_a_file_is_not_written_through(box, tmp_path):
    target, given = tmp_path / "target", tmp_path / "data.csv"
    target.write_text("untouched")
    given.write_text("new")
    await box.run(f"import os; os.symlink({str(target)!r}, 'data.csv')")
    box.add_file(given)
    assert target.read_text() == "untouched"
    assert await output(box, "open('data.csv').read()") == "new"


async def test_two_sandboxes_see_nothing_of_each_other(box):
    async with Sandbox(SMALL) as other:
        await other.run("open('/tmp/mark', 'w').write('canary'); open('mark', 'w').write('canary')\nimport time")
        seen = await output(box, "import os; [os.listdir('/tmp'), os.listdir('/work'), os.listdir('/dev/shm')]")
    assert seen == "[[], [], []]"


# ---- network


async def test_no_network(box):
    """A server on the host's loopback, TCP and UDP and an abstract socket, is never reached."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        udp.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_UNIX) as local:
            local.bind(f"\0subquest-canary-{os.getpid()}")
            local.listen()
            code = f"""
import socket
reached = []
def attempt(kind, *args):
    try:
        s = socket.socket(*args[:2]); s.settimeout(1)
        s.connect(args[2]); s.send(b'x'); reached.append(kind)
    except OSError:
        pass
attempt('tcp', socket.AF_INET, socket.SOCK_STREAM, ('127.0.0.1', {tcp.getsockname()[1]}))
attempt('udp', socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', {udp.getsockname()[1]}))
attempt('unix', socket.AF_UNIX, socket.SOCK_STREAM, '\\0subquest-canary-{os.getpid()}')
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_PACKET, 16, 38, 40):
    try:
        socket.socket(family, socket.SOCK_RAW); reached.append(family)
    except OSError:
        pass
try:
    reached.append(socket.getaddrinfo('example.org', 80))
except OSError:
    pass
reached
"""
            assert await output(box, code) == "[]"
        for server in (tcp, udp):
            server.settimeout(0.05)
            with pytest.raises(TimeoutError):
                server.accept() if server is tcp else server.recv(1)


async def test_fetch_goes_through_the_broker(tmp_path):
    asked = []

    async def fetch(url: str) -> Fetched:
        asked.append(url)
        if "refused" in url:
            raise ToolError("refused: private address")
        return Fetched(200, url, "text/csv", b"a,b\n1,2\n" * 30_000)

    async with Sandbox(SMALL, fetch) as box:
        assert await output(box, "r = fetch('http://site/data.csv'); r.save('data.csv'); len(r.content)") == "240000"
        assert (
            await output(box, "import requests; requests.get('http://site/x', params={'q': 'a b'}).status_code")
            == "200"
        )
        assert "refused: private address" in (await box.run("fetch('http://refused/')")).error
        assert [f.size for f in box.files()] == [240_000]
    assert asked == ["http://site/data.csv", "http://site/x?q=a+b", "http://refused/"]


async def test_a_broker_that_lacks_a_package_says_so():
    async def fetch(url: str) -> Fetched:
        raise MissingDependency("the guard for web pages", "web-tools")

    async with Sandbox(SandboxLimits(seconds=30), fetch) as box:
        assert "subquest[web-tools]" in (await box.run("fetch('http://x.example/')")).error


async def test_without_a_broker_fetch_is_refused(box):
    assert "no access to the web" in (await box.run("fetch('http://site/')")).error


async def test_the_broker_survives_nonsense_and_counts():
    async def fetch(url: str) -> Fetched:
        return Fetched(200, url, "text/plain", b"x")

    limits = SandboxLimits(seconds=60, fetches=3)
    async with Sandbox(limits, fetch) as box:
        result = await box.run("for n in range(5): fetch(f'http://site/{n}')")
        assert "at most 3 fetches" in result.error
    async with Sandbox(limits, fetch) as box:
        assert (await box.run("import os, __main__\nos.write(__main__.CHANNELS['broker'], b'{' * 100_000)")).output
        assert await output(box, "1 + 1") == "2"


# ---- processes and privileges


async def test_other_processes_cannot_be_seen_or_signalled(box):
    with subprocess.Popen(["sleep", "60"]) as victim:  # noqa: ASYNC220
        code = f"""
import os
pids = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())
for pid in ({victim.pid}, {os.getpid()}, {os.getppid()}):
    try:
        os.kill(pid, 9); print('killed', pid)
    except OSError:
        pass
try:
    os.kill(1, 9)
except OSError:
    pass
pids
"""
        assert await output(box, code) == "[1, 2]"
        assert victim.poll() is None
        victim.kill()


async def test_dangerous_system_calls_are_refused(box):
    code = r"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
allowed = []
for name, args in {
    'unshare': (0x10000000,), 'setns': (0, 0), 'mount': (b'none', b'/tmp', b'tmpfs', 0, None), 'umount2': (b'/usr', 2),
    'ptrace': (16, 1, 0, 0), 'chroot': (b'/tmp',), 'klogctl': (3, ctypes.create_string_buffer(100), 99),
    'open_by_handle_at': (0, None, 0), 'perf_event_open': (None, 0, -1, -1, 0), 'keyctl': (0, 0, 0, 0, 0),
    'setuid': (0,), 'setgid': (0,), 'sethostname': (b'x', 1), 'reboot': (0,), 'swapoff': (b'/x',),
    'personality': (0x40000,),
    'mknod': (b'/work/disk', 0o60666, 0x800), 'process_vm_readv': (1, None, 0, None, 0, 0), 'acct': (None,),
    'settimeofday': (ctypes.create_string_buffer(16), None), 'clock_settime': (0, ctypes.create_string_buffer(16)),
    'adjtimex': (ctypes.create_string_buffer(b'\x40', 208),), 'init_module': (None, 0, b''),
    'delete_module': (b'x', 0), 'shmget': (0, 4096, 0o1600), 'msgget': (0, 0o1600), 'semget': (0, 1, 0o1600),
    'mq_open': (b'/x', 0o102, 0o600, None), 'iopl': (3,), 'ioperm': (0, 1, 1), 'quotactl': (0, None, 0, None),
    'fanotify_init': (0, 0), 'name_to_handle_at': (-100, b'/', ctypes.create_string_buffer(64), None, 0),
    'pivot_root': (b'/tmp', b'/tmp'), 'vhangup': (), 'setdomainname': (b'x', 1), 'swapon': (b'/work/x', 0),
}.items():
    call = getattr(libc, name, None)
    if call is not None and call(*args) != -1:
        allowed.append(name)
for number in (435, 425, 321, 323, 319):  # clone3, io_uring_setup, bpf, userfaultfd, memfd_create on x86-64
    if os.uname().machine == 'x86_64' and libc.syscall(number, 0, 0, 0, 0) != -1:
        allowed.append(number)
CLONE_NEWUSER = 0x10000000
if os.uname().machine == 'x86_64' and (child := libc.syscall(56, CLONE_NEWUSER | 17, 0, 0, 0, 0)) != -1:
    if child == 0: os._exit(0)
    allowed.append('clone')
allowed
"""
    result = await box.run(code)
    assert result.output.strip() == "[]", result.text


@needs_processes
async def test_no_capability_and_no_way_to_gain_one(box):
    code = """
import re, subprocess
status = open('/proc/self/status').read()
print(re.findall(r'(CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):\\s+(\\w+)', status))
print([subprocess.run(c, capture_output=True, text=True).stdout
       for c in (['su', '-c', 'id'], ['/usr/bin/passwd', '-S'])])
"""
    text = await output(box, code)
    assert "('CapPrm', '0000000000000000'), ('CapEff', '0000000000000000')" in text
    assert "('NoNewPrivs', '1'), ('Seccomp', '2')" in text
    assert "uid=0" not in text


async def test_the_terminal_cannot_be_typed_into(box):
    code = """
import fcntl, os
typed = []
for place in (0, 1, 2, '/dev/tty', '/dev/console'):
    try:
        fd = place if isinstance(place, int) else os.open(place, os.O_RDWR)
        fcntl.ioctl(fd, 0x5412, b'x'); typed.append(place)
    except OSError:
        pass
typed
"""
    assert await output(box, code) == "[]"


async def test_thirty_two_bit_calls_do_not_get_around_the_filter(box):
    """int 0x80 with the 32-bit number of `socketcall`; the kernel ends the process or refuses."""
    code = r"""
import ctypes, mmap, os
if os.uname().machine != 'x86_64':
    print('refused')
else:
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex('b866000000' 'bb01000000' 'b900000000' 'cd80' 'c3'))
    call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    print('refused' if call() < 0 else 'reached')
"""
    result = await box.run(code)
    assert "reached" not in result.output
    assert result.stopped == "exit" or "refused" in result.output


async def test_ports_of_every_family_stay_shut(box):
    """Only local pairs and sockets that cannot reach anybody can be made."""
    code = """
import socket
found = set()
for family in range(1, 46):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        try:
            socket.socket(family, kind).close(); found.add(family)
        except OSError:
            pass
found
"""
    assert await output(box, code) == "{1}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind(f"\0subquest-canary-dgram-{os.getpid()}")
        host.setblocking(False)
        code = "s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
        code += f"s.sendto(b'x', '\\0subquest-canary-dgram-{os.getpid()}')"
        assert "ConnectionRefusedError" in (await box.run(code)).error
        with pytest.raises(BlockingIOError):
            host.recv(1)


async def test_descriptors_cannot_be_sent(box):
    """Neither to the broker, nor into a pair of sockets, where the files behind them would be nobody's."""
    await box.run("1")
    before = len(os.listdir("/proc/self/fd"))
    code = """
import array, os, socket, __main__
for s in (socket.socket(fileno=os.dup(__main__.CHANNELS['broker'])), socket.socketpair()[0]):
    try:
        s.sendmsg([b'{"url": "http://x/"}\\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [0] * 50))])
    except PermissionError:
        print('refused')
"""
    assert await output(box, code) == "refused\nrefused"
    assert len(os.listdir("/proc/self/fd")) <= before


@needs_processes
async def test_priority_cannot_be_raised_nor_the_host_asked_to_dump(box):
    code = """
import os
raised = []
for attempt in (lambda: os.nice(-5), lambda: os.setpriority(os.PRIO_USER, 0, -20),
                lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))):
    try:
        attempt(); raised.append(1)
    except OSError:
        pass
if os.fork() == 0:
    os.abort()
os.wait()
print(raised, os.listdir('.'))
"""
    assert await output(box, code) == "[] []"
