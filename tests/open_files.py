"""Which files this process has open."""

from pathlib import Path


def open_below(place: Path) -> list[str]:
    """Open files whose paths begin with a path."""
    links = [str(link.readlink()) for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [link for link in links if link.startswith(str(place))]
