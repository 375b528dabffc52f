"""Words after prompts: the log-probabilities are the model's own, whatever the prompts share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
import torch

from subquest.engine.base import Message
from subquest.engine.choosing import Choosing, shared_beginning
from subquest.engine.torch import TorchEngine, scoring
from subquest.engine.torch.weights import Adapter
from subquest.errors import ContextOverflow, UsageError

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


@pytest.mark.parametrize("family", FAMILIES)
async def test_words_are_as_likely_as_the_model_says(
    family: str, make_engine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny_model(family)
    engine = make_engine(model)
    assert isinstance(engine, Choosing)
    want = torch.tensor(await expected(engine, model, ["yes", "no"]))
    for room in (100_000, 150):  # one pass, and several
        monkeypatch.setattr(scoring, "PASS_TOKENS", room)
        found = torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
        assert torch.allclose(found, want, atol=2e-4), (found - want).abs().max()
    alone = torch.tensor(await engine.choose(PROMPTS[1:2], ["yes", "no"]))
    assert torch.allclose(alone, want[1:2], atol=2e-4)
    assert await engine.choose([], ["yes"]) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
async def test_a_gpu_says_the_same() -> None:
    model = tiny_model("qwen3")
    rows = []
    for device, dtype in (("cpu", torch.float32), ("cuda", torch.float32), ("cuda", torch.bfloat16)):
        engine = TorchEngine.from_model(model, byte_tokenizer(), device=device, dtype=dtype, cache_tokens=4096)
        rows.append(torch.tensor(await engine.choose(PROMPTS, ["yes", "no"])))
        await engine.close()
    assert torch.allclose(rows[0], rows[1], atol=0.05)  # products in TF32
    assert torch.allclose(rows[0], rows[2], atol=0.5)


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
    assert torch.allclose(*results, atol=1e-3)
    assert not torch.allclose(results[0], plain, atol=1e-2)


@pytest.mark.parametrize("family", FAMILIES)
async def test_half_precision_stays_near(family: str, make_engine: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "_halves", lambda weights: True)  # slow where the CPU has no units for it, but right
    engine = make_engine(tiny_model(family))
    exact = torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
    monkeypatch.setattr(scoring, "WORTH_HALVING", 1)
    near = torch.tensor(await engine.choose(PROMPTS, ["yes", "no"]))
    assert 0 < (near - exact).abs().max() < 0.5


async def test_refusals(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    with pytest.raises(ContextOverflow, match="window of 512"):
        await engine.choose([[Message("user", "x" * 600)]], ["yes"])
    await engine.close()
    with pytest.raises(UsageError, match="closed"):
        await engine.choose(PROMPTS, ["yes"])


def test_what_prompts_share() -> None:
    assert shared_beginning([[1, 2, 3, 4], [1, 2, 5], [1, 2, 3, 9]]) == 2
    assert shared_beginning([[1, 2], [1, 2]]) == 1  # the last token is always left over
    assert shared_beginning([[1, 2, 3]]) == 0
    assert shared_beginning([[4, 5], [6]]) == 0
