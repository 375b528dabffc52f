"""A small sandbox for tests, and what is seen of it from outside."""

import contextlib
from pathlib import Path
from types import SimpleNamespace

import pytest

from subquest.tools.sandbox import (
    Sandbox,
    SandboxLimits,
    SandboxUnavailable,
    bubblewrap,
    cgroup,
    local,
)

try:
    bubblewrap.way()
except SandboxUnavailable as error:
    pytest.skip(f"no sandbox here: {error}", allow_module_level=True)

SMALL = SandboxLimits(seconds=60, memory=400 << 20, processes=16, disk=16 << 20, files=200, output=2000)
needs_processes = pytest.mark.skipif(not cgroup.available(), reason="without a control group code has one process")
KNOBS = """
import os
wrote = []
for place in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/drop_caches',
              '/proc/self/oom_score_adj'):
    try:
        os.write(os.open(place, os.O_WRONLY), b'-1000'); wrote.append(place)
    except OSError:
        pass
wrote
"""


@pytest.fixture
async def box():
    async with Sandbox(SMALL) as sandbox:
        yield sandbox


class Clock:
    now = 0.0


@pytest.fixture
def clock(monkeypatch):
    """The time by which sandboxes limit calls. It passes by hand, so that no machine is too slow for a test."""
    found = Clock()
    monkeypatch.setattr(local, "time", SimpleNamespace(monotonic=lambda: found.now))
    return found


async def output(box: Sandbox, code: str) -> str:
    result = await box.run(code)
    assert result.ok, result.text
    return result.output.strip()


def alive(box: Sandbox) -> list[str]:
    """Processes on the host that have the sandbox's uid."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                status = (entry / "status").read_text()
                if f"\nUid:\t{box._uid}\t" in status and "\nState:\tZ" not in status:
                    found.append(entry.name)
    return found if box._uid else []
