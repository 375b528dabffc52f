"""The sandbox: what code can do in it, how calls end, and the channels between it and the host."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from subquest.tools.sandbox import (
    Sandbox,
    SandboxLimits,
    SandboxUnavailable,
    bubblewrap,
    watchdog,
)
from subquest.tools.sandbox.watchdog import tree

from ..open_files import many_open_files
from .sandboxes import KNOBS, SMALL, alive, box, output

__all__ = ["box"]


async def test_state_persists_and_the_last_expression_is_printed(box):
    assert await output(box, "import math\ndef f(): pass") == ""
    assert await output(box, "x = 20\ny = 22") == "y = 22"
    assert await output(box, "print('sum')\nx + y") == "sum\n42"


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        ("speed = 120 / 2.5", "speed = 48.0"),
        ("total: int = 3\ntotal += 4", "total = 7"),
        ("a = b = 'x'", "b = 'x'"),
        ("print('known')\nx = 1", "known"),
        ("import sys\nsys.stdout.write('known')\nx = 1", "known"),
        ("first, rest = 1, 2", ""),
        ("numbers = []\nnumbers.append(1)", ""),
        ("for n in range(3):\n    x = n", ""),
    ],
)
async def test_code_that_prints_nothing_shows_the_variable_it_ends_with(box, code, shown):
    assert await output(box, code) == shown


async def test_beside_a_thousand_open_files():
    with many_open_files():
        async with Sandbox(SMALL) as box:
            assert await output(box, "6 * 7") == "42"


async def test_errors_of_the_code_come_back_with_the_line_and_keep_the_state(box):
    await box.run("x = 7")
    result = await box.run("a = 1\nb = x / 0\n")
    assert "line 2" in result.error
    assert "b = x / 0" in result.error
    assert "ZeroDivisionError" in result.error
    assert "driver" not in result.error
    assert await output(box, "x") == "7"
    assert "SyntaxError" in (await box.run("for")).error
    assert (await box.run("raise SystemExit(3)")).ok


async def test_numpy_pandas_and_the_standard_library_are_there(box, tmp_path):
    table = tmp_path / "sales.csv"
    table.write_text("region,amount\nnorth,10\nsouth,32\n")
    assert box.add_file(table) == "sales.csv"
    code = "import numpy, pandas, sqlite3, decimal\npandas.read_csv('sales.csv').amount.sum() + numpy.int64(0)"
    assert "42" in await output(box, code)


async def test_a_file_that_does_not_fit_can_be_read(box, tmp_path):
    (tmp_path / "big.bin").write_bytes(b"x" * (SMALL.disk + 1))
    (tmp_path / "small.txt").write_text("one")
    box.add_file(tmp_path / "big.bin")
    assert await output(box, "len(open('big.bin', 'rb').read()) - (16 << 20)") == "1"
    assert "Read-only file system" in (await box.run("open('big.bin', 'ab')")).error
    box.add_file(tmp_path / "small.txt")
    assert await output(box, "open('small.txt', 'a').write(' two'); open('small.txt').read()") == "one two"
    assert (await box.run("import os; os._exit(0)")).stopped == "exit"
    text = await output(box, "open('small.txt').read(), len(open('big.bin', 'rb').read()) - (16 << 20)")
    assert text.endswith("('one two', 1)")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_watchdog_that_fails_ends_the_call(box, monkeypatch):
    """Fails closed: without a watchdog a call would have no time limit."""
    await box.run("1")
    monkeypatch.setattr(type(box._live), "entries", lambda self: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        await box.run("import time; time.sleep(600)")
    assert alive(box) == []


async def test_files_are_collected_as_plain_files(box):
    await box.run("import os\nos.mkdir('out')\nopen('out/a.txt', 'w').write('hello')\nopen('b.bin', 'wb').write(b'12')")
    assert [(f.name, f.size) for f in box.files()] == [("b.bin", 2), ("out/a.txt", 5)]
    assert box.read("out/a.txt") == b"hello"


async def test_no_sandbox_no_code(monkeypatch):
    """Fails closed: where bubblewrap is missing, code is refused with what to install, and never runs."""
    bubblewrap.way.cache_clear(), bubblewrap._bwrap.cache_clear()
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)
    try:
        async with Sandbox(SMALL) as box:
            with pytest.raises(SandboxUnavailable, match="apt-get install bubblewrap"):
                await box.run("open('/tmp/ran-on-host', 'w')")
    finally:
        monkeypatch.undo()
        bubblewrap.way.cache_clear(), bubblewrap._bwrap.cache_clear()
    assert not Path("/tmp/ran-on-host").exists()


async def test_a_sandbox_that_cannot_start_is_no_sandbox(monkeypatch):
    bubblewrap.way.cache_clear()
    monkeypatch.setattr(bubblewrap, "_try", lambda privileged: "no permission to make namespaces")
    try:
        with pytest.raises(SandboxUnavailable, match="never run on the host"):
            await Sandbox(SMALL).run("1")
    finally:
        monkeypatch.undo()
        bubblewrap.way.cache_clear()


async def test_root_without_privileges_is_not_root_in_its_sandbox(monkeypatch):
    """Root in a user namespace is root to /proc/sys: where it may not mount, bubblewrap starts as somebody else."""
    if os.geteuid() != 0:
        pytest.skip("for root alone")
    problem = bubblewrap._try(False)
    bubblewrap.way.cache_clear()
    monkeypatch.setattr(bubblewrap, "_try", lambda privileged: "not allowed" if privileged else problem)
    try:
        if problem:  # a Python that nobody else can read
            with pytest.raises(SandboxUnavailable, match="Permission denied"):
                await Sandbox(SMALL).run("1")
            return
        async with Sandbox(SMALL) as box:
            await box.run("1")
            uids = {Path(f"/proc/{pid}/status").stat().st_uid for pid in tree(box._live.process.pid)}
            assert 0 not in uids
            assert await output(box, KNOBS) == "[]"
    finally:
        monkeypatch.undo()
        bubblewrap.way.cache_clear()


# ---- the channels themselves


@pytest.mark.parametrize(
    "message",
    [b"", b"not json\n", b'{"error": 5}\n', b"[" * 70_000 + b"\n", b"x" * 200_000, b'{"error": ""}\n' * 50],
    ids=["nothing", "no json", "wrong type", "nested", "endless", "many"],
)
async def test_forged_replies_fool_nobody_but_themselves(message):
    async with Sandbox(SandboxLimits(seconds=60)) as box:
        code = "import os, __main__\nfd = __main__.CHANNELS['replies']\nos.set_blocking(fd, False)\n"
        code += f"try: os.write(fd, {message!r})\nexcept OSError: pass\nos._exit(3)"
        result = await box.run(code)
        assert isinstance(result.text, str)
        later = await box.run("40 + 2")
        assert "42" in later.output or later.stopped


async def test_closing_everything_ends_the_sandbox_and_nothing_else(box):
    result = await box.run("import os\nos.closerange(0, 256)\nos._exit(0)")
    assert result.stopped == "exit"
    assert "42" in (await box.run("40 + 2")).output


@pytest.mark.parametrize(
    "code",
    [
        "x = '\\x00'\x00",
        "raise ValueError('\\udcff')",
        "print('\\udcff')",
        "\udcff = 1",
        "(" * 100_000,
        "def f(): f()\nf()",
        "import ctypes\nctypes.string_at(0)",
        "class X:\n    def __repr__(self): raise SystemExit\nX()",
        "raise KeyboardInterrupt",
        "__import__('signal').raise_signal(11)",
        "#" * 5_000_000,
    ],
)
async def test_odd_code_gives_a_result_and_the_sandbox_lives_on(code):
    async with Sandbox(SandboxLimits(seconds=60)) as box:
        (await box.run(code)).text.encode()
        assert (await box.run("40 + 2")).output.endswith("42\n")


@pytest.mark.parametrize(
    "code",
    [
        "import sys\nsys.stdout = sys.stderr = None",
        "import builtins\nbuiltins.__dict__.clear()",
        "import os\nos.close(1)\nos.close(2)\nprint('gone')",
    ],
)
async def test_code_that_breaks_its_own_python_gets_a_result(code):
    async with Sandbox(SandboxLimits(seconds=60)) as box:
        (await box.run(code)).text.encode()
        (await box.run("40 + 2")).text.encode()
    assert alive(box) == []


async def test_a_cancelled_call_keeps_the_variables_and_closing_leaves_nothing(monkeypatch):
    box = Sandbox(SMALL)
    await box.run("x = 6")
    for begun, code in (
        ("a", "import time; x += 1; open('a', 'w').close(); time.sleep(60)"),
        ("b", "import time\nwhile True:\n    try: open('b', 'w').close(); time.sleep(9)\n    except: pass"),
    ):
        call = asyncio.create_task(box.run(code))
        while begun not in box.folder.names():  # noqa: ASYNC110 (only the code can tell)
            await asyncio.sleep(0.01)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        if "except" not in code:
            assert await output(box, "x") == "7"
            monkeypatch.setattr(watchdog, "GRACE", 0.4)  # the next one never reacts
    assert alive(box) == []
    assert await output(box, "1") == "(variables of earlier calls are gone: x)\n1"
    await box.close()
    assert alive(box) == []


async def test_no_descriptor_of_the_host_is_inherited(box, tmp_path):
    secret = tmp_path / "open"
    secret.write_text("canary")
    with secret.open() as held:
        os.set_inheritable(held.fileno(), True)
        code = "import os\nfor n in range(64):\n    try: print(os.fstat(n), os.readlink(f'/proc/self/fd/{n}'))\n"
        code += "    except OSError: pass"
        async with Sandbox(SMALL) as fresh:
            text = (await fresh.run(code)).text
    assert f"st_ino={secret.stat().st_ino}," not in text


@pytest.mark.slow
async def test_twenty_at_once():
    async def one(n: int) -> str:
        async with Sandbox(SMALL) as box:
            await box.run(f"x = {n}")
            return await output(box, "x * x")

    assert await asyncio.gather(*(one(n) for n in range(20))) == [str(n * n) for n in range(20)]


async def test_descriptors_and_watchdogs_do_not_leak():
    async def once() -> None:
        async with Sandbox(SMALL) as box:
            await box.run("1")

    await once()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        await once()
    assert len(os.listdir("/proc/self/fd")) <= before
    assert not [t for t in threading.enumerate() if t.name == "sandbox-watchdog"]
