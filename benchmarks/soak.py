"""The server under steady work for a long time: its memory must stay flat.

    subquest bench soak --minutes 30          (make soak)

A server on a scripted model and a real index is asked, followed, cancelled, searched and given documents by several
clients at once and without a pause. Its memory is read every second. The first quarter is for caches to fill, and the
words that are used are few, so that they do. After it the mean of the last third may be above that of the first by 3 %
or by 8 MB, whichever is more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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

folder = Path(sys.argv[1])
settings = Settings(runs=folder / "runs", indexes=folder / "indexes", port=0, asks_per_minute=10**6, queued=256)

@asynccontextmanager
async def agents():
    with Index.open(folder / "docs.sq") as index:
        engine = ScriptedEngine(reply, latency=0.01)
        yield Agents(AgentSpec(), ["coda"], {"default": {"": engine}}, Indexes({"docs": index}, settings.indexes))

serve_until_stopped(settings, agents, bind(settings), quiet=True)
"""


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench soak")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--clients", type=int, default=6, help="at a time, each doing one thing after another")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder)
        log = folder / "server.log"
        with log.open("w") as said:
            process = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], cwd=folder, stderr=said)
        try:
            done, memory = asyncio.run(work(address(log), process.pid, 60 * args.minutes, args.clients))
        except BaseException:
            print(log.read_text()[-4000:], file=sys.stderr)
            raise
        finally:
            process.send_signal(signal.SIGTERM)
            status = process.wait(60)
    figures = {"minutes": args.minutes, "done": done, **judged(memory), "exit": status}
    print(json.dumps(figures, indent=2), file=sys.stderr)
    if status != 0 or not figures["flat"]:
        raise RuntimeError(f"the server did not stay as it was: {figures}")
    return {"name": "soak", "figures": figures, "ratios": {"memory at the end / at the beginning": figures["growth"]}}


def address(log: Path) -> str:
    """Where the server is, as soon as it says so."""
    for _ in range(600):
        if found := re.search(r"http://\S+", log.read_text()):
            return found[0]
        time.sleep(0.1)
    raise RuntimeError(f"the server did not start: {log.read_text()}")


def build(folder: Path) -> None:
    from subquest import Index
    from subquest.record import Document

    generator = random.Random(3)
    words = ["".join(generator.choices("abcdefghijklmnop", k=6)) for _ in range(2000)]
    texts = (" ".join(["passage", "word", *generator.choices(words, k=40)]) for _ in range(5000))
    Index.build(folder / "docs.sq", [Document(f"p{n}", f"Passage {n}", text) for n, text in enumerate(texts)]).close()


async def work(url: str, pid: int, seconds: float, clients: int) -> tuple[dict[str, int], list[tuple[float, float]]]:
    """Clients at work until the time is up; what they did, and the server's memory by the second."""
    import httpx2

    end = time.monotonic() + seconds
    done: dict[str, int] = {}
    memory: list[tuple[float, float]] = []

    async def watch() -> None:
        began = time.monotonic()
        while time.monotonic() < end:
            memory.append((time.monotonic() - began, resident(pid)))
            await asyncio.sleep(1.0)

    async def one(number: int) -> None:
        generator = random.Random(number)
        async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
            while time.monotonic() < end:
                name = generator.choices(list(ACTIONS), [weight for weight, _ in ACTIONS.values()])[0]
                await ACTIONS[name][1](client, generator)
                done[name] = done.get(name, 0) + 1

    await asyncio.gather(watch(), *(one(number) for number in range(clients)))
    return done, memory


async def ask(client: Any, generator: random.Random) -> None:
    job = (await client.post("/api/ask", json={"question": f"Question {generator.randrange(500)}?"})).json()
    events = (await client.get(job["events"])).text
    assert "event: done" in events, events[-200:]


async def cancel(client: Any, generator: random.Random) -> None:
    job = (await client.post("/api/ask", json={"question": "Never mind?"})).json()
    (await client.post(f"/api/episodes/{job['id']}/cancel")).raise_for_status()


async def retrieve(client: Any, generator: random.Random) -> None:
    queries = [f"passage word {generator.randrange(100)}" for _ in range(8)]
    body = {"queries": queries, "topk": 3, "return_scores": generator.random() < 0.5}
    (await client.post("/retrieve", json=body)).raise_for_status()


async def chat(client: Any, generator: random.Random) -> None:
    body = {"model": "subquest-coda", "messages": [{"role": "user", "content": "Which?"}]}
    (await client.post("/v1/chat/completions", json=body)).raise_for_status()


async def look(client: Any, generator: random.Random) -> None:
    for place in ("/api/episodes?limit=12", "/metrics", "/api/indexes", "/"):
        (await client.get(place)).raise_for_status()


async def add(client: Any, generator: random.Random) -> None:
    number = generator.randrange(200)
    body = {"documents": [{"id": f"d{number}", "title": "", "text": f"passage word {generator.randrange(5000)}"}]}
    (await client.post("/api/indexes/grown/documents", json=body)).raise_for_status()


ACTIONS: dict[str, tuple[int, Any]] = {
    "retrieve": (50, retrieve),
    "ask": (20, ask),
    "chat": (10, chat),
    "look": (4, look),
    "cancel": (10, cancel),
    "add": (1, add),
}


def resident(pid: int) -> float:
    """Megabytes that belong to a process and its search workers alone; mapped index files do not count."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    said = "".join(Path(f"/proc/{each}/status").read_text() for each in (pid, *children))
    return sum(int(size) for size in re.findall(r"RssAnon:\s+(\d+)", said)) / 1024


def judged(memory: list[tuple[float, float]]) -> dict[str, Any]:
    settled = [size for _, size in memory[len(memory) // 4 :]]
    third = max(1, len(settled) // 3)
    first, last = sum(settled[:third]) / third, sum(settled[-third:]) / third
    flat = last <= first * 1.03 or last <= first + 8
    return {
        "first_mb": round(first, 1),
        "last_mb": round(last, 1),
        "peak_mb": round(max(settled), 1),
        "by_minute_mb": [round(size, 1) for _, size in memory[::60]],
        "growth": round(last / first, 4),
        "flat": flat,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
