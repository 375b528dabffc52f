"""Python for one question: one interpreter, whose variables and files persist across calls and tasks.

A resource that the coordinator remembers may be a variable of an earlier task (HiRA's resource memory), so code of a
later task must find it. No question sees another's: each run has an interpreter and a folder of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..errors import ToolError
from ..tools.sandbox import CodeResult, Interpreter, Sandbox, WorkFile

COLLECTED = 200
"""Most files of one run."""


class CodeSession:
    """The interpreter of a run, and the files that its code has written."""

    def __init__(self, start: Callable[[], Interpreter], files: dict[str, Path], folder: Path, disk: int) -> None:
        """`files` are those of the run by name: code gets copies, and files that it writes are added."""
        self._start = start
        self._files = files
        self._folder = folder
        self._disk = disk
        self._box: Interpreter | None = None
        self._written: dict[str, WorkFile] = {}
        self._kept = 0

    async def run(self, source: str) -> CodeResult:
        if self._box is None:
            self._box = self._start()
            for name, path in self._files.items():
                with suppress(ToolError):
                    self._box.add_file(path, name)
        return await self._box.run(bare_code(source))

    def collect(self) -> str:
        """Files that the code has written become files of the run, in their newest form; attached ones stay as given.

        What is kept on the host is bounded, however large the files claim to be: the first that does not fit is named.
        """
        if not isinstance(self._box, Sandbox):
            return ""
        for file in self._box.files():
            target = self._folder / plain_name(file.name)
            ours = self._files.get(target.name, target) == target
            if not file.size or not ours or self._written.get(file.name) == file:
                continue
            if self._kept + file.size > self._disk or len(self._files) >= COLLECTED:
                return target.name
            with suppress(ToolError, OSError):
                content = self._box.read(file.name)
                target.write_bytes(content)
                self._kept += len(content)
                self._files[target.name] = target
                self._written[file.name] = file
        return ""

    async def close(self) -> None:
        if self._box is not None:
            await self._box.close()


def plain_name(name: str) -> str:
    """A file name chosen by code, made safe to write and print."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("/", "_")
    return "".join(c if c.isprintable() else "_" for c in text)[-60:]


def bare_code(source: str) -> str:
    """Code without the fence or the word `python` that models put around it."""
    text = source.strip()
    if text.startswith("```"):
        text = text.removeprefix("```").removesuffix("```")
    first, newline, rest = text.partition("\n")
    return rest if newline and first.strip().lower() in ("python", "py", "") else text
