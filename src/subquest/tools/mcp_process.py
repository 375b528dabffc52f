"""An MCP server that is a program of this machine: started here, spoken to over its standard input and output.

The SDK has such a transport too. Ours starts the program without forking this process with its threads, refuses
messages of any length, and keeps the program's last words, which say why it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from ..errors import UsageError

MESSAGE = 16 << 20
"""Bytes of one message."""
ENDED = "the server ended"
_WORDS = 1000
"""Bytes of what a program wrote to its standard error that are kept."""
_GRACE = 2.0
"""Seconds that a program has to end by itself."""


class McpProcess:
    """A server program and the two streams of messages to it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._said = b""
        self._process: subprocess.Popen[bytes] | None = None
        self.problem = ""
        """Why the server cannot be spoken to any more; empty while it can."""

    @property
    def last_words(self) -> str:
        """The last line that the program wrote to its standard error, if it ended."""
        if self.problem != ENDED:
            return ""
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[Any]:
        """Starts the program; it has ended afterwards."""
        process = self._start()
        reads: Any
        reads_in, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        writes, writes_out = anyio.create_memory_object_stream[SessionMessage](0)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(_ended, process)
            loop = asyncio.get_running_loop()
            out, errors = asyncio.StreamReader(limit=MESSAGE), asyncio.StreamReader(limit=_WORDS)
            for pipe, reader in ((process.stdout, out), (process.stderr, errors)):
                transport, _ = await loop.connect_read_pipe(lambda r=reader: asyncio.StreamReaderProtocol(r), pipe)  # type: ignore[misc]
                stack.callback(transport.close)
            write, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
            stack.callback(write.close)
            writer = asyncio.StreamWriter(write, protocol, None, loop)
            async with anyio.create_task_group() as group:
                group.start_soon(self._listen, errors)
                group.start_soon(self._read, out, reads_in)
                group.start_soon(self._write, writer, writes_out)
                try:
                    yield reads, writes
                finally:
                    group.cancel_scope.cancel()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            # Not by asyncio: uvloop would fork this process with all its threads.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=get_default_environment() | self._environment,
                start_new_session=True,
                bufsize=0,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"the program {self._command[0]!r} cannot be started: {reason}") from None
        return self._process

    async def _listen(self, errors: asyncio.StreamReader) -> None:
        while data := await errors.read(_WORDS):
            self._said = (self._said + data)[-_WORDS:]

    async def _read(self, out: asyncio.StreamReader, messages: Any) -> None:
        async with messages:
            while True:
                try:
                    line = await out.readuntil(b"\n")
                except asyncio.IncompleteReadError:
                    self.problem = ENDED
                    await asyncio.sleep(0.05)  # what it said last may come a moment later
                    return
                except (asyncio.LimitOverrunError, OSError) as error:
                    large = isinstance(error, asyncio.LimitOverrunError)
                    self.problem = f"it sent a message of more than {MESSAGE >> 20} MB" if large else str(error)
                    return
                try:
                    message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:  # some programs greet on their standard output
                    continue
                try:
                    await messages.send(SessionMessage(message))
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    return

    async def _write(self, writer: asyncio.StreamWriter, messages: Any) -> None:
        with contextlib.suppress(OSError):
            async with messages:
                async for each in messages:
                    writer.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await writer.drain()


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Let a program end by itself, now that its input is closed; otherwise end it with all that it started."""
    with anyio.CancelScope(shield=True):
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(process.wait, _GRACE)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.wait)
