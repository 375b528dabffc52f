"""Another library in a process of its own, with packages of its own: started early, measured when it is its turn.

The process reads its task as one line of JSON, says `ready` when everything is loaded, waits for `go`, and answers with
a line of JSON for each thing that it has found, then `done`. What libraries print goes to a log.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from subquest.errors import OutsideError

HERE = Path(__file__).resolve().parent
SMALL = 4e9
"""Bytes of weights up to which several peers and ours share a GPU's memory."""


class Peer:
    """The other process, seen from the benchmark."""

    def __init__(
        self, name: str, script: str, task: Mapping[str, Any], *, path: str, log: Path, env: Mapping[str, str]
    ) -> None:
        """`path` comes first on the process's PYTHONPATH, then what this process was given."""
        self.name, self._log = name, log
        paths = (path, str(HERE.parent / "src"), os.environ.get("PYTHONPATH", ""))
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            **env,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        with log.open("w", encoding="utf-8") as file:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
                text=True, env=environment, start_new_session=True,
            )  # fmt: skip
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()
        self._write(json.dumps(task))

    def wait_ready(self, seconds: float) -> None:
        self._next(seconds)

    def measure(self, seconds: float) -> Iterator[dict[str, Any]]:
        """Let it work; its figures as it finds them, each within so many seconds."""
        self._write("go")
        while (line := self._next(seconds).strip()) != "done":
            yield json.loads(line)

    def hang_up(self) -> None:
        """Let it end by itself."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()

    def close(self) -> None:
        """End the process and those that it started, by force where closing its input does not suffice."""
        self.hang_up()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            pass
        finally:
            with contextlib.suppress(ProcessLookupError):  # an engine's own processes outlive it
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # it ended: its log says why, and the next line is missing
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put("")

    def _next(self, seconds: float) -> str:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise OutsideError(f"{self.name} said nothing for {seconds:.0f} s (log: {self._log})") from None
        if not line:
            said = [line for line in self._log.read_text(encoding="utf-8", errors="replace").splitlines() if line]
            raise OutsideError(f"{self.name} ended: {said[-1] if said else 'without a word'} (log: {self._log})")
        return line


class Peers:
    """Several peers, measured one after the other: `with` it, what was started ends."""

    def __init__(
        self, starts: Mapping[str, Callable[[], Peer]], *, together: bool, seconds: float, say: Callable[..., None]
    ) -> None:
        """`together` starts them all at once, which saves time where all of them fit into the device's memory."""
        self._starts, self._together, self._seconds, self._say = starts, together, seconds, say
        self._ready: dict[str, Peer] = {}

    def __enter__(self) -> Peers:
        if self._together:
            self._ready = {name: start() for name, start in self._starts.items()}
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._ready.values():
            peer.hang_up()
        for peer in self._ready.values():
            peer.close()

    def wait(self) -> None:
        """Wait for those that start together."""
        for name, peer in list(self._ready.items()):
            if not self._waited_for(peer):
                self._ready.pop(name).close()
        if self._together and not self._ready:
            raise OutsideError("no peer could be started; their logs say why (--peer-logs FOLDER keeps them)")

    def figures(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What each peer finds, one thing after the other; one that fails is named, and what it found before counts."""
        found = 0
        for name in list(self._ready) if self._together else self._starts:
            peer = self._ready[name] = self._ready.get(name) or self._starts[name]()
            try:
                if self._together or self._waited_for(peer):
                    for figures in peer.measure(self._seconds):
                        yield peer.name, figures
                        found += 1
            except OutsideError as error:
                self._say(error)
            finally:
                peer.close()
        if not found:
            raise OutsideError("no peer could be measured; their logs say why (--peer-logs FOLDER keeps them)")

    def _waited_for(self, peer: Peer) -> bool:
        try:
            peer.wait_ready(self._seconds)
        except OutsideError as error:
            self._say(error)
            return False
        return True


class Work:
    """The benchmark, seen from the other process."""

    def __init__(self) -> None:
        self._channel: IO[str] = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # libraries print to the log
        self.task: dict[str, Any] = json.loads(sys.stdin.readline())

    def wait(self) -> None:
        """Say that everything is loaded, and wait for the turn."""
        self._say("ready")
        if sys.stdin.readline().strip() != "go":
            raise SystemExit(0)

    def answer(self, figures: Mapping[str, Any]) -> None:
        """Say what was found so far; `done` says that this is all."""
        self._say(json.dumps(figures))

    def done(self) -> None:
        self._say("done")

    def _say(self, line: str) -> None:
        self._channel.write(line + "\n")
        self._channel.flush()
