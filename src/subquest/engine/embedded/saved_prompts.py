"""Prompts of roles that a model has read, kept on disk: read once per machine, not once per process.

What is saved is the state of llama.cpp's cache after a prompt's last token. Its name is a digest of everything that
decides it: the model's and the adapter's content, the build of llama.cpp, and the prompt's tokens. A file that is
damaged or was written by someone else has the wrong checksum: it is removed, and the prompt is read again. Only what
comes before the last message is saved, so no question is.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from ...models import cache_folder

LEAST = 64
"""Prompts of fewer tokens are read faster than they are found."""
ROOM = 512_000_000
"""Bytes of all files together; those that were unused for longest leave first."""
_MAGIC = b"subquest prompt 1\n"

log = logging.getLogger(__name__)


class SavedPrompts:
    """The saved prompts of one model. `identity` names everything that decides them besides their tokens.

    Several processes may use the folder: a file appears complete, and one that another process removes is only missed.
    """

    def __init__(self, identity: Callable[[], str], *, folder: Path | None = None, room: int = ROOM) -> None:
        self._identity_of = identity
        self._folder = folder
        self._room = room

    @cached_property
    def _identity(self) -> str:
        return self._identity_of()

    @property
    def folder(self) -> Path:
        return self._folder or cache_folder() / "prompts"

    def load(self, ids: Sequence[int]) -> bytes | None:
        """The state after a prompt, None where it is not known."""
        key = self._key(ids)
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + 32
        state = content[start:]
        if content[:start] != _MAGIC + _checksum(key, state):
            log.warning("the saved prompt %s is damaged and was removed", path)
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # used now
        return state

    def save(self, ids: Sequence[int], state: bytes) -> None:
        """Keep the state after a prompt. A disk that is full or read-only costs time later, nothing else."""
        key = self._key(ids)
        if len(state) > self._room:
            return
        path = self._path(key)
        scratch = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with scratch.open("wb") as file:
                file.write(_MAGIC + _checksum(key, state))
                file.write(state)
            os.replace(scratch, path)
            self._evict()
        except OSError as error:
            log.info("a prompt was not saved: %s", error)
            with suppress(OSError):
                scratch.unlink()

    def forget(self, ids: Sequence[int]) -> None:
        """Remove a state that the model did not take."""
        with suppress(OSError):
            self._path(self._key(ids)).unlink()

    def _evict(self) -> None:
        found = []
        for path in self.folder.iterdir():
            with suppress(OSError):
                stat = path.stat()
                found.append((stat.st_mtime_ns, stat.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self._room:
                return
            with suppress(OSError):
                path.unlink()
            total -= size

    def _key(self, ids: Sequence[int]) -> bytes:
        return hashlib.sha256(self._identity.encode() + b"\n" + array("i", ids).tobytes()).digest()

    def _path(self, key: bytes) -> Path:
        return self.folder / f"{key.hex()[:32]}.kv"


def _checksum(key: bytes, state: bytes) -> bytes:
    return hashlib.sha256(key + state).digest()
