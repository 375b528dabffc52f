"""A running sandbox as the host sees it: its processes, its channels, its folders and what it writes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import time
from typing import Any

from ...codec import utf8
from ...process import readable
from .cgroup import Cgroup
from .interface import SandboxLimits, SandboxUnavailable
from .watchdog import inner_pid, kill_below, tree

START_SECONDS = 60.0
_REPLY_BYTES = 1 << 16
_REQUEST_BYTES = 1 << 16
_PART_BYTES = 1 << 16
_FLOOD = 64
"""A call that writes this many times the kept output is stopped."""


class Output:
    """What code writes: the first and the last half of what is kept; the rest is read and dropped."""

    def __init__(self, keep: int) -> None:
        self._half = keep // 2
        self._keep = keep
        self.reset()

    def reset(self) -> None:
        self._head, self._tail, self._total = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        self._total += len(data)
        room = self._half - len(self._head)
        self._head += data[:room]
        self._tail = (self._tail + data[room:] if room > 0 else self._tail + data)[-self._half :]

    @property
    def flooded(self) -> bool:
        return self._total > self._keep * _FLOOD

    def text(self) -> str:
        dropped = self._total - len(self._head) - len(self._tail)
        cut = f"\n… {dropped:,} bytes left out …\n".encode() if dropped > 0 else b""
        return (bytes(self._head) + cut + bytes(self._tail)).decode("utf-8", "replace")


class RunningSandbox:
    """A running sandbox process and its channels."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        commands: int,
        replies: int,
        output: int,
        broker: socket.socket,
        limits: SandboxLimits,
        group: Cgroup,
    ) -> None:
        self.process = process
        self.group = group
        self.names: list[str] = []
        """Variables of the code, as it says."""
        self.cancelled = False
        self.output = Output(limits.output)
        self._loop = asyncio.get_running_loop()
        self._commands, self._replies, self._out = commands, replies, output
        self._broker = broker
        self._init = self._guest = 0
        self._handles: list[int] = [os.pidfd_open(process.pid)]
        """Process descriptors of bubblewrap, the sandbox's init and its driver: unlike a pid, they stay theirs."""
        self._folders: list[int] = []
        """Descriptors of /work, /tmp and /dev/shm inside."""
        self._server: asyncio.Task[None] | None = None
        self._reading = True
        for descriptor in (commands, replies, output):
            os.set_blocking(descriptor, False)
        broker.setblocking(False)
        self._loop.add_reader(output, self.drain)

    async def enter(self, info: int) -> None:
        """Find the sandbox's processes and folders, and put it into its control group."""
        try:
            text = await asyncio.to_thread(_read_all, info)
        finally:
            os.close(info)
        try:
            self._init = int(json.loads(text)["child-pid"])
            self._handles.append(os.pidfd_open(self._init))
            self._guest = await asyncio.to_thread(self._find_guest)
            self._handles.append(os.pidfd_open(self._guest))
            self.group.take(self._init)
            for place in ("work", "tmp", "dev/shm"):
                self._folders.append(os.open(f"/proc/{self._init}/root/{place}", os.O_RDONLY | os.O_DIRECTORY))
        except (ValueError, KeyError, TypeError, OSError) as error:
            self.drain()
            said = self.output.text().strip()[-300:]
            raise SandboxUnavailable(f"a sandbox could not be started: {said or error}") from None

    def _find_guest(self) -> int:
        """The pid of the driver: the first process behind the sandbox's init."""
        deadline = time.monotonic() + START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            for pid in tree(self._init):
                if inner_pid(pid) == 2:
                    return pid
            time.sleep(0.001)
        raise OSError("its driver does not run")

    def open_folder(self) -> int:
        """A descriptor of the work folder that stays open when the sandbox ends."""
        return os.dup(self._folders[0])

    def entries(self) -> int:
        return _entries(self._folders[0])

    def temporary_entries(self) -> int:
        """Of the fuller one of /tmp and /dev/shm."""
        return max(map(_entries, self._folders[1:]))

    def has_locks(self, number: int) -> bool:
        """Whether there are so many locks on files, which are kernel memory that only a control group limits.

        No more than necessary is read: the kernel takes the longer for each page, the more of them there are.
        """
        seen = 0
        with contextlib.suppress(OSError), open(f"/proc/{self._init}/root/proc/locks", "rb", buffering=0) as file:
            while seen < number and (page := file.read(4096)):
                seen += page.count(b"\n")
        return seen >= number

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def interrupt(self) -> None:
        self._signal(signal.SIGINT)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._handles[2], number)

    def rest(self) -> bool:
        """Between calls nothing runs: what the code left is killed, its process is stopped; False where that failed."""
        if self.process.poll() is not None:
            return True
        self._signal(signal.SIGSTOP)
        return kill_below(self._init, spared=self._guest)

    async def exchange(self, **command: Any) -> str | None:
        """Send a command to the driver and wait for its end: a traceback, empty for none, None where it died."""
        line = json.dumps(command).encode() + b"\n"
        try:
            while line:
                try:
                    line = line[os.write(self._commands, line) :]
                except BlockingIOError:
                    await asyncio.sleep(0.002)
            reply = await self._reply()
        except OSError:
            return None
        if reply is None:
            return None
        try:
            answer = json.loads(reply)
            error, names = answer["error"], answer.get("names")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return "The sandbox gave a malformed reply."
        if isinstance(names, list):
            self.names = [utf8(name) for name in names if isinstance(name, str)]
        return utf8(error) if isinstance(error, str) else ""

    async def _reply(self) -> bytes | None:
        data = bytearray()
        ready = asyncio.Event()
        self._loop.add_reader(self._replies, ready.set)
        try:
            while b"\n" not in data:
                await ready.wait()
                ready.clear()
                try:
                    part = os.read(self._replies, _REPLY_BYTES)
                except BlockingIOError:
                    continue
                if not part:
                    return None
                data += part
                if len(data) > _REPLY_BYTES:
                    break
            return bytes(data).partition(b"\n")[0]
        finally:
            self._loop.remove_reader(self._replies)

    def drain(self) -> None:
        """Take what was written: at most the content of a full pipe, because the loop has other work."""
        for _ in range(32):
            if not self._reading:
                return
            try:
                data = os.read(self._out, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._loop.remove_reader(self._out)
                self._reading = False
                return
            self.output.add(data)

    def serve(self, answer: Any) -> None:
        self._server = asyncio.create_task(self._serve(answer))

    async def _serve(self, answer: Any) -> None:
        """Answer the code's requests, one at a time; a malformed one ends the service.

        Every message says which request it belongs to: an interrupted call may leave some behind.
        """
        with contextlib.suppress(OSError):
            while request := await self._loop.sock_recv(self._broker, _REQUEST_BYTES):
                try:
                    asked = json.loads(request)
                    number = int(asked["number"]).to_bytes(8, "big")
                    url = str(asked["url"])
                except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
                    return
                header, content = await answer(url)
                await self._loop.sock_sendall(self._broker, number + json.dumps(header).encode())
                for at in range(0, len(content), _PART_BYTES):
                    await self._loop.sock_sendall(self._broker, number + content[at : at + _PART_BYTES])

    def kill(self) -> None:
        for handle in self._handles[:2]:  # all others end with the init
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    async def ended(self) -> int:
        """Exit status, once every process inside has ended."""
        try:
            status = await asyncio.to_thread(self.process.wait, 2)
        except subprocess.TimeoutExpired:
            self.kill()
            status = await asyncio.to_thread(self.process.wait)
        await asyncio.to_thread(self._wait_for_all)
        return status

    def _wait_for_all(self) -> None:
        for handle in self._handles:
            readable(handle, START_SECONDS)

    async def close(self) -> None:
        self.kill()
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        await self.ended()
        self._loop.remove_reader(self._out)
        self._reading = False
        self._broker.close()
        for descriptor in (self._commands, self._replies, self._out, *self._handles, *self._folders):
            os.close(descriptor)
        self._handles.clear()
        await asyncio.to_thread(self.group.close)


def _entries(descriptor: int) -> int:
    """Files and folders of a file system in memory; its own root is one of them."""
    found = os.fstatvfs(descriptor)
    return found.f_files - found.f_ffree - 1


def _read_all(descriptor: int) -> str:
    data = bytearray()
    while part := os.read(descriptor, 4096):
        data += part
    return data.decode(errors="replace")
