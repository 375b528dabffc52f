"""The server under load for a long time: memory, descriptors, threads and disk stay flat, and nothing is lost.

    subquest bench soak --minutes 30          (make soak)

A server on a scripted model and a real index gets 50 questions at a time, and beside them searches, uploads, deletes
and readers of event streams. Early on it is restarted once by SIGTERM and once by SIGKILL; search workers are killed
all the time. Clients retry and resume, and notice nothing else.

Samples are taken in the last life of the server. After its first quarter, in which caches fill, a line is fitted to
each series: its growth over the rest of the time must stay below 5 % or below a small number. The run of the questions
grows with each question, so it is listed by itself, in bytes per question.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

SERVER = """
import sys
from pathlib import Path
from contextlib import asynccontextmanager
from subquest import AgentSpec, Index
from subquest.cli.serve import serve_until_stopped
from subquest.engine.scripted import ScriptedEngine
from subquest.serve.agents import Agents
from subquest.serve.app import bind
from subquest.serve.indexes import Indexes
from subquest.serve.settings import Settings

def reply(context):
    if context.role == "planner":
        return f"<task>Which word is number {context.turn}?</task>" if context.turn < 2 else "<answer>yes</answer>"
    return "<search>passage word</search>" if context.turn == 0 else "<refine>One.</refine><result>one</result>"

folder, port, running, latency = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
settings = Settings(
    runs=folder / "runs", indexes=folder / "indexes", port=port, asks_per_minute=10**6, running=running, queued=256,
    grace=1.0,
)

@asynccontextmanager
async def agents():
    with Index.open(folder / "docs.sq") as index:
        engine = ScriptedEngine(reply, latency=latency)
        yield Agents(AgentSpec(), ["coda"], {"default": {"": engine}}, Indexes({"docs": index}, settings.indexes))

serve_until_stopped(settings, agents, bind(settings), quiet=True)
"""
SLACK = {"memory_mb": 8.0, "descriptors": 8.0, "threads": 4.0, "disk_mb": 4.0}
"""Growth that counts as none."""

WATCHDOG = 600.0
"""Seconds after the load within which everything must have come to its end."""


class Sample(NamedTuple):
    seconds: float
    memory_mb: float
    """Of the server and its workers alone; mapped index files do not count."""
    descriptors: float
    threads: float
    disk_mb: float
    """Everything the server writes but the run of the questions."""
    run_mb: float


class Server:
    """The server's process, which can be restarted in the same place."""

    def __init__(self, folder: Path, running: int, latency: float) -> None:
        self._folder, self._options = folder, [str(running), str(latency)]
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        log = self._folder / "server.log"
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-c",
            SERVER,
            str(self._folder),
            str(self._port),
            *self._options,
        ]
        environment = {**os.environ, "TMPDIR": str(self._folder / "tmp")}
        with log.open("w") as said:
            self.process = subprocess.Popen(command, cwd=self._folder, stderr=said, env=environment)
        for _ in range(1200):
            if self.url in log.read_text():
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the server did not start: {log.read_text()}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(120)

    def restart(self, how: signal.Signals) -> None:
        self.stop(how)
        self.start()

    @property
    def log(self) -> str:
        return (self._folder / "server.log").read_text()

    def children(self) -> list[int]:
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
        return found

    def kill_worker(self) -> bool:
        """Kill one search worker; whether there was one."""
        for pid in self.children():
            with suppress(OSError):
                if b"search_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    def sample(self, seconds: float) -> Sample:
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended by itself, with status {self.process.returncode}: {self.log}")
        memory = 0.0
        for pid in (self.process.pid, *self.children()):
            with suppress(OSError):
                said = Path(f"/proc/{pid}/status").read_text()
                memory += sum(int(size) for size in re.findall(r"RssAnon:\s+(\d+)", said)) / 1024
        descriptors = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        threads = len(os.listdir(f"/proc/{self.process.pid}/task"))
        run = size_mb(self._folder / "runs", "asked.sqlite")
        disk = sum(size_mb(self._folder / name) for name in ("runs", "indexes", "tmp")) - run
        return Sample(seconds, memory, descriptors, threads, disk, run)


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=50, help="questions at a time")
    parser.add_argument("--latency", type=float, default=0.5, help="seconds that the model takes for a turn")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        server = Server(folder, args.clients, args.latency)
        try:
            figures, samples = asyncio.run(load(server, 60 * args.minutes, args.clients))
        except BaseException:
            print(server.log[-4000:], file=sys.stderr)
            raise
        finally:
            status = server.stop()
        log = server.log
    growth = {name: grown([getattr(s, name) for s in settled(samples)]) for name in SLACK}
    verdict = {f"{name} flat": is_flat(name, samples) for name in SLACK}
    verdict |= {"nothing lost": not figures["lost"], "only retries": not figures["failures"], "stopped": status == 0}
    figures |= {"minutes": args.minutes, "growth": growth, "verdict": verdict}
    print(table(samples), json.dumps(figures, indent=1), sep="\n", file=sys.stderr)
    if not all(verdict.values()):
        raise RuntimeError(f"the server did not stay as it was: {verdict}\n{log[-2000:]}")
    return {"name": "soak", "figures": figures, "ratios": {f"{k} at the end / before": v for k, v in growth.items()}}


def build(folder: Path) -> None:
    from subquest import Index
    from subquest.record import Document

    (folder / "tmp").mkdir()
    generator = random.Random(3)
    words = ["".join(generator.choices("abcdefghijklmnop", k=6)) for _ in range(2000)]
    texts = (" ".join(["passage", "word", *generator.choices(words, k=40)]) for _ in range(5000))
    Index.build(folder / "docs.sq", [Document(f"p{n}", f"Passage {n}", text) for n, text in enumerate(texts)]).close()


async def load(server: Server, seconds: float, askers: int) -> tuple[dict[str, Any], list[Sample]]:
    """All clients at work until the time is up, with two restarts and kills of workers."""
    import httpx2
    from _soak_clients import Clients

    began = time.monotonic()
    limits = httpx2.Limits(max_connections=4 * askers + 40, max_keepalive_connections=askers)
    samples: list[Sample] = []
    killed = 0

    async def trouble() -> None:
        nonlocal killed
        for share, how in ((0.05, signal.SIGTERM), (0.1, signal.SIGKILL)):
            await asyncio.sleep(max(0.0, began + share * seconds - time.monotonic()))
            await asyncio.to_thread(server.restart, how)
        while time.monotonic() < began + seconds:
            samples.append(await asyncio.to_thread(server.sample, time.monotonic() - began))
            if len(samples) % 30 == 10:
                killed += server.kill_worker()
            await asyncio.sleep(min(2.0, seconds / 30))

    async with (
        asyncio.timeout(seconds + WATCHDOG),
        httpx2.AsyncClient(base_url=server.url, timeout=120, limits=limits) as http,
    ):
        clients = Clients(http, began + seconds)
        await asyncio.gather(trouble(), clients.work(askers))
        lost = await clients.lost()
        health = (await clients.send("GET", "/health")).json()
    answered = sum(status == "finished" for status in clients.accepted.values())
    figures = {
        "done": dict(clients.done),
        "accepted": len(clients.accepted),
        "answered": answered,
        "retries": dict(clients.retries),
        "workers_killed": killed,
        "stalls": health["stalls"],
        "run_bytes_per_question": round(1e6 * samples[-1].run_mb / max(1, len(clients.accepted))),
        "lost": lost,
        "failures": clients.failures[:20],
    }
    return figures, samples


def settled(samples: Sequence[Sample]) -> Sequence[Sample]:
    return samples[len(samples) // 4 :]


def growth_of(values: Sequence[float]) -> float:
    """By how much a fitted line rises over the values."""
    if len(values) < 2:
        return 0.0
    slope = statistics.linear_regression(range(len(values)), values).slope
    return slope * (len(values) - 1)


def grown(values: Sequence[float]) -> float:
    """The end of the fitted line relative to its beginning."""
    rise = growth_of(values)
    begin = statistics.fmean(values) - rise / 2
    return round((begin + rise) / begin, 4) if begin > 0 else 1.0


def is_flat(name: str, samples: Sequence[Sample]) -> bool:
    values = [getattr(sample, name) for sample in settled(samples)]
    return growth_of(values) <= max(SLACK[name], 0.05 * statistics.fmean(values))


def table(samples: Sequence[Sample]) -> str:
    head = f"{'minute':>8} {'memory MB':>10} {'descriptors':>12} {'threads':>8} {'disk MB':>8} {'run MB':>8}"
    rows = [
        f"{s.seconds / 60:8.1f} {s.memory_mb:10.1f} {s.descriptors:12.0f} {s.threads:8.0f} {s.disk_mb:8.1f} "
        f"{s.run_mb:8.1f}"
        for s in samples[:: max(1, len(samples) // 12)]
    ]
    return "\n".join([head, *rows])


def size_mb(folder: Path, prefix: str = "") -> float:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(f"{place}/{name}").st_size if name.startswith(prefix) else 0
    return total / 1e6


def free_port() -> int:
    """A port that stays ours during a restart: the system gives away only ports above these."""
    while True:
        port = random.SystemRandom().randrange(15_000, 32_000)
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
