"""The kernel's shared library: shipped in the wheel, or compiled once into the user's cache from a source checkout.

Run as a script by the wheel build: `python compile.py OUT` compiles `kernel.c` for any machine of this architecture.
It imports nothing from the package, because the build runs it before anything is installed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SOURCE = Path(__file__).with_name("kernel.c")
SHIPPED = Path(__file__).with_name("_kernel.so")
FLAGS = ("-O3", "-std=gnu11", "-ffp-contract=off", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")


def compilers() -> list[list[str]]:
    """Commands that compile C here, in the order of preference."""
    found = [
        [path] for name in (os.environ.get("CC", ""), "cc", "gcc", "clang") if name and (path := shutil.which(name))
    ]
    try:
        import ziglang  # noqa: F401
    except ImportError:
        return found
    return [*found, [sys.executable, "-m", "ziglang", "cc"]]


def compile_to(target: Path, *, native: bool) -> str:
    """Compile the kernel; returns the empty string, or why it failed. The target appears whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    commands = compilers()
    reasons = [] if commands else ["no C compiler was found (cc, gcc, clang or the package ziglang)"]
    for command in commands:
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            out = Path(folder) / "kernel.so"
            flags = [*FLAGS, "-march=native"] if native else list(FLAGS)
            try:
                done = subprocess.run(
                    [*command, *flags, "-o", str(out), str(SOURCE)], capture_output=True, text=True, timeout=300
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                reasons.append(f"{command[0]}: {error}")
                continue
            if done.returncode == 0 and out.exists():
                os.replace(out, target)
                return ""
            reasons.append(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    return "; ".join(reasons)


def cached_library() -> Path:
    """The path of the library of this source for this machine in the user's cache."""
    processor = platform.processor() or platform.machine()
    for line in _read(Path("/proc/cpuinfo")).splitlines():
        if line.startswith(("flags", "Features")):
            processor = line
            break
    key = SOURCE.read_bytes() + repr((FLAGS, processor, sysconfig.get_platform())).encode()
    base = Path(os.environ.get("SUBQUEST_CACHE") or Path.home() / ".cache" / "subquest")
    return base / "kernel" / f"{hashlib.sha256(key).hexdigest()[:20]}.so"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(compile_to(Path(sys.argv[1]), native=False) or 0)
