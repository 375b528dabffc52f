"""Steps through fixed buffers, as on a GPU, against steps that run at once: the same tokens and log-probabilities."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
import torch

from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import TorchEngine
from subquest.engine.torch import reference_operations as reference
from subquest.engine.torch.runner import Runner
from subquest.engine.torch.step import Step, part_length

from .conftest import byte_tokenizer, tiny_model

Drawn = list[tuple[tuple[int, ...], tuple[float, ...]]]


async def episodes(staged: bool, mixed_tokens: int = 0) -> tuple[Drawn, Runner]:
    """Three turns each of thirty contexts in a cache that does not hold all of them; some sampled, some filtered.

    The last two ask the same, and their prompt fills its blocks but for the token that is fed by decoding: the second
    needs no prefill step, and its whole table comes with a decode step.
    """
    engine = TorchEngine.from_model(tiny_model(), byte_tokenizer(), cache_tokens=640, max_batch=11, prefill_tokens=96)
    if staged:
        engine.runner = Runner(engine._model, engine.scheduler.rows, prefill_tokens=96, staged=True)
        engine.scheduler.mixed_tokens = mixed_tokens
    chance = random.Random(5)
    asked = ["".join(chance.choices("abcdef ", k=chance.randrange(5, 120))) for _ in range(30)]

    around = (await engine.open([Message("user", "")])).context_tokens
    asked[-2:] = ["x" * (17 * 16 + 1 - around)] * 2

    async def one(number: int) -> Drawn:
        session = await engine.open([Message("user", asked[number])])
        found: Drawn = []
        for turn in range(3):
            sampling = Sampling(
                max_tokens=5 + (number * 7 + turn) % 40,
                temperature=(number % 3) / 2,
                top_k=20 if number % 5 == 0 else 0,
                seed=100 * number + turn,
                logprobs=True,
            )
            written = await session.generate(sampling)
            assert written.logprobs is not None
            found.append((written.token_ids, written.logprobs))
            await session.append("more")
        await session.close()
        return found

    all_asked = threading.Event()  # else it depends on the machine how many contexts meet, and whether one must go back

    def hold() -> None:
        all_asked.wait(300)

    engine._inbox.put(hold)
    try:
        tasks = [asyncio.create_task(one(number)) for number in range(28)]
        await asyncio.sleep(0)
        assert engine._inbox.qsize() >= len(tasks)
        all_asked.set()
        together = await asyncio.gather(*tasks)
        alone = [await one(28), await one(29)]
        drawn = [turn for found in (*together, *alone) for turn in found]
    finally:
        await engine.close()
    assert engine.scheduler.preemptions > 0
    return drawn, engine.runner


@pytest.mark.parametrize("mixed_tokens", [0, 40])
async def test_staged_steps_draw_what_plain_ones_do(mixed_tokens: int) -> None:
    """`mixed_tokens` puts prompts into the cache beside rows that decode, in pieces of so many tokens."""
    plain, _ = await episodes(staged=False)
    staged, runner = await episodes(staged=True, mixed_tokens=mixed_tokens)
    assert runner.mixed > 0
    assert [ids for ids, _ in staged] == [ids for ids, _ in plain]
    for (_, found), (_, wanted) in zip(staged, plain, strict=True):
        torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), atol=2e-4, rtol=0)
    rows = runner.rows
    assert not rows.changed
    held = [(slot, int(n)) for slot, n in enumerate(rows.held) if n]
    assert held
    for slot, n in held:
        assert runner._tables[slot, :n].tolist() == rows.tables[slot, :n].tolist()
    assert not runner._tables[rows.slots].any(), "the padding row's blocks are never given to anybody"


def test_padding_leaves_no_garbage_in_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """A masked value that is no number is still no number: what padding writes must be one."""
    monkeypatch.setattr(torch, "empty_like", lambda x: torch.full_like(x, float("nan")))
    q, cached = torch.ones(3, 2, 4), torch.ones(2, 16, 1, 4)
    ids, tables = torch.zeros(3, dtype=torch.int32), torch.tensor([[1], [0]], dtype=torch.int32)
    tiles = torch.tensor([[0, 0, 0, 2], [0, 0, 0, 0]], dtype=torch.int32)  # of three tokens the last is padding
    out = reference.attend(q, cached, cached, Step(ids, ids, ids, tables, tiles), 1.0)
    assert out[:2].eq(1.0).all()
    assert out[2].eq(0.0).all()


def test_contexts_are_cut_only_to_fill_the_device() -> None:
    """On 132 processors with four programs each. Cut contexts leave no processor without work, as far as parts of 128
    tokens reach; contexts of 2,000 tokens are whole where the rows are enough, and one of 32,000 never is."""
    for kv_heads in (1, 2, 3, 4, 8):
        for rows in (1, 16, 64, 96, 128, 192, 256, 384, 1024):
            length = part_length(rows, kv_heads)
            if rows * kv_heads >= 512:
                assert 2000 <= length < 32_000
            else:
                assert length <= 1024
                assert length == 128 or rows * kv_heads * -(-1000 // length) >= 132
    lengths = [part_length(rows, 2) for rows in range(1, 400)]
    assert lengths == sorted(lengths), "fewer rows are never cut into longer parts"
