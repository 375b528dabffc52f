"""The sandbox on this machine: cells go in, output comes back, limits hold, nothing inside is trusted."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
from pathlib import Path
from typing import Any

from ...errors import SubquestError
from . import bubblewrap, seccomp
from .cgroup import Cgroup
from .interface import CodeResult, Fetch, SandboxLimits
from .watchdog import Watchdog, inner_pid, kill_below, tree
from .work_folder import WorkFile, WorkFolder

START_SECONDS = 20.0
_REPLY_BYTES = 1 << 16
_REQUEST_BYTES = 1 << 14
_FLOOD = 64
"""A call that writes this many times the kept output is stopped."""
_WHY = {
    "time": "The code was stopped after {seconds:g} seconds.",
    "memory": "The code was stopped: it used more than {memory} MB of memory.",
    "processes": "The code was stopped: it started more than {processes} processes.",
    "disk": (
        "The code was stopped: its files take more than {disk} MB or are too many (at most {files}). "
        "What it wrote was removed."
    ),
    "strays": "The code was stopped: it left processes running that start others faster than they can be ended.",
    "output": "The code was stopped: it wrote too much output.",
    "exit": "The Python process ended (exit status {status}).",
}


class Sandbox:
    """Python for one question. Variables persist between calls; a call that is stopped loses them, files stay."""

    def __init__(self, limits: SandboxLimits | None = None, fetch: Fetch | None = None) -> None:
        self.limits = limits or SandboxLimits()
        self.folder = WorkFolder()
        self._fetch = fetch
        self._fetches = 0
        self._uid: int | None = None
        self._live: _Live | None = None
        self._lost = False
        self._lock = asyncio.Lock()

    def add_file(self, path: Path, name: str = "") -> str:
        """Copy a file into the work folder, which is the folder the code runs in."""
        return self.folder.add(path, name)

    def files(self) -> list[WorkFile]:
        return self.folder.files()

    def read(self, name: str) -> bytes:
        return self.folder.read(name)

    async def run(self, code: str) -> CodeResult:
        """Run code after the earlier calls. Raises SandboxUnavailable where there is no sandbox."""
        async with self._lock:
            note = ""
            if self._live is None:
                note = "(variables of earlier calls are gone)\n" if self._lost else ""
                self._live = await self._start()
            live = self._live
            before = await asyncio.to_thread(self.folder.entries)
            try:
                result = await self._call(live, code)
            except BaseException:
                self._lost = True
                await self._end()
                raise
            if result.stopped:
                await self._end()
                self._lost = True
            if result.stopped == "disk":
                await asyncio.to_thread(self.folder.make_room, before, self.limits.disk, self.limits.files)
            return CodeResult(note + result.output, result.error, result.stopped)

    async def close(self) -> None:
        await self._end()
        await asyncio.to_thread(self.folder.remove)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, live: _Live, code: str) -> CodeResult:
        limits = self.limits
        live.wake()
        live.output.reset()
        with Watchdog(live.process.pid, limits, self.folder, live.kill, limits.seconds) as watchdog:
            reply = await live.exchange(code)
            rests = await asyncio.to_thread(live.rest)
        verdict = watchdog.verdict or ("" if rests else "strays") or await asyncio.to_thread(watchdog.judge_disk)
        live.drain()
        output = live.output.text()
        if live.output.flooded:
            verdict = "output"
        if reply is None or verdict:
            status = await live.ended() if reply is None else 0
            verdict = verdict or ("memory" if live.group.out_of_memory else "exit")
            why = _WHY[verdict].format(
                seconds=limits.seconds,
                memory=limits.memory >> 20,
                processes=limits.processes,
                disk=limits.disk >> 20,
                files=limits.files,
                status=status,
            )
            return CodeResult(output, why, verdict)
        return CodeResult(output, reply)

    async def _start(self) -> _Live:
        privileged = await asyncio.to_thread(bubblewrap.way)
        if self._uid is None:
            self._uid = bubblewrap.new_uid()
            self.folder.hand_over(self._uid)
        replies, replies_in = os.pipe()
        info, info_in = os.pipe()
        commands_out, commands = os.pipe()
        output, output_in = os.pipe()
        broker, broker_in = socket.socketpair()
        channels = bubblewrap.Channels(seccomp.as_descriptor(), info_in, commands_out, replies_in, broker_in.detach())
        try:
            # Not by asyncio, because uvloop would fork this process with all its threads; and not in another thread,
            # because bubblewrap ends with the thread that started it.
            process = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
                bubblewrap.command_line(self.folder.path, self.limits, channels, self._uid if privileged else 0),
                stdin=subprocess.DEVNULL,
                stdout=output_in,
                stderr=output_in,
                pass_fds=channels.all,
                env={},
                **bubblewrap.identity(privileged, self._uid),
            )
        except BaseException:
            for descriptor in (commands, replies, output, info):
                os.close(descriptor)
            broker.close()
            raise
        finally:
            for descriptor in (*channels.all, output_in):
                os.close(descriptor)
        group = await asyncio.to_thread(Cgroup, self.limits)
        live = _Live(process, commands, replies, output, broker, self.limits, group)
        try:
            await live.learn_init(info)
        except BaseException:
            await live.close()
            raise
        live.serve(self._answer)
        return live

    async def _answer(self, url: str) -> tuple[dict[str, Any], bytes]:
        """The broker's answer to a request of the code: a header, and the content after it."""
        self._fetches += 1
        if self._fetch is None:
            return {"error": "this run has no access to the web"}, b""
        if self._fetches > self.limits.fetches:
            return {"error": f"at most {self.limits.fetches} fetches are allowed"}, b""
        try:
            found = await self._fetch(url)
        except SubquestError as error:
            return {"error": str(error)}, b""
        header = {"status": found.status, "url": found.url, "content_type": found.content_type}
        return {**header, "length": len(found.content)}, found.content

    async def _end(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            await live.close()


class _Output:
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


class _Live:
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
        self.output = _Output(limits.output)
        self._loop = asyncio.get_running_loop()
        self._commands, self._replies, self._out = commands, replies, output
        self._broker = broker
        self._init = 0
        self._handles: list[int] = [os.pidfd_open(process.pid)]
        """Process descriptors of bubblewrap and of the sandbox's init: a pid may be used again, these are not."""
        self._guest = 0
        self._server: asyncio.Task[None] | None = None
        self._reading = True
        for descriptor in (commands, replies, output):
            os.set_blocking(descriptor, False)
        broker.setblocking(False)
        self._loop.add_reader(output, self.drain)

    async def learn_init(self, info: int) -> None:
        """Read the pid of the sandbox's init from bubblewrap; every process inside ends with it."""
        try:
            text = await asyncio.to_thread(_read_all, info)
        finally:
            os.close(info)
        with contextlib.suppress(ValueError, KeyError, TypeError, OSError):
            self._init = int(json.loads(text)["child-pid"])
            self._handles.append(os.pidfd_open(self._init))
            self.group.take(self._init)

    def wake(self) -> None:
        if self._guest:
            with contextlib.suppress(OSError):
                os.kill(self._guest, signal.SIGCONT)

    def rest(self) -> bool:
        """Between calls nothing runs: what the code left is killed, its process is stopped; False where that failed."""
        if self.process.poll() is not None or len(self._handles) < 2:
            return True
        if not self._guest:
            self._guest = next((pid for pid in tree(self._init) if inner_pid(pid) == 2), 0)
        if self._guest:
            with contextlib.suppress(OSError):
                os.kill(self._guest, signal.SIGSTOP)
        return kill_below(self._init, spared=self._guest)

    async def exchange(self, code: str) -> str | None:
        """Send a cell and wait for its end: its traceback, empty for none, None where the process died."""
        line = json.dumps(code).encode() + b"\n"
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
            error = json.loads(reply)["error"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return "The sandbox gave a malformed reply."
        return error.encode("utf-8", "replace").decode() if isinstance(error, str) else ""

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
        while self._reading:
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
            if self.output.flooded:
                self.kill()
                return

    def serve(self, answer: Any) -> None:
        self._server = asyncio.create_task(self._serve(answer))

    async def _serve(self, answer: Any) -> None:
        """Answer the code's requests, one at a time; a malformed one ends the service."""
        loop, waiting = self._loop, bytearray()
        with contextlib.suppress(OSError):
            while True:
                part = await loop.sock_recv(self._broker, 4096)
                if not part:
                    return
                waiting += part
                while b"\n" in waiting:
                    line, _, rest = bytes(waiting).partition(b"\n")
                    waiting = bytearray(rest)
                    try:
                        url = json.loads(line)["url"]
                    except (ValueError, KeyError, TypeError, RecursionError):
                        return
                    header, content = await answer(str(url))
                    await loop.sock_sendall(self._broker, json.dumps(header).encode() + b"\n" + content)
                if len(waiting) > _REQUEST_BYTES:
                    return

    def kill(self) -> None:
        for handle in self._handles:
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
            select.select([handle], [], [], START_SECONDS)

    async def close(self) -> None:
        self.kill()
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        await self.ended()
        self._loop.remove_reader(self._out)
        self._reading = False
        self._broker.close()
        for descriptor in (self._commands, self._replies, self._out, *self._handles):
            os.close(descriptor)
        self._handles.clear()
        await asyncio.to_thread(self.group.close)


def _read_all(descriptor: int) -> str:
    data = bytearray()
    while part := os.read(descriptor, 4096):
        data += part
    return data.decode(errors="replace")
