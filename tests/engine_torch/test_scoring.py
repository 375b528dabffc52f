"""Words after prompts: the log-probabilities are the model's own, whatever the prompts share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence

import pytest
import torch

from subquest.engine.interface import Choosing, Message, shared_prefix
from subquest.engine.torch import TorchEngine, scoring
from subquest.engine.torch.model import Model
from subquest.engine.torch.scoring import Share
from subquest.engine.torch.weights import Adapter
from subquest.errors import ContextOverflow, EngineError, UsageError

from .conftest import FAMILIES, byte_tokenizer, full_logprobs, tiny_model

Make = Callable[..., TorchEngine]
PROMPTS = [
    [Message("system", "Judge."), Message("user", f"Who?\n\n{text}")]
    for text in ("a b c", "x" * 90, "", "sea and sand")
]


async def expected(engine: TorchEngine, model: torch.nn.Module, words: list[str]) -> list[list[float]]:
    rows = []
    for prompt in PROMPTS:
        ids = [i for s in (await engine.open(prompt)).segments for i in s.token_ids]
        firsts = [engine.vocabulary.encode(word, False)[0] for word in words]
        rows.append([float(full_logprobs(model, [*ids, first], len(ids))[0]) for first in firsts])
    return rows


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in 32 bits, on CPUs with units for 16 too."""
    monkeypatch.setattr(scoring, "_halves", lambda weights: False)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of prompts of every pass."""
    seen: list[int] = []
    real = scoring.next_logprobs

    def noted(model: Model, shares: Sequence[Share]) -> list[tuple[float, ...]]:
        seen.append(sum(share.end - share.start for share in shares))
        return real(model, shares)

    monkeypatch.setattr(scoring, "next_logprobs", noted)
    return seen


def room(monkeypatch: pytest.MonkeyPatch, tokens: int) -> None:
    monkeypatch.setitem(scoring.PASS_TOKENS, "cpu", tokens)


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("family", FAMILIES)
async def test_words_are_as_likely_as_the_model_says(
    family: str, make_engine: Make, monkeypatch: pytest.MonkeyPatch, passes: list[int]
) -> None:
    model = tiny_model(family)
    engine = make_engine(model)
    assert isinstance(engine, Choosing)
    want = torch.tensor(await expected(engine, model, ["yes", "no"]))
    for tokens, expected_passes in ((100_000, [4]), (170, [2, 2]), (1, [1, 1, 1, 1])):
        room(monkeypatch, tokens)
        passes.clear()
        found = torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
        assert torch.allclose(found, want, atol=2e-4), (found - want).abs().max()
        assert passes == expected_passes
    alone = torch.tensor(await engine.choose(PROMPTS[1:2], ["yes", "no"]))
    assert torch.allclose(alone, want[1:2], atol=2e-4)
    room(monkeypatch, 100_000)
    packed = scoring._packed
    monkeypatch.setattr(scoring, "_packed", lambda rows, pad: packed(rows, pad=True))  # as on a GPU
    padded = torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
    assert torch.allclose(padded, want, atol=2e-4)
    assert await engine.choose([], ["yes"]) == []


@pytest.mark.usefixtures("exact")
async def test_company_changes_nothing(make_engine: Make, passes: list[int]) -> None:
    engine = make_engine(tiny_model())
    others = [[Message("user", f"{n} {'z' * 37 * n}")] for n in range(1, 9)]
    alone = [await engine.choose([prompt], ["yes"]) for prompt in (*PROMPTS, *others)]
    await engine.choose(PROMPTS, ["yes", "no", "a"])
    passes.clear()
    together = await asyncio.gather(
        engine.choose(PROMPTS, ["yes", "no"]), *(engine.choose(others[n : n + 3], ["yes"]) for n in (0, 3, 6))
    )
    assert sum(passes) == len(PROMPTS) + len(others)
    assert len(passes) < 4  # what came while a pass ran shares the next
    rows = torch.tensor([row[0] for call in together for row in call])
    assert torch.allclose(rows, torch.tensor([row[0] for (row,) in alone]), atol=1e-5)
    assert [len(row) for row in together[0]] == [2] * 4


def held_passes(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Passes say that they have started, and wait until they may go on."""
    started, go_on = threading.Event(), threading.Event()
    real = scoring.next_logprobs

    def slow(model: Model, shares: Sequence[Share]) -> list[tuple[float, ...]]:
        started.set()
        go_on.wait(300)
        return real(model, shares)

    monkeypatch.setattr(scoring, "next_logprobs", slow)
    return started, go_on


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.001)


@pytest.mark.usefixtures("exact")
async def test_a_call_has_one_version_of_the_weights(make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tiny_model(seed=1), tiny_model(seed=2)
    engine = make_engine(first)
    room(monkeypatch, 1)
    want = torch.tensor(await expected(engine, first, ["yes"])), torch.tensor(await expected(engine, second, ["yes"]))
    started, go_on = held_passes(monkeypatch)
    before = asyncio.create_task(engine.choose(PROMPTS, ["yes"]))
    assert await asyncio.to_thread(started.wait, 300)
    after = asyncio.create_task(engine.choose(PROMPTS, ["yes"]))
    await asyncio.sleep(0)
    refresh = asyncio.create_task(asyncio.to_thread(engine.refresh, second.state_dict(), policy=2))
    await asyncio.to_thread(until, lambda: engine._inbox.qsize() == 2)  # the second call, and the new weights
    go_on.set()
    await refresh
    for task, rows in zip((before, after), want, strict=True):
        assert torch.allclose(torch.tensor(await task), rows, atol=2e-4)


async def test_who_gave_up_is_not_computed_for(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch, passes: list[int]
) -> None:
    engine = make_engine(tiny_model())
    started, go_on = held_passes(monkeypatch)
    room(monkeypatch, 1)
    tasks = [asyncio.create_task(engine.choose(part, ["yes"])) for part in (PROMPTS, PROMPTS[:2], PROMPTS[:1])]
    assert await asyncio.to_thread(started.wait, 300)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.wait(tasks[:2])
    go_on.set()
    assert len(await tasks[2]) == 1
    assert len(passes) == 2  # the one that ran, and the last call's


async def test_a_pass_that_fails_is_told_to_its_callers_alone(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine(tiny_model())
    real = scoring.next_logprobs

    def broken(model: Model, shares: Sequence[Share]) -> list[tuple[float, ...]]:
        raise RuntimeError("no memory")

    monkeypatch.setattr(scoring, "next_logprobs", broken)
    with pytest.raises(EngineError, match="could not score prompts: no memory"):
        await engine.choose(PROMPTS, ["yes"])
    monkeypatch.setattr(scoring, "next_logprobs", real)
    assert len(await engine.choose(PROMPTS, ["yes"])) == 4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_says_the_same() -> None:
    model = tiny_model("qwen3")

    async def row(device: str, dtype: torch.dtype) -> torch.Tensor:
        engine = TorchEngine.from_model(model, byte_tokenizer(), device=device, dtype=dtype, cache_tokens=4096)
        try:
            return torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
        finally:
            await engine.close()

    places = (("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.bfloat16))
    rows = [asyncio.run(row(device, dtype)) for device, dtype in places]
    assert torch.allclose(rows[0], rows[1], atol=0.1)  # products in TF32
    assert torch.allclose(rows[0], rows[2], atol=0.5)


@pytest.mark.usefixtures("exact")
async def test_an_adapter_beside_the_weights_counts(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    plain = torch.tensor(await engine.choose(PROMPTS, ["yes"]))
    name = "model.layers.1.self_attn.q_proj"
    out, width = engine.weights.parts[f"{name}.weight"].shape
    adapter = Adapter({name: (torch.randn(2, width), torch.randn(out, 2))}, 1.0)
    results = []
    for merged in (True, False):
        await asyncio.to_thread(engine.refresh, adapter=adapter, merged=merged)
        results.append(torch.tensor(await engine.choose(PROMPTS, ["yes"])))
    assert torch.allclose(results[0], results[1], atol=1e-3)
    assert not torch.allclose(results[0], plain, atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
async def test_half_precision_stays_near(family: str, make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(tiny_model(family))
    rows = []
    for half in (False, True):  # slow where the CPU has no units for it, but right
        monkeypatch.setattr(scoring, "_halves", lambda weights, half=half: half)
        rows.append(torch.tensor(await engine.choose(PROMPTS, ["yes", "no"])))
    assert 0 < (rows[1] - rows[0]).abs().max() < 0.5


async def test_refusals(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    with pytest.raises(ContextOverflow, match="window of 512"):
        await engine.choose([[Message("user", "x" * 600)]], ["yes"])
    await engine.close()
    with pytest.raises(UsageError, match="closed"):
        await engine.choose(PROMPTS, ["yes"])


async def test_closing_wakes_who_waits(make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = make_engine(tiny_model())
    started, go_on = threading.Event(), threading.Event()

    def slow(model: Model, shares: Sequence[Share]) -> list[tuple[float, ...]]:
        started.set()
        go_on.wait(300)
        return [(0.0,)]

    monkeypatch.setattr(scoring, "next_logprobs", slow)
    room(monkeypatch, 1)
    waiting = asyncio.create_task(engine.choose(PROMPTS, ["yes"]))
    assert await asyncio.to_thread(started.wait, 300)
    closing = asyncio.create_task(engine.close())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    with pytest.raises(EngineError, match="closed"):
        await waiting


def test_what_prompts_share() -> None:
    assert shared_prefix([[1, 2, 3, 4], [1, 2, 5], [1, 2, 3, 9]]) == 2
    assert shared_prefix([[1, 2], [1, 2]]) == 1  # the last token is always left over
    assert shared_prefix([[1, 2, 3]]) == 0
    assert shared_prefix([[4, 5], [6]]) == 0
