"""The packed policy against transformers, on the CPU in float32."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from subquest.engine.torch.loader import Source
from subquest.errors import DataError
from subquest.train.batch import Batch
from subquest.train.lora import LoraSettings, adapter_of, load_adapter_into, lora_layers, save_adapter
from subquest.train.loss import Layout
from subquest.train.operations import attend
from subquest.train.policy import Policy

SMALL = {"vocab_size": 61, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 128}  # fmt: skip


def tiny(family: str, **more: object) -> torch.nn.Module:
    torch.manual_seed(0)
    config = {"llama": transformers.LlamaConfig, "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config}[
        family
    ](**{**SMALL, "head_dim": 8, **more})
    return {
        "llama": transformers.LlamaForCausalLM,
        "qwen2": transformers.Qwen2ForCausalLM,
        "qwen3": transformers.Qwen3ForCausalLM,
    }[family](config).eval()


def source(model: torch.nn.Module) -> Source:
    return Source("tiny", model.config, model.state_dict(), None, ())


def packed(*lengths: int) -> Batch:
    """Random trajectories; every token but the first is an action."""
    generator = torch.Generator().manual_seed(7)
    total = sum(lengths)
    starts = torch.tensor([0, *lengths]).cumsum(0)[:-1]
    rows = torch.cat([torch.arange(s, s + n - 1) for s, n in zip(starts.tolist(), lengths, strict=True)])
    trajectory = torch.cat([torch.full((n - 1,), i) for i, n in enumerate(lengths)])
    layout = Layout(trajectory, trajectory, torch.zeros_like(trajectory))
    weights = layout.weights("token-mean")
    ids = torch.randint(0, 61, (total,), generator=generator)
    return Batch(ids, torch.tensor(lengths), rows, layout, torch.ones(rows.numel()), None, weights)


def expected(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Log-probs one trajectory at a time, by transformers."""
    out = []
    for ids in batch.token_ids.split(batch.lengths.tolist()):
        logits = model(ids[None]).logits[0, :-1].float()
        out.append(logits.log_softmax(-1).gather(1, ids[1:, None]).squeeze(1))
    return torch.cat(out)


@pytest.mark.parametrize(
    ("family", "more"),
    [
        ("llama", {}),
        ("llama", {"tie_word_embeddings": True}),
        ("llama", {"attention_bias": True}),
        ("qwen2", {}),
        ("qwen3", {}),
    ],
)
def test_packed_logprobs_equal_transformers(family: str, more: dict[str, object]) -> None:
    model = tiny(family, **more)
    batch = packed(5, 17, 2, 9)
    policy = Policy(source(model))
    torch.testing.assert_close(policy(batch).logprobs, expected(model, batch), atol=2e-5, rtol=1e-5)


def test_gradients_equal_transformers() -> None:
    model = tiny("llama", tie_word_embeddings=True)
    batch = packed(6, 11)
    policy = Policy(source(model))
    policy(batch).logprobs.sum().backward()
    expected(model, batch).sum().backward()
    grads = {name: p.grad for name, p in model.named_parameters()}
    for name, parameter in policy.named_parameters():
        torch.testing.assert_close(parameter.grad, grads[name], atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_attention_and_the_output_layer_stay_in_half_precision(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All weights trained, used in bfloat16: CUDA's autocast computes norms in float32, which a CPU's does not."""
    plain = torch.nn.functional.rms_norm

    def as_on_cuda(x: torch.Tensor, shape: list[int], weight: torch.Tensor, epsilon: float) -> torch.Tensor:
        return plain(x.float(), shape, weight.float(), epsilon)

    seen: list[set[torch.dtype]] = []

    def watched(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> torch.Tensor:
        seen.append({q.dtype, k.dtype, v.dtype})
        return attend(q, k, v, *rest)

    monkeypatch.setattr("torch.nn.functional.rms_norm", as_on_cuda)
    monkeypatch.setattr("subquest.train.policy.attend", watched)
    policy, batch = Policy(source(tiny(family)), dtype=torch.bfloat16), packed(5, 8)
    assert policy.hidden(batch).dtype == torch.bfloat16
    assert seen == [{torch.bfloat16}] * 2
    policy(batch).logprobs.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in policy.parameters())


def test_weights_that_do_not_fit_the_configuration_are_named() -> None:
    model = source(tiny("llama"))
    name = "model.layers.1.mlp.up_proj.weight"
    with pytest.raises(DataError, match=f"they have no {name}"):
        Policy(replace(model, state={n: t for n, t in model.state.items() if n != name}))
    with pytest.raises(DataError, match=rf"{name} with the shape \(3, 3\)"):
        Policy(replace(model, state={**model.state, name: torch.zeros(3, 3)}), lora=LoraSettings(2))


def test_checkpointing_changes_nothing() -> None:
    model, batch = tiny("llama"), packed(6, 11)
    plain, saving = Policy(source(model)), Policy(source(model), checkpointing=True)
    plain(batch).logprobs.sum().backward()
    saving(batch).logprobs.sum().backward()
    for a, b in zip(plain.parameters(), saving.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_trajectories_do_not_see_each_other() -> None:
    policy = Policy(source(tiny("llama")))
    batch = packed(5, 8)
    before = policy(batch).logprobs[4:]
    batch.token_ids[:5] = (batch.token_ids[:5] + 1) % 61
    torch.testing.assert_close(policy(batch).logprobs[4:], before)


def test_adapter_starts_as_the_base_and_can_be_switched_off() -> None:
    model, batch = tiny("llama"), packed(5, 8)
    policy = Policy(source(model), lora=LoraSettings(rank=4))
    base = expected(model, batch)
    torch.testing.assert_close(policy(batch).logprobs, base, atol=2e-5, rtol=1e-5)
    assert all("lora_" in name for name in policy.trained())
    with torch.no_grad():
        for name, p in policy.trained().items():
            if "lora_B" in name:
                p.normal_()
    assert (policy(batch).logprobs - base).abs().max() > 1e-2
    with policy.reference():
        torch.testing.assert_close(policy(batch).logprobs, base, atol=2e-5, rtol=1e-5)


def test_the_reference_is_the_adapter_that_training_started_from() -> None:
    model, batch = tiny("llama"), packed(5, 8)
    policy = Policy(source(model), lora=LoraSettings(rank=4))
    with torch.no_grad():
        for p in policy.trained().values():
            p.normal_(std=0.3)
    start = policy(batch).logprobs.detach()
    policy.keep_reference()
    with torch.no_grad():
        for p in policy.trained().values():
            p.add_(0.1)
    moved = policy(batch).logprobs.detach()
    with policy.reference():
        torch.testing.assert_close(policy(batch).logprobs, start)
    torch.testing.assert_close(policy(batch).logprobs, moved)
    assert (moved - start).abs().max() > 1e-2


def test_merged_and_thin_products_are_the_same_layer() -> None:
    policy, batch = Policy(source(tiny("qwen2")), lora=LoraSettings(rank=4)), packed(5, 8)
    with torch.no_grad():
        for p in policy.trained().values():
            p.normal_(std=0.1)
    results = []
    for merged in (True, False):
        for _, layer in lora_layers(policy):
            layer.merged = merged
        policy.zero_grad()
        logprobs = policy(batch).logprobs
        logprobs.sum().backward()
        results.append((logprobs.detach(), {n: p.grad.clone() for n, p in policy.trained().items()}))
    torch.testing.assert_close(results[0], results[1], atol=1e-4, rtol=1e-4)


def test_adapter_files_round_trip_and_merge(tmp_path: Path) -> None:
    model, batch, settings = tiny("qwen2"), packed(5, 8), LoraSettings(rank=4, alpha=8)
    policy = Policy(source(model), lora=settings)
    with torch.no_grad():
        for p in policy.trained().values():
            p.normal_(std=0.1)
    save_adapter(policy, settings, tmp_path, half=False)
    from safetensors.torch import load_file

    again = Policy(source(model), lora=settings)
    load_adapter_into(again, load_file(tmp_path / "adapter_model.safetensors"))
    torch.testing.assert_close(again(batch).logprobs, policy(batch).logprobs)
    # the same change merged into the base weights by hand
    state = dict(model.state_dict())
    adapter = adapter_of(policy)
    for name, (a, b) in adapter.pairs.items():
        state[f"{name}.weight"] = state[f"{name}.weight"] + adapter.scale * b @ a
    merged = Policy(Source("tiny", model.config, state, None, ()))
    torch.testing.assert_close(merged(batch).logprobs, policy(batch).logprobs, atol=1e-4, rtol=1e-4)


def test_the_last_layer_computes_the_rows_that_are_wanted() -> None:
    """The feed-forward block of the last layer, and its gradients, as if every row had gone through it."""
    batch = packed(9, 14, 5)
    policy = Policy(source(tiny("qwen2")))
    rows = torch.tensor([3, 8, 8, 20])
    seen: list[int] = []
    policy.model.layers[-1].mlp.register_forward_hook(lambda module, given, out: seen.append(len(out)))
    found = policy.hidden(batch, rows=rows)
    assert seen == [4]
    wanted = policy.hidden(batch)[rows]
    torch.testing.assert_close(found, wanted)
    slopes = torch.randn_like(found)
    mine, theirs = (
        torch.autograd.grad(x, list(policy.parameters())[:-1], slopes, allow_unused=True) for x in (found, wanted)
    )
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
