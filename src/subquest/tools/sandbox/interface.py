"""The interface of code execution: code in, output out, state kept between calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ...errors import ToolError


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What the code of one question may use, counted over the whole process tree."""

    seconds: float = 60.0
    """Wall-clock time of one call."""
    memory: int = 1536 << 20
    """Bytes of memory in all: processes, files (the work folder is in memory) and what the kernel keeps for them."""
    processes: int = 32
    """Processes and threads."""
    disk: int = 256 << 20
    """Bytes in the work folder; at most a quarter of the memory."""
    files: int = 4096
    """Files and folders in the work folder."""
    output: int = 20_000
    """Characters of output that are kept: the first and the last half."""
    fetches: int = 50
    """Pages and files that code may fetch through the broker."""

    @property
    def work_bytes(self) -> int:
        return min(self.disk, self.memory // 4)

    @property
    def temporary_bytes(self) -> int:
        """The size of /tmp."""
        return self.memory // 24

    @property
    def shared_bytes(self) -> int:
        """The size of /dev/shm."""
        return self.memory // 48

    @property
    def process_bytes(self) -> int:
        """What one process may allocate: a MemoryError, which keeps the variables, comes before the limit of all."""
        kernel = self.memory // 16  # pipes, sockets, page tables
        return self.memory - self.work_bytes - self.temporary_bytes - self.shared_bytes - kernel


@dataclass(frozen=True, slots=True)
class CodeResult:
    """The result of running code. Errors of the code are data: they go back to the model."""

    output: str
    error: str = ""
    """Traceback of the code, or why it was stopped."""
    stopped: str = ""
    """time, memory, files, locks, output, strays, exit: why the sandbox was ended; its variables are then lost."""

    @property
    def ok(self) -> bool:
        return not self.error

    @property
    def text(self) -> str:
        """Output and error as a model reads them."""
        return "\n".join(part for part in (self.output.rstrip(), self.error.rstrip()) if part) or "(no output)"


@dataclass(frozen=True, slots=True)
class Fetched:
    """What the broker returns to code that asked for a URL."""

    status: int
    url: str
    content_type: str
    content: bytes


Fetch = Callable[[str], Awaitable[Fetched]]
"""The guarded fetch that runs outside the sandbox; raises ToolError where it refuses or fails."""


class Interpreter(Protocol):
    """Anything that runs Python code, with state between its calls."""

    async def run(self, code: str) -> CodeResult: ...

    def add_file(self, path: Path, name: str = "") -> str:
        """Give the code a copy of a file; returns the name it has there."""
        ...

    async def close(self) -> None: ...


class SandboxUnavailable(ToolError):
    """There is no sandbox here: code is refused, never run on the host."""
