"""The bubblewrap command line of a sandbox: separate namespaces, no network and a read-only system.

There are two ways. Started by root, bubblewrap mounts as root (so a Python below /root can be bound) and the guest then
drops to a uid that nobody else has. Started by anybody else, a user namespace does both. Where root lacks the
privileges for the first way, it takes the second under a uid that nobody else has: root in a user namespace is still
root to files such as /proc/sys. Which way works is tried once; where none does, code is refused.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import seccomp
from .interface import SandboxLimits, SandboxUnavailable

PACKAGES = ("numpy", "pandas", "dateutil", "pytz", "six", "tzdata", "openpyxl", "et_xmlfile")
"""What code can import beside the standard library, where installed; binary wheels keep libraries in `NAME.libs`."""
GUEST = Path(__file__).with_name("guest.py")
INSTALL = "install bubblewrap (Debian, Ubuntu: apt-get install bubblewrap libseccomp2; Fedora: dnf install bubblewrap)"
_UID_BASE, _UID_SPAN = 0x3000_0000, 0x0FFF_FFFF


@dataclass(frozen=True, slots=True)
class Channels:
    """Descriptors that a sandbox inherits, under their numbers."""

    seccomp: int
    info: int
    commands: int
    replies: int
    broker: int
    earlier: int
    """The work folder of the sandbox before this one, whose files it takes over."""

    @property
    def all(self) -> tuple[int, ...]:
        return self.seccomp, self.info, self.commands, self.replies, self.broker, self.earlier


def new_uid() -> int:
    """A uid that nothing else on the host has; 0 where we are not root and keep ours."""
    return _UID_BASE + secrets.randbelow(_UID_SPAN) if os.geteuid() == 0 else 0


def identity(privileged: bool, uid: int) -> dict[str, Any]:
    """The user that starts bubblewrap: root only where necessary, and then the guest drops to `uid`."""
    return {"user": uid, "group": uid, "extra_groups": []} if uid and not privileged else {}


def command_line(given: Path, limits: SandboxLimits, channels: Channels, uid: int, grouped: bool) -> list[str]:
    """The command of one sandbox that may read the folder `given`.

    A `uid` of 0 chooses the unprivileged way; without a control group (`grouped`), code has a single process.
    """
    options = {
        "uid": uid,
        "channels": {
            "commands": channels.commands,
            "replies": channels.replies,
            "broker": channels.broker,
            "earlier": channels.earlier,
        },
        "memory": limits.process_bytes,
        "disk": limits.work_bytes,
        "files": limits.files,
        "processes": limits.processes,
        "alone": not grouped,
    }
    python, binds = _python()
    command = [
        _bwrap(),
        *("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"),
        *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"),
    ]
    if uid:
        command += ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        command += ["--unshare-user", "--uid", "65534", "--gid", "65534", "--cap-drop", "ALL"]
    command += ["--ro-bind", "/usr", "/usr"]
    for folder in ("/etc", "/opt", "/opt/packages", "/opt/given"):
        command += ["--perms", "0755", "--dir", folder]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        place = Path("/", name)
        if place.is_symlink():
            command += ["--symlink", os.readlink(place), str(place)]
        elif place.is_dir():
            command += ["--ro-bind", str(place), str(place)]
    command += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    for source, target in (*binds, *_packages()):
        command += ["--ro-bind", source, target]
    command += [
        *("--ro-bind", str(GUEST), "/opt/driver.py"),
        *("--ro-bind", str(given), "/opt/given"),
        *("--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"),
        *("--size", str(4096), "--tmpfs", "/proc/1", "--remount-ro", "/proc/1"),  # bubblewrap: its memory and command
        *("--size", str(limits.shared_bytes), "--tmpfs", "/dev/shm", "--chmod", "1777", "/dev/shm"),
        *("--size", str(limits.temporary_bytes), "--tmpfs", "/tmp", "--chmod", "1777", "/tmp"),
        *("--size", str(limits.work_bytes), "--tmpfs", "/work", "--chmod", "0777", "/work", "--remount-ro", "/"),
    ]
    for name, value in {
        "PATH": "/usr/bin:/bin",
        "HOME": "/work",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "LD_LIBRARY_PATH": "/opt/python/lib",
        **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    }.items():
        command += ["--setenv", name, value]
    command += ["--chdir", "/", "--seccomp", str(channels.seccomp), "--info-fd", str(channels.info)]
    return [*command, "--", python, "-I", "-S", "-u", "-X", "utf8", "/opt/driver.py", json.dumps(options)]


@functools.cache
def way() -> bool:
    """Whether the privileged way works here; raises SandboxUnavailable where neither does."""
    if sys.platform != "linux":
        raise SandboxUnavailable("code needs the Linux sandbox; set SUBQUEST_SANDBOX_URL to a remote /execute server")
    _bwrap()
    seccomp.program()
    problems = []
    for privileged in (True, False) if os.geteuid() == 0 else (False,):
        problem = _try(privileged)
        if not problem:
            return privileged
        problems.append(problem)
    raise SandboxUnavailable(
        f"bubblewrap cannot make a sandbox here ({'; '.join(problems)}). It needs user namespaces or root with "
        "CAP_SYS_ADMIN; or set SUBQUEST_SANDBOX_URL to a remote /execute server. Code is never run on the host."
    )


def _try(privileged: bool) -> str:
    """Start the guest with nothing to do; returns what went wrong."""
    with tempfile.TemporaryDirectory(prefix="subquest-") as folder:
        nothing = os.open(os.devnull, os.O_RDWR)  # no command to read: the guest ends
        channels = Channels(seccomp.as_descriptor(), *(os.dup(nothing) for _ in range(5)))
        uid = new_uid()
        try:
            if uid:
                os.chown(folder, uid, uid)
            done = subprocess.run(
                command_line(Path(folder), SandboxLimits(), channels, uid if privileged else 0, grouped=True),
                pass_fds=channels.all,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                env={},
                **identity(privileged, uid),
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            for descriptor in (nothing, *channels.all):
                os.close(descriptor)
    return done.stderr.decode(errors="replace").strip()[-300:] if done.returncode else ""


@functools.cache
def _bwrap() -> str:
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable(
            f"code needs a sandbox and there is none: {INSTALL}, or set SUBQUEST_SANDBOX_URL to a remote "
            "/execute server. Code is never run on the host."
        )
    return found


@functools.cache
def _python() -> tuple[str, tuple[tuple[str, str], ...]]:
    """The interpreter inside, and what has to be bound for it beyond /usr."""
    base = Path(sys.base_prefix).resolve()
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if base.is_relative_to("/usr"):
        return str(base / "bin" / name), ()
    return f"/opt/python/bin/{name}", ((str(base), "/opt/python"),)


@functools.cache
def _packages() -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        package = origin.parent if origin.name == "__init__.py" else origin
        for place in (package, package.with_name(f"{name}.libs")):
            if place.exists():
                found.append((str(place), f"/opt/packages/{place.name}"))
    return tuple(found)
