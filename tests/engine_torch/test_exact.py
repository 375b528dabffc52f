"""Exactness: what the engine writes is what the model writes, whatever shares the batch, the cache or the device."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import TorchEngine, TorchSession

from .conftest import FAMILIES, full_logprobs, greedy, tiny_model

Make = Callable[..., TorchEngine]
TEXTS = (
    "a",
    "The rain in Spain",
    "x" * 70,
    "Who wrote the book about the sea and the old man?" * 3,
    "12345",
    "é ü 漢字",
)


def ids_of(session: TorchSession) -> list[int]:
    return [i for s in session.segments for i in s.token_ids]


async def write(engine: TorchEngine, text: str, sampling: Sampling) -> TorchSession:
    session = await engine.open([Message("user", text)])
    await session.generate(sampling)
    return session


def check_greedy(model: Any, session: TorchSession, count: int) -> None:
    """Every agent segment is what `generate` writes after the context before it."""
    before: list[int] = []
    for segment in session.segments:
        if segment.kind == "agent":
            assert list(segment.token_ids) == greedy(model, before, count)
        before += segment.token_ids


@pytest.mark.parametrize("family", FAMILIES)
async def test_ragged_batch(family: str, make_engine: Make) -> None:
    model = tiny_model(family)
    engine = make_engine(model, prefill_tokens=64)
    sessions = await asyncio.gather(*(write(engine, text, Sampling(max_tokens=24)) for text in TEXTS))
    for session in sessions:
        check_greedy(model, session, 24)


@pytest.mark.parametrize(
    "changes",
    [
        {"tie_word_embeddings": False},
        {"attention_bias": True},
        {"num_key_value_heads": 6},
        {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 500.0}},
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 64, "rope_theta": 500.0}},
    ],
    ids=["untied", "biases", "all-heads", "linear", "llama3"],
)  # fmt: skip
async def test_variants(changes: dict[str, Any], make_engine: Make) -> None:
    model = tiny_model("llama", **changes)
    session = await write(make_engine(model), "Count to a hundred, slowly please.", Sampling(max_tokens=24))
    check_greedy(model, session, 24)


@pytest.mark.parametrize("family", FAMILIES)
async def test_turns_compute_only_new_tokens(family: str, make_engine: Make) -> None:
    model = tiny_model(family)
    engine = make_engine(model)
    session = await write(engine, "Where is it?", Sampling(max_tokens=10))
    length = session.context_tokens
    await session.append("It is over there, behind the house.")
    second = await session.generate(Sampling(max_tokens=10))
    assert second.usage.cached_tokens == length - 1
    check_greedy(model, session, 10)


async def test_what_siblings_were_shown_is_computed_once(make_engine: Make) -> None:
    model = tiny_model()
    engine = make_engine(model)
    question, shown = "What does the report say?", "The report says that the bridge was closed in May. " * 4
    sessions = await asyncio.gather(*(write(engine, question, Sampling(max_tokens=13)) for _ in range(4)))

    async def read(session: TorchSession, text: str) -> int:
        await session.append(text)
        return (await session.generate(Sampling(max_tokens=13))).usage.cached_tokens

    own = await read(sessions[0], shown)
    found = await asyncio.gather(*(read(session, shown) for session in sessions[1:3]), read(sessions[3], "No."))
    assert found[0] == found[1] > own + 150, "all full blocks of what the first one was shown"
    assert own <= found[2] < own + 16
    for session in sessions:
        check_greedy(model, session, 13)


async def test_forks(make_engine: Make) -> None:
    model = tiny_model("qwen3")
    engine = make_engine(model)
    session = await write(
        engine, "A question with a rather long text, so that blocks fill up.", Sampling(max_tokens=20)
    )
    fork = session.fork()
    await session.append("one way")
    await fork.append("another way")
    first, second = await asyncio.gather(
        session.generate(Sampling(max_tokens=20)), fork.generate(Sampling(max_tokens=20))
    )
    assert second.usage.cached_tokens >= 64
    assert first.token_ids != second.token_ids
    check_greedy(model, session, 20)
    check_greedy(model, fork, 20)


@pytest.mark.slow
async def test_preempted_turns_are_the_same(make_engine: Make) -> None:
    """Twelve contexts of up to 140 tokens in a cache of 320."""
    model = tiny_model("llama")
    engine = make_engine(model, cache_tokens=320)
    sessions = await asyncio.gather(*(write(engine, f"number {n}", Sampling(max_tokens=90)) for n in range(12)))
    assert engine.scheduler.preemptions > 0
    for session in sessions:
        check_greedy(model, session, 90)


async def test_logprobs_equal_a_full_pass(make_engine: Make) -> None:
    model = tiny_model("qwen2")
    engine = make_engine(model, cache_tokens=320, prefill_tokens=32)
    sampling = Sampling(max_tokens=60, temperature=0.7, logprobs=True)
    sessions = await asyncio.gather(*(write(engine, text, sampling) for text in TEXTS[:3] * 3))
    for session in sessions:
        await session.append("and then?")
        await session.generate(sampling)
    assert engine.scheduler.preemptions > 0
    for session in sessions:
        ids, start = ids_of(session), 0
        for segment in session.segments:
            if segment.kind == "agent":
                end = start + len(segment.token_ids)
                expected = full_logprobs(model, ids[:end], start, 0.7)
                torch.testing.assert_close(torch.tensor(segment.logprobs), expected, atol=1e-4, rtol=0)
            start += len(segment.token_ids)


async def test_results_do_not_depend_on_the_batch(make_engine: Make) -> None:
    model = tiny_model("llama")
    sampling = Sampling(max_tokens=40, temperature=1.0, top_p=0.95, seed=11, logprobs=True)
    alone = await write(make_engine(model), "The one in question", sampling)
    crowd = make_engine(model, cache_tokens=640)
    among, *_ = await asyncio.gather(
        write(crowd, "The one in question", sampling),
        *(write(crowd, f"somebody else, number {n}", Sampling(max_tokens=60, temperature=1.0)) for n in range(12)),
    )
    assert alone.segments[-1].token_ids == among.segments[-1].token_ids
    torch.testing.assert_close(
        torch.tensor(alone.segments[-1].logprobs), torch.tensor(among.segments[-1].logprobs), atol=2e-5, rtol=0
    )


@pytest.mark.parametrize("family", FAMILIES)
async def test_half_precision(family: str, make_engine: Make) -> None:
    """In bfloat16 rounding goes other ways than in a full pass: log-probs agree to a few times 2^-8 of the logits."""
    model = tiny_model(family, initializer_range=0.1).bfloat16()
    engine = make_engine(model)
    assert engine.weights.dtype == torch.bfloat16
    session = await write(engine, TEXTS[3], Sampling(max_tokens=30, temperature=1.0, seed=4, logprobs=True))
    ids, agent = ids_of(session), session.segments[-1]
    expected = full_logprobs(model, ids, len(ids) - len(agent.token_ids))
    found = torch.tensor(agent.logprobs)
    assert float((found - expected).abs().mean()) < 0.05
    assert float((found - expected).abs().max()) < 0.3


async def test_seeds(make_engine: Make) -> None:
    engine = make_engine(tiny_model("llama"))

    async def sample(seed: int | None) -> tuple[int, ...]:
        session = await write(engine, "Say something", Sampling(max_tokens=30, temperature=1.0, seed=seed))
        return session.segments[-1].token_ids

    assert await sample(5) == await sample(5)
    assert len({await sample(seed) for seed in (1, 2, 3, 1 << 40, -7)}) == 5
    assert len({await sample(None) for _ in range(4)}) == 4


@pytest.mark.slow
@pytest.mark.embedded
@pytest.mark.timeout(900)  # twenty seconds of one core, many times that where the cores are shared
async def test_smollm2_from_gguf() -> None:
    """The real model: GGUF in, greedy text and log-probs as transformers gives them with the same weights."""
    from transformers import LlamaForCausalLM

    from subquest.engine.torch import load

    path = Path.home() / ".cache/subquest/models/SmolLM2-135M-Instruct.Q4_1.gguf"
    if not path.exists():
        pytest.skip(f"the model file {path} is not here")
    source = load(path)
    model = LlamaForCausalLM.from_pretrained(None, config=source.config, state_dict=source.state).eval()
    engine = TorchEngine(source, cache_tokens=512, dtype=torch.float32)
    questions = ("What is the capital of France?", "Name three colours.")

    async def ask(question: str) -> TorchSession:
        session = await engine.open([Message("user", question)])
        await session.generate(Sampling(max_tokens=8))
        await session.append("Why?")
        await session.generate(Sampling(max_tokens=8))
        return session

    sessions = await asyncio.gather(*map(ask, questions))
    await engine.close()
    assert "Paris" in sessions[0].segments[-3].text
    for session in sessions:
        before: list[int] = []
        for segment in session.segments:
            if segment.kind == "agent":
                prompt = torch.tensor([before])
                out = model.generate(prompt, max_new_tokens=8, do_sample=False, pad_token_id=0, eos_token_id=2)
                assert list(segment.token_ids) == out[0, len(before) :].tolist()
                expected = full_logprobs(model, [*before, *segment.token_ids], len(before))
                torch.testing.assert_close(torch.tensor(segment.logprobs), expected, atol=1e-4, rtol=0)
            before += segment.token_ids
