"""The Triton kernels against the plain torch operations.

They need a GPU, or Triton's interpreter on the CPU: `TRITON_INTERPRET=1 pytest tests/engine_torch/test_kernels.py`
(minutes; Triton 3.6 interprets with numpy before 2.4).
"""

import os
from dataclasses import fields, replace

import numpy as np
import pytest
import torch

from subquest.engine.interface import Sampling
from subquest.engine.torch import reference_operations as reference
from subquest.engine.torch.prefix_groups import PrefixGroups
from subquest.engine.torch.running_batch import Rows
from subquest.engine.torch.step import Draw, SharedPrefixes, Step

pytest.importorskip("triton", reason="Triton is not installed")
if not torch.cuda.is_available() and os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("no GPU, and Triton does not interpret (TRITON_INTERPRET=1)", allow_module_level=True)

from subquest.engine.torch import kernels

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = 16


def random(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape) * scale).to(DEVICE)


def caches(kv_heads: int, size: int, blocks: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    """Laid out head by head, as on the GPU."""
    return (
        random(blocks, kv_heads, BLOCK, size).transpose(1, 2),
        random(blocks, kv_heads, BLOCK, size).transpose(1, 2),
    )


def tables(slots: int, width: int = 8, blocks: int = 24) -> torch.Tensor:
    order = torch.randperm(blocks - 1)[: slots * width] + 1
    return order.view(slots, -1).int().to(DEVICE)


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


@pytest.mark.parametrize("width", [64, 80])
def test_norm_and_swiglu(width: int) -> None:
    x, residual, weight = random(5, width), random(5, width), random(width)
    torch.testing.assert_close(kernels.norm(x, weight, 1e-5), reference.norm(x, weight, 1e-5))
    twin = residual.clone()
    torch.testing.assert_close(kernels.add_norm(x, residual, weight, 1e-5), reference.add_norm(x, twin, weight, 1e-5))
    torch.testing.assert_close(residual, twin)
    both = random(5, 2 * width)
    torch.testing.assert_close(kernels.swiglu(both), reference.swiglu(both))


@pytest.mark.parametrize(
    ("heads", "kv_heads", "size", "normed"), [(9, 3, 64, False), (4, 4, 16, True), (4, 2, 80, True), (2, 1, 100, False)]
)
def test_rotate_store(heads: int, kv_heads: int, size: int, normed: bool) -> None:
    keys, values = caches(kv_heads, size)
    step = Step(ints(0, 0, 0), ints(0, 17, 40), ints(1, 0, 2), tables(3, 7))
    qkv = random(3, (heads + 2 * kv_heads) * size)
    q_norm, k_norm = (random(size), random(size)) if normed else (None, None)
    angles = torch.arange(64.0)[:, None] * torch.linspace(1, 0.01, size // 2)[None, :]
    cosines, sines = angles.cos().to(DEVICE), angles.sin().to(DEVICE)
    other_keys, other_values = keys.clone(), values.clone()
    arguments = (q_norm, k_norm, 1e-6, cosines, sines)
    expected = reference.rotate_store(qkv.clone(), *arguments, other_keys, other_values, heads, step)
    found = kernels.rotate_store(qkv, *arguments, keys, values, heads, step)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(keys, other_keys)
    torch.testing.assert_close(values, other_values)


SHAPES = [(9, 3, 64), (4, 4, 8), (4, 2, 80)]
"""The usual head size, one below the smallest tile, one that is no power of two."""


@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
@pytest.mark.parametrize("splits", [1, 4, 32])
def test_decode_attention(heads: int, kv_heads: int, size: int, splits: int) -> None:
    keys, values = caches(kv_heads, size)
    step = Step(ints(0, 0, 0), ints(0, 111, 32), ints(1, 0, 2), tables(3, 7), None, 128 // splits, splits)
    q = random(3, heads + 2 * kv_heads, size)[:, :heads]
    found = kernels.attend(q, keys, values, step, size**-0.5)
    torch.testing.assert_close(found, reference.attend(q, keys, values, step, size**-0.5), atol=1e-5, rtol=1e-4)


def shared_step(sizes: list[int], alone: int, lengths: list[int], kv_heads: int, heads: int, *, split: int) -> Step:
    """Rows in groups of these sizes whose prefixes have these lengths, and some that share nothing, in mixed order;
    each has up to 40 tokens of its own. Tables are complete, so that the plain operation reads all of a context."""
    chance = np.random.default_rng(0)
    blocks = iter(range(1, 1000))
    rows = Rows(sum(sizes) + alone, 40)
    prefixes = [[next(blocks) for _ in range(length // BLOCK)] for length in lengths]
    of = chance.permutation([n for n, size in enumerate(sizes) for _ in range(size)] + [-1] * alone).tolist()
    for slot, group in enumerate(of):
        before = prefixes[group] if group >= 0 else []
        rows.set_blocks(slot, before + [next(blocks) for _ in range(3)])
        position = BLOCK * len(before) + (int(chance.integers(0, 41)) if slot else 0)
        rows.begin(slot, token=0, position=position, left=1, sampling=Sampling(), seed=0, kind=0)
    groups = PrefixGroups(rows, block=BLOCK, heads=heads, kv_heads=kv_heads, token_bytes=1)
    groups._least = 1
    slots = chance.permutation(rows.slots).astype(np.int32)
    found = groups.find(slots)
    assert found is not None
    padded = SharedPrefixes(
        torch.empty(rows.slots + 1, dtype=torch.int32),
        torch.empty(rows.slots + 1, dtype=torch.int32),
        torch.empty((len(found.tiles), groups.tile_rows), dtype=torch.int32),
        torch.empty((len(found.tiles), 4), dtype=torch.int32),
    )
    found.write(padded)
    on_device = SharedPrefixes(*(getattr(padded, f.name).to(DEVICE) for f in fields(padded)))
    slots = np.append(slots, rows.slots)  # padding
    positions = torch.from_numpy(rows.position[slots]).to(DEVICE)
    own = int((positions - on_device.lengths).max()) + 1
    tables = torch.from_numpy(rows.tables).to(DEVICE)
    slots = torch.from_numpy(slots).to(DEVICE)
    return Step(positions, positions, slots, tables, None, split, -(-own // split), shared=on_device)


GROUPS = [([5], 0, [128]), ([23, 4], 3, [256, 384]), ([70, 8, 5], 11, [128, 512, 256])]
"""Rows of each group, rows that share nothing, and the lengths of the groups' prefixes."""
SLOW = DEVICE == "cpu"
"""The interpreter takes half a minute for the largest of these."""


@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES[1:] if SLOW else [*SHAPES, (12, 2, 128), (2, 2, 16)])
@pytest.mark.parametrize(("sizes", "alone", "lengths"), GROUPS[:2] if SLOW else GROUPS)
@pytest.mark.parametrize("split", [16] if SLOW else [16, 4096])
def test_shared_prefixes(
    heads: int, kv_heads: int, size: int, sizes: list[int], alone: int, lengths: list[int], split: int
) -> None:
    step = shared_step(sizes, alone, lengths, kv_heads, heads, split=split)
    keys, values = caches(kv_heads, size, blocks=1000)
    q = random(len(step.slots), heads + 2 * kv_heads, size)[:, :heads]
    found = kernels.attend(q, keys, values, step, size**-0.5)
    torch.testing.assert_close(found, reference.attend(q, keys, values, step, size**-0.5), atol=1e-5, rtol=1e-4)
    alike = kernels.attend(q, keys, values, replace(step, splits=-(-640 // split), shared=None), size**-0.5)
    torch.testing.assert_close(found, alike, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
def test_prefill_attention(heads: int, kv_heads: int, size: int) -> None:
    keys, values = caches(kv_heads, size)
    tiles = torch.tensor(
        [[1, 0, 30, 64], [1, 64, 94, 6], [0, 70, 0, 5], [0, 0, 0, 0]], dtype=torch.int32, device=DEVICE
    )
    step = Step(ints(*range(75)), ints(*range(75)), ints(*range(75)), tables(2, 8), tiles=tiles)
    q = random(75, heads + 2 * kv_heads, size)[:, :heads]
    found = kernels.attend(q, keys, values, step, size**-0.5)
    torch.testing.assert_close(found, reference.attend(q, keys, values, step, size**-0.5), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("heads", "kv_heads", "size"), SHAPES)
def test_prompts_beside_rows_that_decode(heads: int, kv_heads: int, size: int) -> None:
    """One pass over both gives what a pass over each gives."""
    keys, values = caches(kv_heads, size)
    place = ints(0, 111, 32)
    tiles = torch.tensor([[1, 3, 30, 64], [1, 67, 94, 6], [0, 0, 0, 0]], dtype=torch.int32, device=DEVICE)
    positions, slots = torch.cat([place, ints(*range(30, 100))]), torch.cat([ints(0, 1, 2), ints(*[1] * 70)])
    step = Step(positions, positions, slots, tables(3, 7), tiles, 32, 4, rows=3)
    q = random(73, heads + 2 * kv_heads, size)[:, :heads]
    found = kernels.attend(q, keys, values, step, size**-0.5)
    torch.testing.assert_close(found, reference.attend(q, keys, values, step, size**-0.5), atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(found[:3], kernels.attend(q[:3], keys, values, step.decoding(), size**-0.5))


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter has no bfloat16 products")
@pytest.mark.parametrize("size", [8, 64, 80, 128, 256])
def test_attention_in_bfloat16(size: int) -> None:
    """Against float32 over the same rounded numbers: what is left is the rounding of weights and results, 2^-8 each."""
    keys, values = (cache.bfloat16() for cache in caches(3, size, blocks=1000))
    q = random(75, 15, size)[:, :9].bfloat16()
    tiles = torch.tensor([[1, 0, 30, 64], [1, 64, 94, 6], [0, 70, 0, 5]], dtype=torch.int32, device=DEVICE)
    place = ints(*range(75))
    for step in (
        Step(place, place, place, tables(2, 8), tiles=tiles),
        Step(ints(0, 0), ints(111, 32), ints(1, 0), tables(2, 8), None, 32, 4),
        shared_step([23, 4], 3, [256, 384], 3, 9, split=16),
    ):
        rows = q[: len(step.ids)]
        found = kernels.attend(rows, keys, values, step, size**-0.5).float()
        expected = reference.attend(rows.float(), keys.float(), values.float(), step, size**-0.5)
        torch.testing.assert_close(found, expected, atol=2e-2, rtol=2e-2)


def test_choose() -> None:
    found = kernels.choose(ints(5, -1, -1), ints(0, 2, 1), ints(10, 11, 12))
    assert found.tolist() == [5, 12, 11]


def draws(rows: int, temperature: float, **filters: float) -> Draw:
    def full(value: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.full((rows,), value, dtype=dtype, device=DEVICE)

    seeds = torch.arange(rows, dtype=torch.int32, device=DEVICE) * 7919 - 3
    top_k = full(filters.get("top_k", 0), torch.int32)
    return Draw(
        full(temperature), seeds, top_k, full(filters.get("top_p", 1)), full(filters.get("min_p", 0)), bool(filters)
    )


def test_greedy_draw_takes_the_first_highest() -> None:
    logits = random(3, 5000)
    logits[1, [17, 4000]] = 50.0
    ids, logprobs = kernels.draw(logits, draws(3, 0.0), ints(1, 2, 3))
    expected, wanted = reference.draw(logits, draws(3, 0.0), ints(1, 2, 3))
    assert ids.tolist() == expected.tolist()
    torch.testing.assert_close(logprobs, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("filters", [{}, {"top_k": 3}, {"top_p": 0.6}, {"min_p": 0.3}])
def test_drawn_tokens_follow_the_distribution(filters: dict[str, float]) -> None:
    """Chi-square; 26.1 is exceeded once in 1,000 at 8 degrees of freedom (9 tokens)."""
    rows = 4000 if DEVICE == "cuda" else 300  # the interpreter is slow
    logits = torch.tensor([2.0, 1.5, 1.0, 0.5, 0.0, -0.5, -1.0, 1.2, 0.3]).to(DEVICE).repeat(rows, 1)
    how = draws(rows, 0.8, **filters)
    positions = torch.arange(rows, dtype=torch.int32, device=DEVICE)
    ids, logprobs = kernels.draw(logits, how, positions)
    scaled = logits[:1] / 0.8
    torch.testing.assert_close(logprobs, scaled.log_softmax(-1)[0][ids.long()], atol=1e-5, rtol=1e-5)
    if filters:
        scaled = scaled.masked_fill(logits[:1] < reference.floor(logits, how)[0], float("-inf"))
    expected = scaled.softmax(-1)[0].cpu() * rows
    counts = torch.bincount(ids.long().cpu(), minlength=9)
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = ((counts - expected)[possible] ** 2 / expected[possible]).sum()
    assert statistic < 26.1


def test_noise_depends_on_seed_and_position_alone() -> None:
    logits = random(1, 300).repeat(6, 1)
    how = draws(6, 1.0)
    how.seed[:] = ints(1, 1, 2, 1, 2, 9)
    ids = kernels.draw(logits, how, ints(5, 5, 5, 6, 5, 5))[0].tolist()
    assert ids[0] == ids[1]
    assert ids[2] == ids[4]
    assert len(set(ids)) > 1
