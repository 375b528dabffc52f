"""Questions under load: `subquest serve` on the torch engine, and the same systems on a vLLM endpoint.

Both servers are `subquest serve` with the same settings; only the model behind them differs. They run one after the
other, so that each has the whole device. Every question is asked at once through the OpenAI protocol; the first quarter
of them warms each server up and is not counted. Texts differ where two log-probs are nearly equal, and with them how
much is written: the tokens written a second are compared, too.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from _results import Results
from _rollout_workload import tokenizer
from _shapes import SHAPES, random_source
from _train_peer import write_model

from subquest import Index
from subquest.errors import OutsideError, UsageError
from subquest.record import Question
from subquest.train.data import load_material
from subquest.train.recipe import DataPart

Say = Callable[..., None]


class Load(NamedTuple):
    """What is asked, and how it may be answered."""

    questions: int
    system: str
    max_tokens: int
    max_turns: int
    articles: int


def compare(
    *,
    shape: str,
    model: str,
    path: str,
    url: str,
    device: str,
    load: Load,
    seconds: float,
    logs: Path | None,
    results: Results,
    say: Say,
) -> None:
    """Questions a minute and latencies of both, and their ratios. `url` is an endpoint that runs already."""
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        place = Path(model).expanduser() if model else folder / "model"
        if not model:
            _write(shape, place, device)
        material = load_material([DataPart(f"world:seed=301,articles={load.articles},questions={2 * load.questions}")])
        Index.build(folder / "docs.sq", material.documents).close()
        warm = max(1, load.questions // 4)
        asked = list(material.questions)[: warm + load.questions]
        results.keep(model=model or shape, device=device, **load._asdict())
        ours = _measured(f"torch:{place}", folder, "ours", asked, warm, load, logs or folder, seconds)
        results.keep(ours=ours)
        _say_row(say, "subquest serve --model torch", ours)
        if not url:
            url = held.enter_context(vllm(place, path, (logs or folder) / "serve-vllm.log", seconds))
        theirs = _measured(url, folder, "peer", asked, warm, load, logs or folder, seconds)
        _say_row(say, "the same on vLLM", theirs)
        results.ratios |= {
            f"questions a minute, {load.questions} at once, torch / vLLM": ours["per_minute"] / theirs["per_minute"],
            f"p95 latency, {load.questions} at once, vLLM / torch": theirs["p95_s"] / ours["p95_s"],
            f"tokens written a second, {load.questions} at once, torch / vLLM": ours["tokens_s"] / theirs["tokens_s"],
        }
        results.keep(vllm=theirs)


def _write(shape: str, folder: Path, device: str) -> None:
    if shape not in SHAPES:
        raise UsageError(f"there is no shape {shape!r}; there are {', '.join(SHAPES)}")
    folder.mkdir()
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    write_model(random_source(shape, tokenizer(), torch.device(device), dtype), folder)
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()  # the servers need the memory


def _measured(
    model: str, folder: Path, name: str, asked: Sequence[Question], warm: int, load: Load, logs: Path, seconds: float
) -> dict[str, Any]:
    command = [
        sys.executable, "-m", "subquest", "serve", "--port", "0", "--model", model, "--index", str(folder / "docs.sq"),
        "--runs", str(folder / f"runs-{name}"), "--system", load.system, "--no-cache", "--prompts", "full",
        "--running", str(load.questions), "--queued", str(load.questions), "--asks-per-minute", "1000000",
        "--max-tokens", str(load.max_tokens), "--max-turns", str(load.max_turns), "--max-thought", "0",
        "--temperature", "0", "--mode", "bm25",
    ]  # fmt: skip
    with _running(command, logs / f"serve-{name}.log", seconds, r"Subquest is at (http://\S+)") as url:
        asyncio.run(ask_all(url, asked[:warm], load.system, seconds))
        return summary(*asyncio.run(ask_all(url, asked[warm:], load.system, seconds)))


@contextmanager
def vllm(model: Path, path: str, log: Path, seconds: float) -> Iterator[str]:
    """vLLM's own server on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(model), "--port", str(port),
        "--host", "127.0.0.1", "--max-num-seqs", "512", "--max-num-batched-tokens", "8192", "--max-model-len", "8192",
    ]  # fmt: skip
    paths = os.pathsep.join(filter(None, (path, os.environ.get("PYTHONPATH", ""))))
    environment = {"PYTHONPATH": paths, "VLLM_USE_FLASHINFER_SAMPLER": "0", "VLLM_NO_USAGE_STATS": "1"}
    with _running(command, log, seconds, r"Application startup complete()", environment):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def _running(
    command: Sequence[str], log: Path, seconds: float, ready: str, environment: dict[str, str] | None = None
) -> Iterator[str]:
    """A server, once its output says that it is ready; yields what the pattern found."""
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}
        )
    try:
        until = time.monotonic() + seconds
        while not (found := re.search(ready, text := log.read_text(encoding="utf-8", errors="replace"))):
            if process.poll() is not None or time.monotonic() > until:
                last = next((line for line in reversed(text.splitlines()) if line.strip()), "it said nothing")
                raise OutsideError(f"{' '.join(command[1:4])} did not start: {last} (log: {log})")
            time.sleep(0.1)
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def ask_all(
    url: str, questions: Sequence[Question], system: str, seconds: float
) -> tuple[float, list[float], list[int]]:
    """All questions at once: seconds for all, for each, and the tokens that each took to write."""
    import httpx2

    limits = httpx2.Limits(max_connections=len(questions))
    async with httpx2.AsyncClient(base_url=url, timeout=seconds, limits=limits, trust_env=False) as client:

        async def one(question: Question) -> tuple[float, int]:
            start = time.perf_counter()
            body = {"model": f"subquest-{system}", "messages": [{"role": "user", "content": question.question}]}
            reply = await client.post("/v1/chat/completions", json=body)
            if reply.status_code != 200:
                raise OutsideError(f"{url} answered {reply.status_code}: {reply.text[:300]}")
            return time.perf_counter() - start, int(reply.json()["usage"]["completion_tokens"])

        start = time.perf_counter()
        found = await asyncio.gather(*map(one, questions))
        return time.perf_counter() - start, [took for took, _ in found], [tokens for _, tokens in found]


def summary(seconds: float, latencies: Sequence[float], tokens: Sequence[int]) -> dict[str, Any]:
    ordered = sorted(latencies)
    return {
        "seconds": seconds,
        "per_minute": 60 * len(ordered) / seconds,
        "p50_s": ordered[len(ordered) // 2],
        "p95_s": ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))],
        "tokens_a_question": sum(tokens) / len(tokens),
        "tokens_s": sum(tokens) / seconds,
    }


def _say_row(say: Say, name: str, row: dict[str, Any]) -> None:
    say(
        f"{name}: {row['per_minute']:,.0f} questions a minute, p50 {row['p50_s']:.1f} s, p95 {row['p95_s']:.1f} s,"
        f" {row['tokens_a_question']:,.0f} tokens written a question, {row['tokens_s']:,.0f} tokens/s"
    )
