"""The policy and the rollout engine hold the base weights once."""

import asyncio
from dataclasses import replace

import pytest
import torch

from subquest.engine import Message, Sampling
from subquest.engine.torch.engine import TorchEngine
from subquest.engine.torch.loader import Source
from subquest.engine.torch.weights import _one_below_the_other
from subquest.train.components import make_engine, make_policy
from subquest.train.lora import lora_layers
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import ModelPart, Recipe

from .test_rl import RECIPE

CPU = torch.device("cpu")


def parts(model: ModelPart, *, share: bool, overlap: bool = False) -> tuple[Policy, TorchEngine, Source]:
    recipe: Recipe = replace(RECIPE, model=model, rollout=replace(RECIPE.rollout, cache_tokens=2048, overlap=overlap))
    source = tiny_source("qwen2", vocabulary=300)
    policy = make_policy(model, source, device=CPU, seed=0)
    return policy, make_engine(recipe, source, device=CPU, policy=policy if share else None), source


def bytes_held(policy: Policy, engine: TorchEngine) -> int:
    """Memory behind all weights, each storage counted once."""
    weights = [*policy.parameters(), *engine.weights.parts.values()]
    weights += [beside._weight for beside in policy._wide.values()]
    weights += [linear.base for linear, _ in engine.weights._linears() if linear.base is not None]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in weights}
    return sum(storages.values())


def written(engine: TorchEngine) -> tuple[tuple[int, ...], tuple[float, ...]]:
    async def one() -> tuple[tuple[int, ...], tuple[float, ...]]:
        session = await engine.open([Message("user", "What now?")])
        turn = await session.generate(Sampling(max_tokens=12, logprobs=True))
        assert turn.logprobs is not None
        return turn.token_ids, turn.logprobs

    return asyncio.run(one())


def closed(*engines: TorchEngine) -> None:
    for engine in engines:
        asyncio.run(engine.close())


def change_adapter(policy: Policy) -> None:
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for _, layer in lora_layers(policy):
            layer.lora_B.copy_(torch.randn(layer.lora_B.shape, generator=generator) * 0.3)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("targets", [ModelPart("").targets, ("q_proj", "down_proj")])
def test_a_frozen_base_is_held_once(wide: bool, targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    if wide:
        monkeypatch.setattr("subquest.train.lora.MERGED_UP_TO", 8)
    model = ModelPart("random:qwen2", rank=4, targets=targets)
    policy, engine, source = parts(model, share=True)
    other_policy, other, _ = parts(model, share=False)
    base = {name: tensor.clone() for name, tensor in policy.named_parameters() if "lora" not in name}
    for each, of in ((policy, engine), (other_policy, other)):
        each.merge()
        change_adapter(each)
        of.refresh(**each.engine_state(), policy=1)
    whole = sum(tensor.nbytes for name, tensor in source.state.items() if name != "lm_head.weight")
    assert bytes_held(policy, engine) <= bytes_held(other_policy, other) - whole
    engine_storages = {p.untyped_storage().data_ptr() for p in engine.weights.parts.values()}
    engine_storages |= {linear.base.untyped_storage().data_ptr() for linear, _ in engine.weights._linears()
                        if linear.base is not None}  # fmt: skip
    for name, parameter in policy.named_parameters():
        if "lora" not in name:
            assert parameter.untyped_storage().data_ptr() in engine_storages, name
            assert torch.equal(parameter, base[name]), name
    # it writes what an engine of its own weights writes, with the adapter and without
    assert written(engine) == written(other)
    for of in (engine, other):
        of.refresh(source.state)
    assert written(engine) == written(other)
    closed(engine, other)


def test_trained_weights_are_seen_at_once() -> None:
    policy, engine, _ = parts(ModelPart("random:qwen2", rank=0), share=True)
    for name, parameter in policy.named_parameters():
        assert parameter.data_ptr() == engine.weights.parts[name].data_ptr(), name
    before = written(engine)
    with torch.no_grad():
        policy.model.layers[0].mlp.up_proj.weight.normal_(generator=torch.Generator().manual_seed(1))
    engine.refresh(**policy.engine_state(), policy=1)
    own_policy, own, _ = parts(ModelPart("random:qwen2", rank=0), share=False)
    own_policy.load_state_dict(policy.state_dict())
    own.refresh(**own_policy.engine_state(), policy=1)
    assert written(engine) == written(own) != before
    closed(engine, own)


def test_trained_weights_are_apart_where_rollouts_overlap_updates() -> None:
    policy, engine, _ = parts(ModelPart("random:qwen2", rank=0), share=True, overlap=True)
    assert policy.model.norm.weight.data_ptr() != engine.weights.parts["model.norm.weight"].data_ptr()
    closed(engine)


def test_frozen_weights_never_exist_in_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base of 7B in float32 would be 30 GB, before it is rounded to 15."""
    seen: list[torch.dtype] = []
    load = Policy.load_base

    def watched(policy: Policy, state: object) -> None:
        seen.extend({p.dtype for p in policy.parameters()})
        load(policy, state)  # type: ignore[arg-type]

    monkeypatch.setattr(Policy, "load_base", watched)
    make_policy(ModelPart("", rank=4, dtype="bfloat16"), tiny_source("qwen2", vocabulary=300), device=CPU, seed=0)
    assert seen == [torch.bfloat16]


def test_neighbours_in_memory_are_not_taken_for_one_matrix() -> None:
    """An allocator may put separate tensors one behind the other."""
    memory = torch.arange(64.0)
    lent = memoryview(memory.numpy()).cast("B")
    first, second = (torch.frombuffer(lent[at : at + 128], dtype=torch.float32).view(8, 4) for at in (0, 128))
    assert second.data_ptr() == first.data_ptr() + 128
    parts: list[torch.Tensor | None] = [first, second]
    whole = _one_below_the_other(parts, torch.empty(16, 4))
    assert whole.flatten().tolist() == memory.tolist()
    assert second.data_ptr() == whole[8].data_ptr(), "it has moved"
    together = _one_below_the_other([whole[:8], whole[8:]], torch.empty(16, 4))
    assert together.data_ptr() == whole.data_ptr()
