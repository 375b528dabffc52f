"""A journal: finished records as JSON lines, so that a run that was stopped continues where it was."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from ..codec import Record, from_dict, to_dict
from ..errors import DataError
from ..input_file import parse_json

R = TypeVar("R", bound=Record)


def read_journal(path: Path, kind: type[R]) -> Iterator[R]:
    """The records of a journal; a last line without an end was being written when a run was stopped."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if line.endswith("\n"):
                written = parse_json(line, f"{path}:{number}")
                try:
                    yield from_dict(kind, written)
                except DataError as error:
                    raise DataError(f"{path}:{number}: {error}") from None


@contextmanager
def append_to_journal(path: Path) -> Iterator[Callable[[Record], None]]:
    """A function that adds a record; a line that a run left half written is cut off first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and (written := path.read_bytes()) and not written.endswith(b"\n"):
        path.write_bytes(written[: written.rfind(b"\n") + 1])
    with path.open("a", encoding="utf-8") as file:

        def add(record: Record) -> None:
            file.write(json.dumps(to_dict(record), ensure_ascii=False) + "\n")
            file.flush()

        yield add


async def run_workers(work: Callable[[], Awaitable[None]], count: int, seconds: float | None) -> None:
    """Runs `count` workers until all are done; after `seconds` they are cancelled."""
    workers = [asyncio.ensure_future(work()) for _ in range(count)]
    try:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.gather(*workers), seconds)
    finally:
        for task in workers:
            task.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
