"""`/retrieve` under load against the same index in process, and against a server that takes one query at a time.

    subquest bench serve --passages 100000 --peer-python PEER/bin/python

Three ways to the same BM25 index and the same queries:

    in process   `index.search_many` in batches of 64, the most that this machine gives
    served       our server, many clients at once, one query a request (wrk)
    batches      our server, 64 queries a request, as Search-R1's and CoDA's rollouts send them
    peer         the code path of Search-R1's retrieval server: FastAPI, a synchronous handler, one query at a time

Each way is measured in rounds that take turns, and the median round counts, because a machine is not the same from one
minute to the next. The peer runs in an environment of its own: pip install fastapi uvicorn, and this package.

Then many followers of one running episode, each of which must receive every event, in order.

    subquest bench serve --peer vllm --shape 1.5b --peer-path FOLDER

compares whole answers instead (`_serve_peer.py`): 256 questions at once through `subquest serve --model torch:…`, and
through the same server on a vLLM endpoint, which is started from FOLDER, or runs already (`--peer-url`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _options import COUNT
from _results import Results, add_options

K = 3
BATCH = 64
PEER = """
import sys
from fastapi import FastAPI
from pydantic import BaseModel
import uvicorn
from subquest import AgentSpec, Index

index = Index.open(sys.argv[1])
app = FastAPI()

class Query(BaseModel):
    queries: list[str]
    topk: int = 3
    return_scores: bool = False

@app.post("/retrieve")
def retrieve(query: Query):
    found = [index.search(text, query.topk) for text in query.queries]
    return {"result": [[{"document": {"id": h.document.id, "contents": h.document.text}, "score": h.score}
                        for h in hits] for hits in found]}

uvicorn.run(app, port=int(sys.argv[2]), log_level="warning")
"""


SERVER = """
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from subquest import AgentSpec, Index
from subquest.cli.serve import serve_until_stopped
from subquest.engine.scripted import ScriptedEngine
from subquest.serve.agents import Agents
from subquest.serve.app import bind
from subquest.serve.indexes import Indexes
from subquest.serve.settings import Settings

def reply(context):
    if context.role == "planner":
        return f"<task>Which word is number {context.turn}?</task>" if context.turn < 3 else "<answer>yes</answer>"
    return "<search>word</search>" if context.turn == 0 else "<refine>One.</refine><result>one</result>"

folder = Path(sys.argv[1])
settings = Settings(runs=folder / "runs", indexes=folder / "indexes", port=0)

@asynccontextmanager
async def agents():
    with Index.open(folder / "docs.sq") as index:
        models = {"default": {"": ScriptedEngine(reply, latency=0.3)}}
        yield Agents(AgentSpec(), ["coda"], models, Indexes({"docs": index}, settings.indexes))

serve_until_stopped(settings, agents, bind(settings), quiet=True)
"""


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench serve")
    parser.add_argument("--passages", type=COUNT, default=100_000)
    parser.add_argument("--load-seconds", type=COUNT, default=4, help="of each load in each round")
    parser.add_argument("--rounds", type=COUNT, default=3)
    parser.add_argument("--clients", type=COUNT, default=64, help="requests at a time")
    parser.add_argument("--streams", type=COUNT, default=200, help="event streams at a time")
    parser.add_argument("--peer-python", help="an environment with fastapi; without it the peer is left out")
    _add_peer_options(parser)
    add_options(parser)
    args = parser.parse_args(argv)
    if not args.peer and shutil.which("wrk") is None:
        sys.exit("bench serve needs wrk (Debian: apt install wrk)")
    results = Results("serve", args)
    with results.limited(), tempfile.TemporaryDirectory() as folder:
        if args.peer:
            _beside_vllm(args, results)
        else:
            _measure(args, Path(folder), results)
    return results.as_dict()


def _add_peer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--peer", choices=("vllm",), help="compare whole answers with this server, and nothing else")
    parser.add_argument("--peer-path", default="", help="where vLLM's packages are, as PYTHONPATH takes it")
    parser.add_argument("--peer-url", default="", help="a vLLM endpoint that runs already, http://HOST:8000/v1")
    parser.add_argument("--peer-seconds", type=float, default=600, help="the longest wait for a start or an answer")
    parser.add_argument("--peer-logs", type=Path, help="an existing folder for the servers' logs")
    parser.add_argument("--model", default="", help="a folder with safetensors; random weights where empty")
    parser.add_argument("--shape", default="1.5b", help="the shape of random weights")
    parser.add_argument("--questions", type=COUNT, default=256, help="questions at a time, beside a peer")
    parser.add_argument("--system", default="coda", help="who answers, beside a peer")
    parser.add_argument("--max-tokens", type=COUNT, default=160, help="tokens of a turn, beside a peer")
    parser.add_argument("--max-turns", type=COUNT, default=4, help="turns of a context, beside a peer")
    parser.add_argument("--articles", type=COUNT, default=300, help="articles that are searched, beside a peer")


def _beside_vllm(args: argparse.Namespace, results: Results) -> None:
    import torch
    from _serve_peer import Load, compare

    compare(
        shape=args.shape,
        model=args.model,
        path=args.peer_path,
        url=args.peer_url,
        device="cuda" if torch.cuda.is_available() else "cpu",
        load=Load(args.questions, args.system, args.max_tokens, args.max_turns, args.articles),
        seconds=args.peer_seconds,
        logs=args.peer_logs,
        results=results,
        say=lambda *words: print(*words, file=sys.stderr, flush=True),
    )


def _measure(args: argparse.Namespace, folder: Path, results: Results) -> None:
    queries = build(folder, args.passages)
    figures = results.figures
    results.keep(passages=args.passages)
    (folder / "load.lua").write_text(script([[query] for query in queries]))
    (folder / "batches.lua").write_text(script([queries[i : i + BATCH] for i in range(0, len(queries), BATCH)]))
    with ExitStack() as stack:
        url, pid = stack.enter_context(served(folder))
        other, other_pid = stack.enter_context(peer(args.peer_python, folder)) if args.peer_python else ("", 0)
        rounds: dict[str, list[dict[str, Any]]] = {}
        for _ in range(args.rounds):
            found = {"queries_per_second": in_process(folder, queries, args.load_seconds)}
            rounds.setdefault("in_process", []).append(found)
            single, batched = folder / "load.lua", folder / "batches.lua"
            rounds.setdefault("served", []).append(load(url, pid, single, args.clients, args.load_seconds))
            rounds.setdefault("batches", []).append(load(url, pid, batched, 4, args.load_seconds, queries=BATCH))
            if other:
                rounds.setdefault("peer", []).append(load(other, other_pid, single, args.clients, args.load_seconds))
            for way, of_way in rounds.items():
                figures[way] = sorted(of_way, key=lambda figure: figure["queries_per_second"])[len(of_way) // 2]
            results.keep()
        figures["streams"] = asyncio.run(streams(url, args.streams))
    results.ratios |= {
        "served in batches / in process": _ratio(figures, "batches", "in_process"),
        "served one by one / in process": _ratio(figures, "served", "in_process"),
    }
    if "peer" in figures:
        results.ratios["served one by one / peer"] = _ratio(figures, "served", "peer")
    print(json.dumps(figures, indent=2), file=sys.stderr)


def _ratio(figures: dict[str, Any], a: str, b: str) -> float:
    return float(figures[a]["queries_per_second"] / figures[b]["queries_per_second"])


def build(folder: Path, passages: int) -> list[str]:
    """An index of Zipf text, and queries of six words from its passages."""
    from subquest import Index
    from subquest.record import Document

    generator = random.Random(7)
    words = ["".join(generator.choices("abcdefghijklmnopqrstuvwxyz", k=generator.randint(3, 9))) for _ in range(60_000)]
    weights = [1 / (rank + 2.7) for rank in range(len(words))]
    cumulative = [0.0]
    for weight in weights:
        cumulative.append(cumulative[-1] + weight)
    queries: list[str] = []

    def documents() -> Iterator[Document]:
        for number in range(passages):
            chosen = generator.choices(words, cum_weights=cumulative[1:], k=60)
            if number % max(1, passages // 2048) == 0 and len(queries) < 2048:
                queries.append(" ".join(generator.sample(chosen, 6)))
            yield Document(f"p{number}", f"Passage {number}", " ".join(chosen))

    Index.build(folder / "docs.sq", documents()).close()
    return queries


def in_process(folder: Path, queries: list[str], seconds: float) -> float:
    from subquest import Index

    with Index.open(folder / "docs.sq") as index:
        index.search_many(queries[:BATCH], K)
        began, done = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            start = done % (len(queries) - BATCH)
            done += len(index.search_many(queries[start : start + BATCH], K))
        return done / (time.monotonic() - began)


def script(batches: list[list[str]]) -> str:
    """What wrk sends: the batches in turn."""
    bodies = [json.dumps({"queries": batch, "topk": K, "return_scores": True}) for batch in batches]
    lines = ",\n".join(f"[==[{body}]==]" for body in bodies)
    return (
        f"local bodies = {{\n{lines}\n}}\nlocal i = 0\n"
        'local headers = {["Content-Type"] = "application/json"}\n'
        "request = function()\n  i = i % #bodies + 1\n"
        '  return wrk.format("POST", "/retrieve", headers, bodies[i])\nend\n'
    )


def load(url: str, pid: int, script: Path, clients: int, seconds: int, queries: int = 1) -> dict[str, Any]:
    """What wrk measures, and the CPU time of the server and of its search workers, in microseconds a query."""
    command = ["wrk", "-t1", f"-c{clients}", "--latency", "-s", str(script)]
    subprocess.run([*command, "-d2s", url], check=True, capture_output=True)  # warm
    before = cpu_seconds(pid)
    out = subprocess.run([*command, f"-d{seconds}s", url], check=True, capture_output=True, text=True).stdout
    after = cpu_seconds(pid)
    if "Non-2xx" in out:
        raise RuntimeError(f"the server refused requests:\n{out}")
    answered = queries * int(re.search(r"(\d+) requests in", out)[1])  # type: ignore[index]
    found = {"queries_per_second": queries * float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])}  # type: ignore[index]
    found |= {f"{who}_cpu_us": 1e6 * (after[who] - before[who]) / max(1, answered) for who in after}
    for percentile in (50, 99):
        value, unit = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", out).groups()  # type: ignore[union-attr]
        found[f"p{percentile}_ms"] = float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]
    return found


def cpu_seconds(pid: int) -> dict[str, float]:
    """CPU time that a server, and its search workers, have had."""

    def of(process: int | str) -> float:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return {"server": of(pid), "workers": sum(map(of, children))}


async def streams(url: str, count: int) -> dict[str, Any]:
    """Many followers of one episode; each must receive every event, in order."""
    import httpx2

    limits = httpx2.Limits(max_connections=count)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        identifier = (await client.post("/api/ask", json={"question": "Who?"})).json()["id"]
        began = time.monotonic()
        replies = await asyncio.gather(*(client.get(f"/api/episodes/{identifier}/events") for _ in range(count)))
        seconds = time.monotonic() - began
    texts = {reply.text for reply in replies}
    if len(texts) != 1 or "event: done" not in texts.pop():
        raise RuntimeError("followers received different events")
    whole = (await_episode(url, identifier))["events"]
    return {"followers": count, "seconds": seconds, "events": len(whole), "episode_seconds": whole[-1]["time"]}


def await_episode(url: str, identifier: str) -> dict[str, Any]:
    import httpx2

    return dict(httpx2.get(f"{url}/api/episodes/{identifier}").json())


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(folder)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        yield re.search(r"http://\S+", process.stderr.readline())[0], process.pid  # type: ignore[index]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def peer(python: str, folder: Path) -> Iterator[tuple[str, int]]:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([python, "-c", PEER, str(folder / "docs.sq"), str(port)])
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
