"""Wide matrices with their adapters beside them: the plain formula's losses and gradients, by fewer products."""

from typing import Any

import pytest
import torch

from subquest.errors import UsageError
from subquest.train.lora import lora_layers
from subquest.train.loss import sft_loss
from subquest.train.merged_weights import Products
from subquest.train.optimiser import Optimiser
from subquest.train.policy import Policy
from subquest.train.recipe import OptimiserPart

from .test_merged_weights import LENGTHS, Counting, adapted, in_micro_batches, plainly
from .test_policy import packed

torch.set_num_threads(1)


def wide(family: str = "llama", **settings: Any) -> Policy:
    """A tiny policy whose matrices count as wide, except for the keys' and values', as in a model of 1.5B."""
    policy = adapted(family, **settings)
    for name, layer in lora_layers(policy):
        layer.merged = name.endswith(("k_proj", "v_proj"))
    return policy


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3"])
def test_losses_and_gradients_are_those_of_the_plain_formula(family: str, checkpointing: bool) -> None:
    policy, batch = wide(family, checkpointing=checkpointing), packed(*LENGTHS)
    wanted = plainly(policy, batch)
    merged = policy.merge()
    assert merged is not None
    found = in_micro_batches(policy, batch, merged)
    assert max(float(g.abs().max()) for g in wanted[1].values()) > 1e-3
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_layer_takes_two_products_forth_for_each_input() -> None:
    """One thin product and one wide one for each of a layer's four inputs, instead of fourteen products."""
    policy, part = wide(), packed(6)
    merged = policy.merge()
    assert merged is not None
    with torch.no_grad(), Counting() as counted:
        policy(part, merged=merged)
    layers = policy.architecture.layers
    output = 1
    assert counted.times["aten::mm"] + counted.times["aten::mm.out"] == 8 * layers + output
    assert not counted.times["aten::addmm"]


MOVED = ("aten::copy_", "aten::clone", "aten::cat", "aten::contiguous", "aten::_to_copy")
"""Operations that only put numbers somewhere else."""


@pytest.mark.parametrize("field", Products._fields)
@pytest.mark.parametrize("room", [True, False])
def test_what_leaves_room_for_the_thin_product_is_not_copied(field: str, room: bool) -> None:
    """Forth and back. Without room the input and its thin product are put together, once."""
    policy = wide("qwen2")
    merged = policy.merge()
    assert merged is not None
    product = getattr(merged.products()[1], field)
    layers = product._layers
    thin = [matrix for layer in layers for matrix in (layer.lora_A, layer.lora_B)]
    width = layers[0].base.in_features
    assert product.columns > width
    values = torch.randn(7, width)
    x = torch.full((7, product.columns if room else width), torch.nan)[:, :width]
    x.copy_(values)
    x = x.detach().requires_grad_()
    with Counting() as counted:
        y = product(x)
        slope = torch.randn_like(y)
        found = torch.autograd.grad(y, [x, *thin], slope)
    assert sum(counted.times[name] for name in MOVED) == (0 if room else 1)
    assert counted.times["aten::addmm_"] == 1
    torch.testing.assert_close(x.detach(), values, rtol=0, atol=0)
    for layer in layers:
        layer.merged = False
    plain = values.clone().requires_grad_()
    wanted_y = torch.cat([layer(plain) for layer in layers], 1)
    wanted = torch.autograd.grad(wanted_y, [plain, *thin], slope)
    torch.testing.assert_close(y, wanted_y, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_wide_matrices_are_recognised_by_their_shorter_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """A whole step of a policy that is wide by itself; weights that changed since are refused."""
    monkeypatch.setattr("subquest.train.lora.MERGED_UP_TO", 8)
    policy, batch = adapted(), packed(*LENGTHS)
    assert not any(layer.merged for _, layer in lora_layers(policy))
    before = policy.merge()
    assert before is not None
    Optimiser(policy, OptimiserPart(micro_tokens=24), 10).sft_step(batch)
    with pytest.raises(UsageError, match="merge them again"):
        policy(batch, merged=before)


def test_weights_are_kept_once_and_may_be_moved() -> None:
    """The base weights live in the products' storage, which a second time does not copy; a move is noticed."""
    policy, batch = wide("qwen2"), packed(*LENGTHS)
    wanted = policy(batch).logprobs.detach()
    policy.merge()
    held = {name: p.untyped_storage().data_ptr() for name, p in policy.named_parameters() if "proj.base.weight" in name}
    assert len(set(held.values())) == 4, "one storage for each of the four products, all layers together"
    with torch.no_grad(), Counting() as counted:
        merged = policy.merge()
    assert counted.times["aten::copy_"] == 2 * 7, "thin matrices alone, all layers at once"
    again = {name: p.untyped_storage().data_ptr() for name, p in policy.named_parameters() if name in held}
    assert again == held
    with torch.no_grad():
        torch.testing.assert_close(policy(batch, merged=merged).logprobs, wanted, rtol=1e-4, atol=1e-5)
        for name, layer in lora_layers(policy):
            if name.endswith("down_proj"):
                layer.base.weight.data = 2 * layer.base.weight.data
            if layer.base.bias is not None:
                layer.base.bias += 1
        found = policy(batch, merged=policy.merge()).logprobs
        torch.testing.assert_close(found, policy(batch).logprobs, rtol=1e-4, atol=1e-5)
    assert (found - wanted).abs().max() > 1e-2


def test_without_the_adapter_it_is_the_base_model() -> None:
    policy, batch = wide(), packed(*LENGTHS)
    for _, layer in lora_layers(policy):
        layer.enabled = False
    merged = policy.merge()
    assert merged is not None
    with torch.no_grad():
        found, wanted = policy(batch, merged=merged).logprobs, policy(batch).logprobs
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_gradients_add_up_in_float32() -> None:
    policy, batch = wide(dtype=torch.bfloat16), packed(*LENGTHS)
    merged = policy.merge()
    assert merged is not None
    sft_loss(policy(batch, merged=merged).logprobs, batch.weights).backward()  # type: ignore[no-untyped-call]
    assert {p.grad.dtype for p in policy.trained().values() if p.grad is not None} == {torch.float32}


def test_bfloat16_is_at_least_as_exact_as_one_product_after_the_other() -> None:
    """Against the same rounded weights in float32: the output is rounded once instead of twice."""
    batch = packed(*LENGTHS)
    policy = wide(dtype=torch.bfloat16)
    exact = wide()
    for mine, theirs in zip(exact.parameters(), policy.parameters(), strict=True):
        mine.data.copy_(theirs)
    with torch.no_grad():
        wanted = exact(batch).logprobs
        apart = float((policy(batch).logprobs - wanted).abs().mean())
        together = float((policy(batch, merged=policy.merge()).logprobs - wanted).abs().mean())
    assert together < 1.2 * apart
