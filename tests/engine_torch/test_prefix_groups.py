"""Shared prefixes: which rows are grouped, what their tiles cover, and that engines write the same with them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import TorchEngine, prefix_groups
from subquest.engine.torch import reference_operations as reference
from subquest.engine.torch.model import Model
from subquest.engine.torch.prefix_groups import FEWEST, PROGRAMS, STRIDE, Groups, PrefixGroups
from subquest.engine.torch.runner import Runner
from subquest.engine.torch.running_batch import Rows
from subquest.engine.torch.step import SHARED_PARTS, Step
from subquest.errors import UsageError

from .conftest import byte_tokenizer, tiny_model

BLOCK = 16
TOKEN_BYTES = 1024


class Batch:
    """Rows of a 1.5B model (12 query and 2 key-value heads) whose contexts begin with given blocks."""

    def __init__(self, slots: int = 1024, width: int = 512) -> None:
        self.rows = Rows(slots, width)
        self.groups = PrefixGroups(self.rows, block=BLOCK, heads=12, kv_heads=2, token_bytes=TOKEN_BYTES)
        self.used = 0

    def take(self, tokens: int) -> list[int]:
        self.used += tokens // BLOCK
        return list(range(self.used - tokens // BLOCK + 1, self.used + 1))

    def begin(self, slot: int, prefix: Sequence[int], own: int = 100) -> None:
        """A context of the prefix and so many tokens of its own, the last of which is fed."""
        blocks = [*prefix, *self.take(own + BLOCK)]
        self.rows.set_blocks(slot, blocks)
        position = len(prefix) * BLOCK + own
        self.rows.begin(slot, token=1, position=position, left=9, sampling=Sampling(), seed=0, kind=0)

    def find(self) -> Groups | None:
        slots = self.rows.ready()
        found = self.groups.find(slots)
        if found is not None:
            self.check(found, slots)
        return found

    def lengths(self) -> list[int]:
        found = self.find()
        return [] if found is None else found.lengths.tolist()

    def check(self, found: Groups, slots: np.ndarray[Any, Any]) -> None:
        """Tiles cover each prefix once, and only rows that have its blocks."""
        covered: dict[int, list[tuple[int, int, int]]] = {row: [] for row in range(len(slots))}
        for number, start, end, part in found.tiles[found.tiles[:, 2] > 0].tolist():
            members = [row for row in found.members[number].tolist() if row >= 0]
            assert members
            assert end > start
            assert end % STRIDE == start % STRIDE == 0
            tables = self.rows.tables[slots[members], start // BLOCK : end // BLOCK]
            assert (tables == tables[0]).all()
            for row in members:
                covered[row].append((part, start, end))
        for row, slot in enumerate(slots):
            parts = sorted(covered[row])
            assert [part for part, _, _ in parts] == list(range(found.parts[row]))
            ends = [0, *(end for _, _, end in parts)]
            assert [start for _, start, _ in parts] == ends[:-1]
            assert ends[-1] == found.lengths[row] <= self.rows.position[slot]
        assert found.parts.max() <= SHARED_PARTS
        assert len(found.tiles) <= self.groups.most_tiles


def test_rows_of_a_role_share_its_prompt() -> None:
    batch = Batch()
    opening = batch.take(32)  # both prompts begin alike
    planner, executor = opening + batch.take(1500), opening + batch.take(2500)
    for slot in range(100):
        batch.begin(slot, planner if slot % 3 else executor, own=slot)
    batch.begin(100, [], own=900)
    assert batch.lengths() == [1408 if slot % 3 else 2432 for slot in range(100)] + [0]


def test_the_prefix_that_saves_most() -> None:
    """Eight rollouts of a question go deeper than the role's prompt where that is longer by more than an eighth."""
    for question, expected in ((2048, 1024 + 2048), (0, 1024)):
        batch = Batch()
        role = batch.take(1024)
        for number in range(16):
            prefix = role + batch.take(question)
            for slot in range(8):
                batch.begin(number * 8 + slot, prefix)
        assert set(batch.lengths()) == {expected}


def test_what_would_not_pay_is_read_row_by_row() -> None:
    batch = Batch()
    role = batch.take(2048)
    enough = prefix_groups.LEAST_BYTES // TOKEN_BYTES // 2048 * 10 // 9 + 1  # a tile of ten rows reads once
    for slot in range(enough):
        batch.begin(slot, role)
        if slot == enough // 2:
            assert batch.find() is None
    assert set(batch.lengths()) == {2048}
    pairs = Batch()
    for number in range(300):
        prefix = pairs.take(2048)
        for slot in range(FEWEST - 1):
            pairs.begin(number * (FEWEST - 1) + slot, prefix, own=20)
    assert pairs.find() is None


def test_rows_come_and_go() -> None:
    batch = Batch(slots=200)
    one, other = batch.take(2048), batch.take(1536)
    for slot in range(120):
        batch.begin(slot, one if slot < 60 else other)
    assert batch.lengths() == [2048] * 60 + [1536] * 60
    for slot in range(0, 120, 7):
        batch.rows.end(slot)
    assert batch.lengths() == [2048 if slot < 60 else 1536 for slot in range(120) if slot % 7]
    batch.begin(7, other)
    batch.begin(63, [])
    found = batch.lengths()
    assert found[6] == 1536, "its slot belonged to another context"
    assert found[np.flatnonzero(batch.rows.ready() == 63)[0]] == 0
    assert batch.find() is batch.find(), "nothing changed"
    for slot in range(3, 60):
        batch.rows.end(slot)
    batch.rows.end(0)
    assert batch.lengths()[:2] == [0, 0], "too few are left"


def test_what_earlier_contexts_left_in_the_tables_does_not_count() -> None:
    batch = Batch()
    role = batch.take(1024)
    deep = role + batch.take(4096)
    for slot in range(100):
        batch.begin(slot, deep)
    assert set(batch.lengths()) == {1024 + 4096}
    for slot in range(FEWEST - 1, 100):
        batch.rows.end(slot)
        batch.begin(slot, role, own=60)
    assert set(batch.lengths()) == {1024}
    for slot in range(100):
        batch.rows.end(slot)
        batch.begin(slot, [], own=60)
    assert batch.find() is None


def test_a_long_prefix_of_few_rows() -> None:
    batch = Batch()
    prefix = batch.take(8000)
    for slot in range(16):
        batch.begin(slot, prefix)
    assert set(batch.lengths()) == {7936}


@pytest.mark.parametrize("seed", range(12))
def test_any_tree_of_contexts(seed: int) -> None:
    chance = random.Random(seed)
    batch = Batch()
    prefixes: list[list[int]] = [[]]
    for _ in range(chance.randrange(1, 40)):
        before = chance.choice(prefixes)
        if len(before) < 300:
            prefixes.append(before + batch.take(BLOCK * chance.randrange(1, 120)))
    for slot in chance.sample(range(1024), chance.randrange(40, 1024)):
        batch.begin(slot, chance.choice(prefixes), own=chance.randrange(0, 1000))
    found = batch.find()
    assert found is not None
    if int((found.members >= 0).any(1).sum()) * 2 < PROGRAMS:
        assert np.count_nonzero(found.tiles[:, 2]) * 2 <= PROGRAMS, "all programs run at once"


def attend_by_tiles(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, step: Step, scale: float) -> Any:
    """What the kernels do with shared prefixes, in plain torch: softmax sums of tiles and rests, put together."""
    if step.shared is None:
        return reference.attend(q, keys, values, step, scale)
    if step.rows:
        prompts = reference.attend(q, keys, values, replace(step, shared=None), scale)[step.rows :]
        return torch.cat([attend_by_tiles(q[: step.rows], keys, values, step.decoding(), scale), prompts])
    rows, heads = q.shape[:2]
    parts: list[list[tuple[torch.Tensor, torch.Tensor]]] = [[] for _ in range(rows)]

    def read(row: int, slot: int, start: int, end: int) -> None:
        places = torch.arange(start, end)
        blocks = step.tables[slot, places // BLOCK].long()
        k, v = (cache[blocks, places % BLOCK].repeat_interleave(heads // keys.shape[2], 1) for cache in (keys, values))
        scores = torch.einsum("hd,nhd->hn", q[row], k) * scale
        sums = scores.logsumexp(1)
        parts[row].append((sums, torch.einsum("hn,nhd->hd", (scores - sums[:, None]).exp(), v)))

    for number, start, end, _ in step.shared.tiles.tolist():
        members = [row for row in step.shared.members[number].tolist() if row >= 0]
        for row in members if end else []:
            read(row, int(step.slots[members[0]]), start, end)
    for row, (length, position) in enumerate(zip(step.shared.lengths.tolist(), step.positions.tolist(), strict=True)):
        assert len(parts[row]) == int(step.shared.parts[row])
        read(row, int(step.slots[row]), length, position + 1)
    out = torch.empty_like(q)
    for row, found in enumerate(parts):
        weights = torch.stack([sums for sums, _ in found]).softmax(0)
        out[row] = (weights[:, :, None] * torch.stack([mixed for _, mixed in found])).sum(0)
    return out.flatten(1)


@pytest.mark.parametrize("mixed_tokens", [0, 40])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
async def test_engines_write_the_same(device: str, mixed_tokens: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts of two roles, and some of none, take turns in 13 slots; prompts enter the cache beside
    rows that decode, whole or in pieces of so many tokens."""
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    monkeypatch.setattr(prefix_groups, "LEAST_BYTES", 1)
    by_tiles = ModuleType("by_tiles")
    by_tiles.__dict__.update(vars(reference), attend=attend_by_tiles)
    roles = ["You plan. " * 30, "You search, and read what was found. " * 8, "", "Short."]

    async def write(shared: bool) -> tuple[list[tuple[tuple[int, ...], tuple[float, ...]]], Runner]:
        settings = {"prefill_tokens": 128, "shared_prefixes": shared}
        model = tiny_model().to(device)
        engine = TorchEngine.from_model(model, byte_tokenizer(), cache_tokens=1600, max_batch=13, **settings)
        if device == "cpu":
            model = Model(engine.weights, engine._model.cache, by_tiles)
            engine.runner = Runner(model, engine.scheduler.rows, staged=True, **settings)
        engine.scheduler.mixed_tokens = mixed_tokens

        async def one(number: int) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
            role = roles[(0, 1, 0, 1, 2, 0, 3)[number % 7]]
            session = await engine.open([Message("system", role), Message("user", f"Number {number}?")])
            found = []
            for turn in range(2):
                sampling = Sampling(max_tokens=6 + (number * 5 + turn) % 20, logprobs=True)
                written = await session.generate(sampling)
                assert written.logprobs is not None
                found.append((written.token_ids, written.logprobs))
                await session.append("Go on.")
            await session.close()
            return found

        try:
            found = await asyncio.gather(*(one(number) for number in range(21)))
        finally:
            await engine.close()
        return [turn for turns in found for turn in turns], engine.runner

    alone, _ = await write(shared=False)
    together, runner = await write(shared=True)
    assert runner.shared_steps > runner.steps // 3
    assert runner.shared_steps + runner.mixed > runner.steps, "some steps are both"
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    for (_, found), (_, wanted) in zip(together, alone, strict=True):
        torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted), atol=2e-4, rtol=0)


def test_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv(prefix_groups.VARIABLE, text)
        assert prefix_groups.wanted() is expected
    monkeypatch.setenv(prefix_groups.VARIABLE, "on")
    with pytest.raises(UsageError, match="SUBQUEST_SHARED_PREFIXES"):
        prefix_groups.wanted()
