"""Which files this process has open, and how many it may open."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_below(place: Path) -> list[str]:
    """Open files whose paths begin with a path."""
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(str(place))]


@contextmanager
def many_open_files() -> Iterator[None]:
    """All that is opened inside has a number above 1,023, as where hundreds of questions are answered at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard) if hard != resource.RLIM_INFINITY else 4096, hard))
    opened = [os.open("/dev/null", os.O_RDONLY)]
    try:
        while opened[-1] < 1024:
            opened.append(os.dup(opened[0]))
        yield
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
