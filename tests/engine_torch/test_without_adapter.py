"""Contexts with and without the adapter, side by side in one engine: each is computed by its own weights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from subquest.engine.interface import Generation, HasAdapter, Message, Mode, Sampling
from subquest.engine.torch import Adapter, TorchEngine
from subquest.record import Trajectory
from subquest.systems.decor import DECOR

from ..systems.fakes import FakeSearch
from .conftest import full_logprobs, tiny_model
from .test_weights import merged_by_hand, random_adapter

Make = Callable[..., TorchEngine]
QUESTION = [Message("system", "Answer in short."), Message("user", "Where was the designer of the bridge born?")]
LONG = 4096


def pair(family: str = "qwen2") -> tuple[Any, Any, Adapter]:
    """A model, the same with an adapter merged by hand, and the adapter."""
    base = tiny_model(family, max_position_embeddings=LONG)
    state = random_adapter(base, 3)
    return base, merged_by_hand(base, state, 0.5), Adapter.from_state(state, scale=0.5)


@pytest.mark.parametrize("merged", [True, False])
async def test_one_batch_holds_contexts_of_both_kinds(merged: bool, make_engine: Make) -> None:
    """Sixteen sessions with one prompt: shared cache blocks of the wrong kind would show at once."""
    base, adapted, adapter = pair()
    engine = make_engine(base)
    assert engine.without_adapter() is engine
    assert isinstance(engine, HasAdapter)
    assert not engine.has_adapter
    engine.refresh(adapter=adapter, merged=merged, policy=7)
    assert engine.has_adapter
    bare = engine.without_adapter()
    engines = [bare if n % 3 == 0 else engine for n in range(16)]
    sessions = [await one.open(QUESTION) for one in engines]
    await asyncio.gather(
        *(s.generate(Sampling(max_tokens=24, temperature=1.0, seed=n)) for n, s in enumerate(sessions))
    )
    await sessions[0].append("And then?")
    await sessions[0].fork().generate(Sampling(max_tokens=4, temperature=1.0))
    for one, session in zip(engines, sessions, strict=True):
        ids = [i for s in session.segments for i in s.token_ids]
        start = sum(len(s.token_ids) for s in session.segments if s.kind == "prompt")
        written = next(s for s in session.segments if s.kind == "agent")
        wanted = full_logprobs(base if one is bare else adapted, ids[: start + len(written.token_ids)], start)
        assert torch.allclose(torch.tensor(written.logprobs), wanted, atol=2e-4)
        assert written.policy == (None if one is bare else 7)


@pytest.mark.parametrize("merged", [True, False])
async def test_a_second_adapter_on_other_matrices_leaves_the_base_as_it_was(merged: bool, make_engine: Make) -> None:
    base, _, adapter = pair("llama")
    engine = make_engine(base)

    async def first_token() -> float:
        session = await engine.without_adapter().open(QUESTION)
        turn = await session.generate(Sampling(max_tokens=1, logprobs=True))
        return (turn.logprobs or (0.0,))[0]

    alone = await first_token()
    for part in ("q_proj", "down_proj"):
        pairs = {name: both for name, both in adapter.pairs.items() if name.endswith(part)}
        engine.refresh(adapter=Adapter(pairs, adapter.scale), merged=merged)
        assert await first_token() == pytest.approx(alone, abs=1e-6)
    other = tiny_model("llama", seed=5, max_position_embeddings=LONG)
    engine.refresh(other.state_dict(), adapter=adapter, merged=merged)
    assert await first_token() != pytest.approx(alone, abs=1e-3)


class Directed:
    """A torch engine whose turns a script gives another text; what is recorded is what the model drew."""

    def __init__(self, engine: Any, role: str = "", script: dict[str, list[str]] | None = None) -> None:
        self.engine, self.role, self.script = engine, role, script or {}
        self.name, self.context_window = engine.name, engine.context_window
        self.has_adapter = isinstance(engine, HasAdapter) and engine.has_adapter

    def for_role(self, role: str) -> Directed:
        return Directed(self.engine, role, self.script)

    def without_adapter(self) -> Directed:
        return Directed(self.engine.without_adapter(), self.role, self.script)

    async def open(self, messages: Sequence[Message], *, mode: Mode = "chat") -> Any:
        session = await self.engine.open(messages, mode=mode)
        generate = session.generate

        async def directed(sampling: Sampling) -> Generation:
            return replace(await generate(sampling), text=self.script[self.role].pop(0), finish="stop")

        session.generate = directed
        return session

    def count_tokens(self, text: str) -> int:
        return int(self.engine.count_tokens(text))

    async def close(self) -> None:
        await self.engine.close()


async def test_decors_compressor_is_the_base_model_while_the_other_roles_have_the_adapter(make_engine: Make) -> None:
    base, adapted, adapter = pair()
    engine = make_engine(base, cache_tokens=16_384)
    engine.refresh(adapter=adapter)
    long = " ".join(f"fact{n}" for n in range(30))
    script = {
        "planner": ["<search>Orvane one</search>", "<search>Orvane two</search>", "<search>None</search>"],
        "filter": [f"<filter>{long}</filter>"] * 2,
        "compressor": ["fact0"],
        "answerer": ["<answer>Kestel</answer>"],
    }
    sampling = Sampling(max_tokens=12, temperature=1.0, logprobs=True, seed=1)
    system = DECOR(
        Directed(engine, script=script), FakeSearch(), memory_tokens=400, sampling=sampling, prompts="compact"
    )
    episode = await system.solve("Where was the designer of the Orvane Bridge born?")
    assert {t.role for t in episode.trajectories} == {"planner", "filter", "compressor", "answerer"}
    for trajectory in episode.trajectories:
        model, other = (base, adapted) if trajectory.role == "compressor" else (adapted, base)
        drawn, by_model, by_other = logprobs_of(trajectory, model, other)
        assert torch.allclose(drawn, by_model, atol=5e-4), trajectory.role
        assert not torch.allclose(drawn, by_other, atol=1e-2), trajectory.role


def logprobs_of(trajectory: Trajectory, *models: Any) -> tuple[torch.Tensor, ...]:
    """What the engine noted for the first turn, and what whole passes of the models say."""
    start, end = 0, 0
    for segment in trajectory.segments:
        if segment.kind == "agent":
            end = start + len(segment.token_ids)
            break
        start += len(segment.token_ids)
    ids = list(trajectory.token_ids[:end])
    noted = next(s.logprobs for s in trajectory.segments if s.kind == "agent")
    return torch.tensor(noted), *(full_logprobs(model, ids, start) for model in models)
