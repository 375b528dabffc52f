"""Weights merged once for many micro-batches: the same losses and gradients as the plain formula, and never stale."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from subquest.errors import UsageError
from subquest.train.batch import Batch
from subquest.train.lora import LoraLinear, LoraSettings, load_adapter_into, lora_layers, save_adapter
from subquest.train.loss import sft_loss
from subquest.train.merged_weights import Merged
from subquest.train.optimiser import Optimiser, logprobs_of
from subquest.train.policy import Policy
from subquest.train.recipe import OptimiserPart

from .test_policy import packed, source, tiny

torch.set_num_threads(1)
LENGTHS = (5, 17, 2, 9, 30, 12)


def adapted(family: str = "llama", *, std: float = 0.1, **settings: Any) -> Policy:
    """A tiny policy whose adapter has something to say."""
    torch.manual_seed(0)
    targets = settings.pop("targets", LoraSettings().targets)
    policy = Policy(source(tiny(family)), lora=LoraSettings(rank=4, alpha=8, targets=targets), **settings)
    with torch.no_grad():
        for number, p in enumerate(policy.trained().values()):
            p.normal_(std=std, generator=torch.Generator().manual_seed(number))
    return policy


def plainly(policy: Policy, batch: Batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Loss and gradients of the batch as a whole by the formula W x + scale B (A x), nothing merged."""
    chosen = {name: layer.merged for name, layer in lora_layers(policy)}
    for _, layer in lora_layers(policy):
        layer.merged = False
    loss = sft_loss(policy(batch).logprobs, batch.weights)
    found = torch.autograd.grad(loss, list(policy.trained().values()))
    for name, layer in lora_layers(policy):
        layer.merged = chosen[name]
    return loss.detach(), dict(zip(policy.trained(), found, strict=True))


def in_micro_batches(policy: Policy, batch: Batch, merged: Merged) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    total = torch.zeros(())
    parts = batch.split(24)
    assert len(parts) > 2
    for part in parts:
        loss = sft_loss(policy(part, merged=merged).logprobs, part.weights)
        loss.backward()
        total += loss.detach()
    merged.backward()
    return total, {name: p.grad for name, p in policy.trained().items() if p.grad is not None}


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_losses_and_gradients_are_those_of_the_plain_formula(family: str, checkpointing: bool) -> None:
    policy, batch = adapted(family, checkpointing=checkpointing), packed(*LENGTHS)
    wanted = plainly(policy, batch)
    merged = policy.merge()
    assert merged is not None
    found = in_micro_batches(policy, batch, merged)
    assert max(float(g.abs().max()) for g in wanted[1].values()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("targets", [("q_proj", "v_proj"), ("gate_proj", "up_proj", "o_proj"), ("k_proj", "down_proj")])
def test_matrices_without_an_adapter_multiply_by_themselves(targets: tuple[str, ...]) -> None:
    policy, batch = adapted(targets=targets), packed(*LENGTHS)
    wanted = plainly(policy, batch)
    merged = policy.merge()
    if targets == ("q_proj", "v_proj"):
        assert merged is None
        return
    assert merged is not None
    torch.testing.assert_close(in_micro_batches(policy, batch, merged), wanted, rtol=1e-4, atol=1e-6)


def test_an_optimiser_step_and_a_pass_use_it() -> None:
    """Whole steps against gradients and log-probs without it; the product that merges runs once a kind of matrix."""
    policy, batch = adapted(), packed(*LENGTHS)
    _, wanted = plainly(policy, batch)
    optimiser = Optimiser(policy, OptimiserPart(micro_tokens=24, clip=0.0), 10)
    found: dict[str, torch.Tensor] = {}

    def keep() -> float:
        found.update({name: p.grad for name, p in policy.trained().items() if p.grad is not None})
        return 0.0

    optimiser._step = keep  # type: ignore[method-assign]
    with Counting() as counted:
        optimiser.sft_step(batch)
    assert counted.times["aten::baddbmm_"] == 7
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    with Counting() as counted:
        logprobs = logprobs_of(policy, batch, temperature=1.0, micro_tokens=24)
    assert counted.times["aten::baddbmm_"] == 7
    torch.testing.assert_close(logprobs, policy(batch).logprobs.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fill", [4, 16, 64])
@pytest.mark.parametrize("lora", [True, False])
def test_shapes_that_are_filled_up_give_the_same_gradients(fill: int, lora: bool) -> None:
    """A GPU sees tokens and rows in multiples; what is learnt is the same."""
    outcomes, shapes = [], []
    for filled in (0, fill):
        torch.manual_seed(0)
        policy, batch = (adapted() if lora else Policy(source(tiny("llama")))), packed(*LENGTHS)
        optimiser = Optimiser(policy, OptimiserPart(micro_tokens=24, clip=0.0), 10)
        assert optimiser.fill == 0, "there is no need on a CPU"
        optimiser.fill = filled
        shapes.append(
            [(p.token_ids.numel(), p.rows.numel()) for p, _ in optimiser._parts(batch, "trajectory", fill=filled)]
        )
        kept: dict[str, torch.Tensor] = {}

        def keep(policy: Policy = policy, kept: dict[str, torch.Tensor] = kept) -> float:
            kept.update({name: p.grad for name, p in policy.trained().items() if p.grad is not None})
            return 0.0

        optimiser._step = keep  # type: ignore[method-assign]
        outcomes.append((optimiser.sft_step(batch).figures, kept))
    torch.testing.assert_close(outcomes[1], outcomes[0], rtol=1e-5, atol=1e-8)
    assert all(tokens % fill == 0 or tokens == 24 for tokens, _ in shapes[1])
    assert all(rows % fill == 0 for _, rows in shapes[1])
    assert len(set(shapes[1])) <= len(set(shapes[0]))


class Counting(TorchDispatchMode):
    """How often each operation ran."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.times[function.name()] += 1
        return function(*args, **(kwargs or {}))


def test_a_further_micro_batch_is_cheap() -> None:
    """Each operation is a launch on a GPU: of a layer's products four are left forth and eight back."""
    policy, part = adapted(), packed(6)
    merged = policy.merge()
    assert merged is not None
    sft_loss(policy(part, merged=merged).logprobs, part.weights).backward()
    with Counting() as counted:
        sft_loss(policy(part, merged=merged).logprobs, part.weights).backward()
    layers = policy.architecture.layers
    output = 3  # the output layer: logits forth and again on the way back, and the states' gradient
    assert counted.times["aten::mm"] == 4 * layers + 8 * layers - 1 + output  # nothing below the first layer is trained
    assert not counted.times["aten::addmm"]
    assert not counted.times["aten::bmm"]


def test_gradients_add_up_in_float32_and_the_weights_are_the_engine_s() -> None:
    policy, batch = adapted(dtype=torch.bfloat16), packed(*LENGTHS)
    merged = policy.merge()
    assert merged is not None
    layer = policy.model.layers[1].mlp.down_proj
    assert isinstance(layer, LoraLinear)
    exact = layer.base.weight.float() + layer.scale * layer.lora_B @ layer.lora_A
    down = merged.products()[1].down
    assert down is not None
    assert torch.equal(down.weight, exact.bfloat16())
    tiny_part = replace(batch, weights=batch.weights * 5e-4)
    for part, times in ((batch, 1), (tiny_part, 80)):  # what 80 small ones add is lost in bfloat16
        for _ in range(times):
            sft_loss(policy(part, merged=merged).logprobs, part.weights).backward()
    merged.backward()
    found = torch.cat([p.grad.flatten() for p in policy.trained().values() if p.grad is not None])
    again = policy.merge()
    assert again is not None
    policy.zero_grad()
    sft_loss(policy(batch, merged=again).logprobs, batch.weights).backward()
    again.backward()
    once = torch.cat([p.grad.flatten() for p in policy.trained().values() if p.grad is not None])
    assert float((found - 1.04 * once).norm() / once.norm()) < 2e-3


def change_by_loading(policy: Policy, folder: Path) -> None:
    save_adapter(policy, LoraSettings(rank=4, alpha=8), folder)
    from safetensors.torch import load_file

    load_adapter_into(policy, load_file(folder / "adapter_model.safetensors"))


def change_by_stepping(policy: Policy, folder: Path) -> None:
    optimiser = Optimiser(policy, OptimiserPart(), 10)
    optimiser.sft_step(packed(5, 8))


def change_the_base(policy: Policy, folder: Path) -> None:
    policy.load_base(tiny("llama").state_dict())


def put_another_tensor_in_place(policy: Policy, folder: Path) -> None:
    layer = policy.model.layers[0].self_attn.q_proj
    layer.lora_A.data = layer.lora_A.data.clone()


@pytest.mark.parametrize(
    "change", [change_by_loading, change_by_stepping, change_the_base, put_another_tensor_in_place]
)
def test_what_was_merged_is_refused_once_a_weight_has_changed(change: Any, tmp_path: Path) -> None:
    policy, batch = adapted(), packed(5, 8)
    merged = policy.merge()
    assert merged is not None
    sft_loss(policy(batch, merged=merged).logprobs, batch.weights).backward()
    change(policy, tmp_path)
    with pytest.raises(UsageError, match="merge them again"):
        policy(batch, merged=merged)
    with pytest.raises(UsageError, match="merge them again"):
        merged.backward()
    torch.testing.assert_close(policy(batch, merged=policy.merge()).logprobs, policy(batch).logprobs)


def test_weights_merged_for_a_pass_are_not_trained_by_mistake() -> None:
    policy, batch = adapted(), packed(5, 8)
    with torch.no_grad():
        merged = policy.merge()
        assert not policy(batch, merged=merged).logprobs.requires_grad
    with pytest.raises(UsageError, match="merged without gradients"):
        policy(batch, merged=merged)


@pytest.mark.parametrize("kept", [False, True])
def test_the_reference_is_merged_by_itself(kept: bool) -> None:
    policy, batch = adapted(), packed(5, 8)
    if kept:
        policy.keep_reference()
        with torch.no_grad():
            for p in policy.trained().values():
                p.mul_(1.5)
    before = policy.merge()
    assert before is not None
    now = policy(batch).logprobs.detach()
    with policy.reference():
        with pytest.raises(UsageError, match="merge them again"):
            policy(batch, merged=before)
        wanted = policy(batch).logprobs.detach()
        with torch.no_grad():
            torch.testing.assert_close(policy(batch, merged=policy.merge()).logprobs, wanted)
    assert (now - wanted).abs().max() > 1e-2
    torch.testing.assert_close(policy(batch, merged=policy.merge()).logprobs, now)


def test_where_all_weights_are_trained_there_is_nothing_to_merge() -> None:
    assert Policy(source(tiny("llama"))).merge() is None
