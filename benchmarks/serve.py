"""`/retrieve` under load against the same index in process, and against a server that takes one query at a time.

    subquest bench serve --passages 100000 --peer-python PEER/bin/python

Three ways to the same BM25 index and the same queries:

    in process   `index.search_many` in batches of 64, the most that this machine gives
    served       our server, many clients at once, one query a request (wrk)
    batches      our server, 64 queries a request, as Search-R1's and CoDA's rollouts send them
    peer         the code path of Search-R1's retrieval server: FastAPI, a synchronous handler, one query at a time

The peer runs in an environment of its own: pip install fastapi uvicorn, and this package.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

K = 3
BATCH = 64
PEER = """
import sys
from fastapi import FastAPI
from pydantic import BaseModel
import uvicorn
from subquest import Index

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


def main(argv: list[str]) -> dict[str, Any]:
    parser = argparse.ArgumentParser(prog="subquest bench serve")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=10, help="of each load")
    parser.add_argument("--clients", type=int, default=64, help="requests at a time")
    parser.add_argument("--streams", type=int, default=200, help="event streams at a time")
    parser.add_argument("--peer-python", help="an environment with fastapi; without it the peer is left out")
    args = parser.parse_args(argv)
    if shutil.which("wrk") is None:
        sys.exit("bench serve needs wrk (Debian: apt install wrk)")
    with tempfile.TemporaryDirectory() as folder:
        return _measure(args, Path(folder))


def _measure(args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    queries = build(folder, args.passages)
    figures: dict[str, Any] = {"passages": args.passages}
    figures["in_process"] = {"queries_per_second": in_process(folder, queries, args.seconds)}
    (folder / "load.lua").write_text(script([[query] for query in queries]))
    (folder / "batches.lua").write_text(script([queries[i : i + BATCH] for i in range(0, len(queries), BATCH)]))
    with served(folder) as url:
        figures["served"] = load(url, folder / "load.lua", args.clients, args.seconds)
        figures["batches"] = load(url, folder / "batches.lua", 4, args.seconds)
        figures["batches"]["queries_per_second"] *= BATCH
        figures["streams"] = asyncio.run(streams(url, args.streams))
    if args.peer_python:
        with peer(args.peer_python, folder) as url:
            figures["peer"] = load(url, folder / "load.lua", args.clients, args.seconds)
    ratios = {
        "served in batches / in process": _ratio(figures, "batches", "in_process"),
        "served one by one / in process": _ratio(figures, "served", "in_process"),
    }
    if "peer" in figures:
        ratios["served one by one / peer"] = _ratio(figures, "served", "peer")
    print(json.dumps(figures, indent=2), file=sys.stderr)
    return {"name": "serve", "figures": figures, "ratios": ratios}


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


def load(url: str, script: Path, clients: int, seconds: int) -> dict[str, Any]:
    command = ["wrk", "-t1", f"-c{clients}", "--latency", "-s", str(script)]
    subprocess.run([*command, "-d2s", url], check=True, capture_output=True)  # warm
    out = subprocess.run([*command, f"-d{seconds}s", url], check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out:
        raise RuntimeError(f"the server refused requests:\n{out}")
    found = {"queries_per_second": float(re.search(r"Requests/sec:\s+([\d.]+)", out)[1])}  # type: ignore[index]
    for percentile in (50, 99):
        value, unit = re.search(rf"{percentile}%\s+([\d.]+)(us|ms|s)", out).groups()  # type: ignore[union-attr]
        found[f"p{percentile}_ms"] = float(value) * {"us": 1e-3, "ms": 1.0, "s": 1e3}[unit]
    return found


async def streams(url: str, count: int) -> dict[str, Any]:
    """So many followers of one episode; each must be told every event, in order."""
    import httpx2

    limits = httpx2.Limits(max_connections=count)
    async with httpx2.AsyncClient(base_url=url, timeout=60, limits=limits) as client:
        identifier = (await client.post("/api/ask", json={"question": "Who?", "system": "direct"})).json()["id"]
        began = time.monotonic()
        told = await asyncio.gather(*(client.get(f"/api/episodes/{identifier}/events") for _ in range(count)))
        seconds = time.monotonic() - began
    texts = {reply.text for reply in told}
    if len(texts) != 1 or "event: done" not in texts.pop():
        raise RuntimeError("followers were told different things")
    return {"followers": count, "seconds": seconds}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    (folder / "script.jsonl").write_text('{"reply": "<answer>yes</answer>"}\n')
    command = [*("serve", "--port", "0", "--model", "scripted:script.jsonl"), "--index", "docs.sq"]
    process = subprocess.Popen(
        [sys.executable, "-m", "subquest", *command], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    try:
        yield re.search(r"http://\S+", process.stderr.readline())[0]  # type: ignore[index]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@contextmanager
def peer(python: str, folder: Path) -> Iterator[str]:
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
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
