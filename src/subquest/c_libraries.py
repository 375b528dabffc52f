"""The package's C code as shared libraries: shipped in the wheel, or compiled once into the user's cache.

The wheel build runs this file before anything is installed, so it imports nothing from the package.
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
from typing import NamedTuple

PACKAGE = Path(__file__).parent
COMMON = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-fvisibility=hidden")


class CLibrary(NamedTuple):
    """A shared library made of one C file and the headers beside it."""

    source: str
    """Its path in the package."""
    name: str
    """The wheel holds it beside its source, as `_name.so`."""
    flags: tuple[str, ...]
    cpu: str = ""
    """The architecture that it is for; any if empty."""
    feature: str = ""
    """What the CPU must have, as the kernel calls it in /proc/cpuinfo."""
    target: tuple[str, ...] = ()
    """The flags that allow its instructions, for gcc and clang."""
    zig_target: tuple[str, ...] = ()
    """The same for zig, which names CPUs in its own way."""

    @property
    def shipped(self) -> Path:
        return (PACKAGE / self.source).with_name(f"_{self.name}.so")

    @property
    def cached(self) -> Path:
        """Its path in the user's cache; the name depends on the source, how it is compiled and the CPU."""
        source = PACKAGE / self.source
        key = (
            b"".join(path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h"))))
            + repr((COMMON, self.flags, self.target, sorted(cpu_features()), sysconfig.get_platform())).encode()
        )
        # as `models.cache_folder`, which cannot be imported when the wheel is built
        base = os.environ.get("SUBQUEST_CACHE") or (os.environ.get("XDG_CACHE_HOME") or "~/.cache") + "/subquest"
        return Path(base).expanduser() / "kernel" / f"{self.name}-{hashlib.sha256(key).hexdigest()[:20]}.so"

    def ready(self, *more: str) -> tuple[Path, str]:
        """The file to load, compiled first (with `more` flags) if needed, and the empty string or why there is none."""
        if self.shipped.exists():
            return self.shipped, ""
        file = self.cached
        try:
            return file, "" if file.exists() else self.compile(file, *more)
        except OSError as error:
            return file, str(error)

    def compile(self, file: Path, *more: str) -> str:
        """Compile it; returns the empty string, or why it failed. The file appears whole or not at all."""
        file.parent.mkdir(parents=True, exist_ok=True)
        commands = compilers()
        reasons = [] if commands else ["no C compiler was found (cc, gcc, clang or the package ziglang)"]
        for command in commands:
            with tempfile.TemporaryDirectory(dir=file.parent) as folder:
                out = Path(folder) / "library.so"
                target = self.zig_target if "ziglang" in command else self.target
                arguments = [*COMMON, *target, *self.flags, *more, "-o", str(out), str(PACKAGE / self.source)]
                try:
                    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=300)
                except (OSError, subprocess.TimeoutExpired) as error:
                    reasons.append(f"{command[0]}: {error}")
                    continue
                if done.returncode == 0 and out.exists():
                    os.replace(out, file)
                    return ""
                reasons.append(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
        return "; ".join(reasons)


SEARCH = CLibrary("retrieval/kernel.c", "kernel", ("-ffp-contract=off", "-pthread"))
"""Reads and writes the lexical segments of an index."""


def _products(name: str, cpu: str, feature: str, target: tuple[str, ...], zig: str) -> CLibrary:
    flags = ("-fno-math-errno", "-fno-trapping-math", "-ldl")
    return CLibrary("engine/embedded/matmul.c", f"matmul_{name}", flags, cpu, feature, target, (f"-mcpu={zig}",))


_AVX512 = ("-march=x86-64-v4", "-mprefer-vector-width=512")
MATMUL = (
    _products("dotprod", "aarch64", "asimddp", ("-march=armv8.2-a+dotprod",), "generic+dotprod"),
    _products("avx512", "x86_64", "avx512_vnni", (*_AVX512, "-mavx512vnni"), "x86_64_v4+avx512vnni"),
    _products("avx", "x86_64", "avx_vnni", ("-march=x86-64-v3", "-mavxvnni"), "x86_64_v3+avxvnni"),
    _products("avx512bw", "x86_64", "avx512bw", _AVX512, "x86_64_v4"),
    _products("avx2", "x86_64", "avx2", ("-march=x86-64-v3",), "x86_64_v3"),
)
"""Products of quantised weights for the embedded model, for each kind of CPU; the fastest come first."""


def for_this_architecture() -> list[CLibrary]:
    """What a wheel holds."""
    return [library for library in (SEARCH, *MATMUL) if library.cpu in ("", platform.machine())]


def cpu_features() -> set[str]:
    """What the CPU offers, in the names of /proc/cpuinfo; empty where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":", 1)[1].split()) for line in lines if line.startswith(("flags", "Features"))), set())


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
