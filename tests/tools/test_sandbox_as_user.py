"""The sandbox's tests once more, as an ordinary user: no root, no control groups, namespaces of the user's own."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
USER = 54321


def closed_folders() -> dict[Path, list[Path]]:
    """Folders that an ordinary user may not enter, and what the tests need of each."""
    found: dict[Path, list[Path]] = {}
    for place in {Path(sys.base_prefix).resolve(), Path(sys.prefix), ROOT}:
        closed = [folder for folder in reversed(place.parents) if not folder.stat().st_mode & 0o001]
        if closed:
            found.setdefault(closed[0], []).append(place)
    return found


def opened(closed: dict[Path, list[Path]], scratch: Path) -> list[str]:
    """Commands for a mount namespace of our own in which those folders show only what the tests need."""
    lines = []
    for number, (folder, places) in enumerate(closed.items()):
        stand_in = scratch / str(number)
        lines += [f"mkdir {stand_in}", f"mount -t tmpfs -o mode=755 tmpfs {stand_in}"]
        for place in places:
            inside = shlex.quote(str(stand_in / place.relative_to(folder)))
            lines += [f"mkdir -p {inside}", f"mount --bind {shlex.quote(str(place))} {inside}"]
        lines.append(f"mount --rbind {stand_in} {shlex.quote(str(folder))}")
    return lines


@pytest.mark.slow
def test_the_sandbox_as_an_ordinary_user():
    if os.geteuid() != 0:
        pytest.skip("the other tests already run as an ordinary user")
    if not (shutil.which("setpriv") and shutil.which("unshare")):
        pytest.skip("needs setpriv and unshare (util-linux)")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode:
        pytest.skip("this root may not make a mount namespace")
    scratch = Path("/tmp", f"subquest-as-user-{os.getpid()}")
    home = scratch / "home"
    home.mkdir(parents=True)
    os.chown(home, USER, USER)
    command = [
        *("setpriv", "--reuid", str(USER), "--regid", str(USER), "--clear-groups", "--inh-caps=-all"),
        *("env", "-i", f"HOME={home}", f"TMPDIR={home}", f"PATH={os.environ['PATH']}", "LANG=C.UTF-8"),
        *(f"PYTHONPATH={':'.join(filter(None, sys.path))}", "PYTHONDONTWRITEBYTECODE=1"),
        *(sys.executable, "-m", "pytest", "-v", "-n3", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestWarning"),
        *(str(HERE / f"test_sandbox{name}.py") for name in ("", "_isolation", "_limits", "_attacks")),
    ]
    mounts = opened(closed_folders(), scratch)
    script = "\n".join(["set -e", *mounts, f"cd {shlex.quote(str(ROOT))}", shlex.join(command)])
    try:
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert sum(map(int, re.findall(r"(\d+) passed", done.stdout))) > 50, done.stdout  # not skipped as a whole
