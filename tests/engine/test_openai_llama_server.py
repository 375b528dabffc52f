"""The OpenAI engine against llama.cpp's own HTTP server, and the cache over the embedded engine, with a real model."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.cache import Cache, CachedEngine
from subquest.engine import Message, Sampling
from subquest.engine.capabilities import LOOK_UP, probe
from subquest.engine.openai import OpenAIEngine
from subquest.errors import ContextOverflow, MissingDependency
from subquest.models import smollm2_path

pytestmark = [pytest.mark.embedded, pytest.mark.slow]

SERVE = """
import sys, time, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.n_parallel, params.cpuparams.n_threads = sys.argv[1], 1024, 1, 2
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


@pytest.fixture(scope="module")
def llama_server(weights: Path) -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE, str(weights)],
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

    try:
        inner = EmbeddedEngine(weights, context=512, threads=2)
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
