"""Runs commands in one process, one after the other: argument lists in, what they did out.

A process of its own, so that a command that hangs, or that brings the interpreter down, is seen and ends alone.
"""

import json
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace


def main() -> None:
    folder = Path(sys.argv[1])
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    out, err = (os.open(folder / name, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600) for name in ("stdout", "stderr"))
    os.dup2(out, 1)
    os.dup2(err, 2)
    _end_servers_at_once()
    from subquest.cli import main as command

    print("", file=replies, flush=True)
    for line in requests:
        os.chdir(folder / "work")
        for stream in (out, err):
            os.ftruncate(stream, 0)
        arguments = [os.fsdecode(bytes(word)) for word in json.loads(line)]
        try:
            status: object = command(arguments)
        except BaseException as error:
            status = repr(error)
        sys.stdout.flush()
        sys.stderr.flush()
        logging.getLogger("subquest").handlers.clear()
        said = {name: os.pread(stream, 1 << 20, 0).decode(errors="replace") for name, stream in _named(out, err)}
        print(json.dumps({"status": status, **said}), file=replies, flush=True)


def _named(out: int, err: int) -> list[tuple[str, int]]:
    return [("out", out), ("err", err)]


def _end_servers_at_once() -> None:
    """A server that starts is a command that works: it ends as if it had been asked to."""
    from subquest.cli import world
    from subquest.serve import app

    async def serve(*_: object) -> None:
        """Returns at once."""

    app.Server.serve = serve  # type: ignore[method-assign, assignment]
    world.threading = SimpleNamespace(Event=lambda: SimpleNamespace(wait=lambda: None))  # type: ignore[assignment]


if __name__ == "__main__":
    main()
