"""The OpenAI engine against llama.cpp's own HTTP server, and the cache over the embedded engine, with a real model.

The systems run on two layers of it: nonsense, but in seconds, through its own tokenizer, chat template and server.
"""

import contextlib
import itertools
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.cache import Cache, CachedEngine
from subquest.engine import Message, Sampling
from subquest.engine.capabilities import LOOK_UP, probe
from subquest.engine.gguf_file import read_gguf_file
from subquest.engine.openai import OpenAIEngine
from subquest.errors import ContextOverflow, MissingDependency
from subquest.limits import Limits
from subquest.models import smollm2_path
from subquest.record import Document
from subquest.retrieval import Index
from subquest.systems import registry

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.cpuparams.n_threads = sys.argv[1], int(sys.argv[2]), 1, 1
server = xllamacpp.Server(params)
print("AT", server.listening_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def weights() -> Path:
    pytest.importorskip("xllamacpp")
    path = smollm2_path()
    if not path.exists():
        pytest.skip("the embedded model is not there: run `subquest model get smollm2`")
    return path


@contextlib.contextmanager
def serving(weights: Path, window: int) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(weights), str(window)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("AT "):
                yield line.split()[1] + "/v1"
                break
        process.kill()


@pytest.fixture(scope="module")
def llama_server(weights: Path) -> Iterator[str]:
    with serving(weights, 1024) as address:
        yield address


@pytest.fixture(scope="module")
def two_layers(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the model's first two layers."""
    data, file = weights.read_bytes(), read_gguf_file(weights)
    ends = dict(itertools.pairwise(sorted([*(t.start for t in file.tensors), len(data)])))
    table = body = b""
    kept = [t for t in file.tensors if not re.match(r"blk\.(?![01]\.)", t.name)]
    for t in kept:
        table += struct.pack("<Q", len(t.name)) + t.name.encode() + struct.pack("<I", len(t.shape))
        table += struct.pack(f"<{len(t.shape)}QIQ", *reversed(t.shape), t.kind, len(body))
        body += data[t.start : ends[t.start]]
    count = data.index(b"llama.block_count") + len(b"llama.block_count") + 4
    first = file.tensors[0].name.encode()
    table_at = data.index(struct.pack("<Q", len(first)) + first)
    head = data[:8] + struct.pack("<Q", len(kept)) + data[16:count] + struct.pack("<I", 2) + data[count + 4 : table_at]
    path = tmp_path_factory.mktemp("weights") / "two-layers.gguf"
    path.write_bytes((head + table).ljust(-(-len(head + table) // 32) * 32, b"\0") + body)
    with serving(path, 8192) as address:
        yield address


async def test_a_real_conversation(llama_server: str) -> None:
    pieces: list[str] = []
    engine = OpenAIEngine(base_url=llama_server, on_text=pieces.append)
    session = await engine.open([Message("user", "Say hello to Bob.")])
    first = await session.generate(Sampling(max_tokens=6))
    assert first.text == "".join(pieces)
    assert first.usage.completion_tokens <= 6
    assert first.usage.estimated_tokens == 0
    await session.append("Again.")
    second = await session.generate(Sampling(max_tokens=6))
    assert second.usage.cached_tokens > 0
    assert second.usage.prompt_tokens > first.usage.prompt_tokens


@pytest.mark.parametrize("options", [{}, {"protocol": "tools", "actions": [LOOK_UP]}], ids=["tags", "tools"])
async def test_completion_mode_continues_the_turn(llama_server: str, options: dict[str, Any]) -> None:
    engine = OpenAIEngine(base_url=llama_server, **options)
    session = await engine.open([Message("user", "Count from one to ten in words.")], mode="completion")
    await session.append("One, two, three, four, five, six,")
    turn = await session.generate(Sampling(max_tokens=6))
    assert turn.text.strip().lower().startswith("seven")
    assert "One, two" not in turn.text


async def test_overflow(llama_server: str) -> None:
    engine = OpenAIEngine(base_url=llama_server)
    session = await engine.open([Message("user", "word " * 3000)])
    with pytest.raises(ContextOverflow, match="does not fit"):
        await session.generate(Sampling(max_tokens=6))
    assert engine.context_window == 1024


async def test_the_embedded_engine_goes_on_from_cached_turns(weights: Path, tmp_path: Path) -> None:
    from subquest.engine.embedded import EmbeddedEngine

    try:  # our kernel rounds passes of more than four tokens otherwise, and so may write another word
        inner = EmbeddedEngine(weights, context=512, threads=2, cpu_kernel=False)
    except MissingDependency as error:
        pytest.skip(str(error))
    engine = CachedEngine(inner, Cache(tmp_path / "cache"))
    sampling = Sampling(max_tokens=6, logprobs=True)
    prompt = [Message("user", "Name a colour.")]

    async def talk(engine, turns: int):
        session = await engine.open(prompt)
        cached = []
        for n in range(turns):
            if n:
                await session.append("Another.")
            cached.append((await session.generate(sampling)).cached)
        return session.segments, cached

    plain, _ = await talk(inner, 3)
    first, cached = await talk(engine, 2)
    assert cached == [False, False]
    longer, cached = await talk(engine, 3)
    assert cached == [True, True, False]
    assert longer[: len(first)] == first
    assert [s.token_ids for s in longer] == [s.token_ids for s in plain]
    await engine.close()


async def test_what_the_server_can_do_is_found_out(llama_server: str) -> None:
    engine = OpenAIEngine(base_url=llama_server)
    found = {finding.name: finding async for finding in probe(engine)}
    await engine.close()
    assert all(found[name].works for name in ("chat", "usage", "stop strings", "prefill", "completions"))
    assert "without token ids" in found["completions"].detail
    assert not found["reasoning"].works


@pytest.mark.parametrize("protocol", ["tags", "tools"])
@pytest.mark.parametrize("name", ["coda", "decor", "apex", "hira", "autorefine", "search-r1", "react", "search-o1"])
async def test_systems_are_served_by_both_protocols(name: str, protocol: Any, two_layers: str, tmp_path: Path) -> None:
    """The server takes every request of every role: its examples, functions, results and unfinished messages."""
    engine = OpenAIEngine(base_url=two_layers, protocol=protocol)
    with Index.build(tmp_path / "kestel", [Document("1", "Kestel", "The river Lume flows through Kestel.")]) as index:
        system = registry.get(name)(engine, index, sampling=Sampling(max_tokens=12), limits=Limits(calls=2))
        episode = await system.solve("Which river flows through Kestel?")
    await engine.close()
    assert episode.usage.model_calls > 0
    assert not [e.message for e in episode.errors if e.where == "engine"]
    assert not [e.data for e in episode.events if e.kind == "retry"]
    assert episode.stop_reason in ("answered", "forced", "no answer")
