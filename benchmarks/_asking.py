"""`subquest` in processes of its own, with a cache of its own for the prompts that models have read."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from subquest.models import cache_folder


class Done(NamedTuple):
    seconds: float
    """By the clock."""
    cpu: float
    """Computing time of all threads, which other work on the machine disturbs less."""
    out: str


class Desk:
    """A folder in which commands run. Models come from the user's cache, read prompts do not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "cache").mkdir()
        (folder / "cache" / "models").symlink_to(cache_folder() / "models")

    def run(self, *arguments: str, answered: bool = True) -> Done:
        """Run a command. With `answered=False` an `ask` that finds no answer is fine, too: it exits with 1."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "subquest", *arguments],
            cwd=self.folder,
            env=os.environ | {"SUBQUEST_CACHE": str(self.folder / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and (answered or done.returncode != 1 or not done.stdout):
            raise SystemExit(done.stderr)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Done(time.perf_counter() - start, cpu, done.stdout)

    def forget_prompts(self) -> None:
        shutil.rmtree(self.folder / "cache" / "prompts", ignore_errors=True)


@contextmanager
def desk() -> Iterator[Desk]:
    with tempfile.TemporaryDirectory() as name:
        yield Desk(Path(name))
