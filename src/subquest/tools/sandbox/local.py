"""The sandbox on this machine: cells go in, output comes back, limits hold, nothing inside is trusted."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from ...errors import SubquestError, ToolError
from . import bubblewrap, cgroup, seccomp
from .interface import CodeResult, Fetch, SandboxLimits
from .running import START_SECONDS, RunningSandbox
from .watchdog import Watchdog
from .work_folder import WorkFile, WorkFolder

_REFUSAL = 2000
"""Most characters of an error that code is told."""
_LOCKS = 500
"""Locks on files are too many where there is no control group."""
_TEMPORARY_FILES = 20_000
"""Entries of /tmp and of /dev/shm: their bytes are limited, but every entry also takes kernel memory."""
_WHY = {
    "time": "The code was stopped after {seconds:g} seconds.",
    "memory": "The code was stopped: it used more than {memory} MB of memory.",
    "files": "The code was stopped: it wrote too many files (at most {files}). What it wrote was removed.",
    "locks": "The code was stopped: it locked too many parts of files.",
    "strays": "The code was stopped: it left processes running that start others faster than they can be ended.",
    "output": "The code was stopped: it wrote too much output.",
    "exit": "The Python process ended (exit status {status}).",
}


class Sandbox:
    """Python for one question. Variables and files persist between calls.

    A call that exceeds a limit is interrupted, which keeps them. Only code that does not react loses its variables,
    because its process has to be killed; files stay.
    """

    def __init__(self, limits: SandboxLimits | None = None, fetch: Fetch | None = None) -> None:
        self.limits = limits or SandboxLimits()
        self.folder = WorkFolder()
        self._fetch = fetch
        self._fetches = 0
        self._uid: int | None = None
        self._live: RunningSandbox | None = None
        self._note = ""
        """What the next call says about things that were lost."""
        self._kept: list[str] | None = None
        """Names in the work folder that a new sandbox takes over; None for all."""
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
            if self._live is None:
                self._live = await self._start()
            note, self._note = self._note, ""
            live, before = self._live, self.folder.names()
            try:
                result = await self._call(live, code, before)
            except BaseException:
                await self._lose(live, None)
                raise
            if result.stopped:
                await self._lose(live, before if result.stopped == "files" else None)
            if live.cancelled:
                live.cancelled = False
                raise asyncio.CancelledError
            return CodeResult(note + result.output, result.error, result.stopped)

    async def close(self) -> None:
        await self._end()
        await asyncio.to_thread(self.folder.remove)

    async def __aenter__(self) -> Sandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _call(self, live: RunningSandbox, code: str, before: list[str]) -> CodeResult:
        """One call. A cancelled one is interrupted like one that takes too long, so that variables stay."""
        limits, folder = self.limits, self.folder
        deadline = time.monotonic() + limits.seconds
        kills = live.group.memory_kills

        def judge() -> str:
            if time.monotonic() > deadline:
                return "time"
            if live.output.flooded:
                return "output"
            if live.group.memory_kills > kills:
                return "memory"
            if not live.group.limits_memory and live.has_locks(_LOCKS):
                return "locks"
            if live.entries() > limits.files or live.temporary_entries() > _TEMPORARY_FILES:
                return "files"
            return ""

        live.wake()
        live.output.reset()
        new, folder.new = folder.new, []
        with Watchdog(judge, live.interrupt, live.kill) as watchdog:
            exchange = asyncio.create_task(live.exchange(do="run", code=code, add=new))
            try:
                reply = await asyncio.shield(exchange)
            except asyncio.CancelledError:
                live.cancelled = True
                watchdog.stop("cancelled")
                reply = await exchange
            rests = await asyncio.to_thread(live.rest)
        live.drain()
        output = live.output.text()
        verdict = watchdog.verdict or judge().replace("time", "")
        ended = "" if rests else "strays"
        if reply is None:
            status = await live.ended()
            ended = verdict or ("memory" if live.group.memory_kills > kills else "exit")
        elif verdict == "locks" or (verdict == "files" and rests and not await self._make_room(live, before)):
            ended = verdict
        verdict = ended or verdict
        if not verdict:
            return CodeResult(output, reply or "")
        why = _WHY.get(verdict, "").format(
            seconds=limits.seconds,
            memory=limits.memory >> 20,
            files=limits.files,
            status=status if reply is None else 0,
        )
        if not ended:
            why = f"{reply}\n{why} Variables are kept." if reply else f"{why} Variables are kept."
        return CodeResult(output, why, ended)

    async def _make_room(self, live: RunningSandbox, before: list[str]) -> bool:
        """After a call that wrote too many files: whether removing the new ones helped, without a new sandbox."""
        await self._ask(live, do="keep", names=before)
        return live.entries() <= self.limits.files and live.temporary_entries() <= _TEMPORARY_FILES

    async def _ask(self, live: RunningSandbox, **command: Any) -> str | None:
        """Let the driver do something else than run code, for as long as a start may take."""
        deadline = time.monotonic() + START_SECONDS

        def judge() -> str:
            return "time" if time.monotonic() > deadline else ""

        live.wake()
        with Watchdog(judge, live.interrupt, live.kill):
            reply = await live.exchange(**command)
            await asyncio.to_thread(live.rest)
        return reply

    async def _lose(self, live: RunningSandbox, kept: list[str] | None) -> None:
        """End a sandbox whose variables cannot be kept."""
        self._note += f"(variables of earlier calls are gone{': ' if live.names else ''}{', '.join(live.names)})\n"
        self._kept = kept
        await self._end()

    async def _start(self) -> RunningSandbox:
        """A new sandbox, with the files of the one before it."""
        live = await self._spawn()
        try:
            problem = await self._ask(live, do="restore", names=self._kept)
            if problem is None and self.folder.descriptor >= 0:  # they took too long: a sandbox without them
                self._note += "(files of earlier calls are gone)\n"
                await live.close()
                self.folder.forget()
                live = await self._spawn()
                problem = await self._ask(live, do="restore", names=None)
            if problem is None:
                raise ToolError(f"the sandbox did not start: {live.output.text()[-300:]}")
            if problem:
                self._note += f"({problem})\n"
            folder = live.open_folder()
        except BaseException:
            await live.close()
            raise
        self.folder.follow(folder)
        self._kept = None
        if not self.folder.names():
            self.folder.add_all_again()
        return live

    async def _spawn(self) -> RunningSandbox:
        privileged = await asyncio.to_thread(bubblewrap.way)
        if self._uid is None:
            self._uid = bubblewrap.new_uid()
            self.folder.hand_over(self._uid)
        replies, replies_in = os.pipe()
        info, info_in = os.pipe()
        commands_out, commands = os.pipe()
        output, output_in = os.pipe()
        broker, broker_in = socket.socketpair(type=socket.SOCK_SEQPACKET)
        group = await asyncio.to_thread(lambda: cgroup.Cgroup(self.limits if cgroup.available() else None))
        earlier = os.open(os.devnull, os.O_RDONLY) if self.folder.descriptor < 0 else os.dup(self.folder.descriptor)
        channels = bubblewrap.Channels(
            seccomp.as_descriptor(group.limits_memory), info_in, commands_out, replies_in, broker_in.detach(), earlier
        )
        uid = self._uid if privileged else 0
        try:
            # Not by asyncio, because uvloop would fork this process with all its threads; and not in another thread,
            # because bubblewrap ends with the thread that started it.
            process = subprocess.Popen(  # noqa: ASYNC220 (it returns at once)
                bubblewrap.command_line(self.folder.given, self.limits, channels, uid, group.limits_memory),
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
            group.close()
            raise
        finally:
            for descriptor in (*channels.all, output_in):
                os.close(descriptor)
        live = RunningSandbox(process, commands, replies, output, broker, self.limits, group)
        try:
            await live.enter(info)
        except BaseException:
            await live.close()
            raise
        live.serve(self._answer)
        return live

    async def _answer(self, url: str) -> tuple[dict[str, Any], bytes]:
        """The broker's answer to a request of the code: a header, and the content after it."""
        self._fetches += 1
        if self._fetch is None:
            return _refusal("this run has no access to the web"), b""
        if self._fetches > self.limits.fetches:
            return _refusal(f"at most {self.limits.fetches} fetches are allowed"), b""
        try:
            found = await self._fetch(url)
        except SubquestError as error:
            return _refusal(str(error)), b""
        header = {"status": found.status, "url": found.url, "content_type": found.content_type}
        return {**header, "length": len(found.content)}, found.content

    async def _end(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None
            await live.close()


def _refusal(why: str) -> dict[str, Any]:
    return {"error": why[:_REFUSAL], "length": 0}
