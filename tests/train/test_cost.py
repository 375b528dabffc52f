"""The cost model against what can be counted and what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from subquest.cli import main
from subquest.errors import UsageError
from subquest.train import cost, lora
from subquest.train import random_model as tiny
from subquest.train.batch import Rollout, pack
from subquest.train.cost import SHAPES, Machine, Shape, Workload, estimate, operations, shape_of
from subquest.train.policy import Policy
from subquest.train.random_model import tiny_source
from subquest.train.recipe import load_recipe

from .episodes import episode, trajectory

RECIPES = Path(__file__).resolve().parents[2] / "recipes"


def shape(policy: Policy) -> Shape:
    a = policy.architecture
    return Shape(a.layers, a.width, a.heads, a.kv_heads, a.head_size, a.inner, a.vocabulary, a.tied)


def test_parameters_are_counted() -> None:
    policy = Policy(tiny_source("llama", vocabulary=300))
    norms = sum(p.numel() for name, p in policy.named_parameters() if "norm" in name)
    assert shape(policy).parameters + norms == sum(p.numel() for p in policy.parameters())
    assert SHAPES["smollm2"].parameters == pytest.approx(134.5e6, rel=1e-3)
    assert SHAPES["smollm2"].adapter(16) == 4_884_480
    sizes = {name: round(s.parameters / 1e9, 1) for name, s in SHAPES.items()}
    assert sizes == {"smollm2": 0.1, "Qwen2.5-3B": 3.1, "Qwen2.5-7B": 7.6, "Qwen3-8B": 8.2}


def kept_by_autograd(layers: int, checkpointing: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[float, Shape]:
    """Values saved for the backward pass a token: distinct tensors, parameters and rotary tables left out."""
    monkeypatch.setitem(tiny.SHAPE, "num_hidden_layers", layers)
    policy = Policy(tiny_source("llama", vocabulary=300), checkpointing=checkpointing)
    own = {p.untyped_storage().data_ptr() for p in policy.parameters()}
    tokens = 400
    e = episode("e", trajectory("t", "planner", ("prompt", [5] * 10), ("agent", [7] * (tokens - 10))))
    batch = pack([Rollout(e, {"t": 1.0})])
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.is_floating_point():
            kept[storage.data_ptr()] = storage  # held, so that no other tensor takes its place
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        policy.hidden(batch)
    return sum(storage.nbytes() for storage in kept.values()) / 4 / tokens, shape(policy)


@pytest.mark.parametrize("checkpointing", [False, True])
def test_activations_are_those_that_autograd_keeps(checkpointing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a layer adds, by the difference of two depths."""
    few, shallow = kept_by_autograd(2, checkpointing, monkeypatch)
    many, deep = kept_by_autograd(4, checkpointing, monkeypatch)
    expected = deep.activations(checkpointing=checkpointing) - shallow.activations(checkpointing=checkpointing)
    if not checkpointing:  # kernels for CPUs keep more: keys and values for every query head, attention's output twice,
        more = 2 * (deep.heads - deep.kv_heads) * deep.head_size + deep.heads * deep.head_size
        expected += 2 * (more + 2 * deep.width)  # and what each of the two norms scales
    assert many - few == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("rank", [0, 4])
@pytest.mark.parametrize("checkpointing", [False, True])
def test_operations_are_those_that_torch_counts(
    rank: int, checkpointing: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass and an update, matrices not merged. Torch counts attention only where it is made of products, and then as
    if every query saw every key. An adapter's padding counts in a model as small as this one, and checkpointing does
    not compute a layer's last product again."""
    monkeypatch.setattr(lora, "MERGED_UP_TO", 0)
    monkeypatch.setattr(cost, "MERGED_UP_TO", 0)
    source = tiny_source("llama", vocabulary=300)
    policy = Policy(source, lora=lora.LoraSettings(rank) if rank else None, checkpointing=checkpointing)
    e = episode("e", trajectory("t", "planner", ("prompt", [5] * 20), ("agent", [7] * 40), ("agent", [8] * 4)))
    batch = pack([Rollout(e, {"t": 1.0})])
    with FlopCounterMode(display=False) as passed, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        policy(batch)
    with FlopCounterMode(display=False) as learned:
        policy(batch, merged=policy.merge()).logprobs.sum().backward()
    counts = policy.meter.read()
    assert (counts["computed"], counts["computed_before"]) == (64, 64)
    assert policy.meter.read() == {"computed": 0.0, "computed_before": 0.0, "tflop": 0.0}

    def ours(pairs: float, backward: bool) -> float:
        again = checkpointing and backward
        return operations(shape(policy), 64, pairs, 44, rank=rank, backward=backward, again=again)

    assert passed.get_total_flops() == pytest.approx(ours(64 * 64, False), rel=0.01)
    assert learned.get_total_flops() == pytest.approx(ours(0, True), rel=0.15 if rank or checkpointing else 0.01)
    assert counts["tflop"] == pytest.approx((ours(64 * 65 / 2, False) + ours(64 * 65 / 2, True)) / 1e12)


def test_a_measured_step() -> None:
    """48 × 8 on one H200: 9.2 s, of which 5.0 rolling out and 4.1 updating; 843,176 tokens, 113,237 written."""
    recipe = load_recipe(
        RECIPES / "coda-peco-small.toml", {"rollout.questions": 48, "rollout.group": 8, "optimiser.minibatches": 1}
    )
    cost = estimate(recipe, Machine(1))
    assert cost.tokens == pytest.approx(843_176, rel=0.01)
    assert cost.update_s == pytest.approx(4.1, rel=0.1)
    assert cost.rollout_s == pytest.approx(5.0, rel=0.1)


def test_what_makes_a_step_dearer() -> None:
    recipe = load_recipe(RECIPES / "coda-peco-paper.toml")
    one, more = estimate(recipe, Machine(8)), estimate(recipe, Machine(64))
    assert one.update_s == pytest.approx(8 * more.update_s)
    assert one.weights == pytest.approx(8 * more.weights)
    longer = estimate(recipe, Machine(8), Workload(packed=4392.0))
    assert longer.tokens == 2 * one.tokens
    assert longer.update_s > 2 * one.update_s
    lighter = estimate(replace(recipe, model=replace(recipe.model, rank=16)), Machine(8))
    assert lighter.weights < one.weights / 5


def test_a_policy_that_is_not_sharded_is_whole_on_every_gpu() -> None:
    path = RECIPES / "coda-peco-paper.toml"
    whole = estimate(load_recipe(path, {"model.shard": False}), Machine(8))
    assert whole.weights == pytest.approx(8 * estimate(load_recipe(path), Machine(8)).weights)


def test_what_cannot_be_estimated_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="supervised"):
        estimate(load_recipe(RECIPES / "coda-sft-paper.toml"))
    with pytest.raises(UsageError, match="no cost is known"):
        shape_of(load_recipe(RECIPES / "coda-peco-smoke.toml"))
    assert main(["train", str(RECIPES / "decor-marl-paper.toml"), "--estimate", "8"]) == 0
    assert "a step on 8 GPUs" in capsys.readouterr().out
