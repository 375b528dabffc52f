"""Files beside the store are checked once in a process: small ones before they are used, large ones meanwhile.

Reading a file of up to CHECKED bytes takes about 25 ms. A larger one is read by a thread while searches go on; when it
turns out to be damaged, every later search says so.
"""

from __future__ import annotations

import threading
from pathlib import Path

from ..checksums import Sum
from ..errors import DamagedIndex
from .checks import file_sum
from .segment import intact

CHECKED = 32 << 20

_lock = threading.Lock()
_found: dict[tuple[str, int, int], bool | None] = {}
"""What a check found, None while it runs; a file never changes under its name."""


class CheckedFile:
    """A file that ends with its checksum; DamagedIndex at once where it is another file than the store recorded."""

    def __init__(self, path: Path, recorded: Sum | None = None) -> None:
        self.path = path
        name = str(path)
        status, found = file_sum(name)
        self._size = found.size
        self._key = (name, status.st_ino, status.st_mtime_ns)
        if recorded is not None and found != recorded:
            raise self._damaged()

    @property
    def small(self) -> bool:
        return self._size <= CHECKED

    def require(self) -> None:
        """Raise DamagedIndex if the file is known to be damaged; a small one is checked first."""
        if self.sound() is False:
            raise self._damaged()

    def sound(self, *, wait: bool = False) -> bool | None:
        """Whether the file is what was written; None where that is still being checked, unless it should `wait`."""
        found = _found.get(self._key)
        if found is not None:
            return found
        if wait or self.small:
            return self._check()
        with _lock:
            if self._key not in _found:
                _found[self._key] = None
                threading.Thread(target=self._check, name=f"check {self.path.name}", daemon=True).start()
        return None

    def _check(self) -> bool:
        try:
            sound = intact(self.path)
        except FileNotFoundError:  # a writer has replaced it; whoever has it open keeps it
            sound = True
        if len(_found) >= 4096:
            _found.clear()
        _found[self._key] = sound
        return sound

    def _damaged(self) -> DamagedIndex:
        return DamagedIndex(
            f"{self.path} was changed after it was written; run `subquest index compact {self.path.parent}`"
        )
