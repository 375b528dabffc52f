from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig

from subquest.engine.interface import Message, Sampling
from subquest.engine.torch import Adapter, TorchEngine, load, load_adapter
from subquest.engine.torch import reference_operations as reference
from subquest.engine.torch.architecture import Architecture
from subquest.engine.torch.model import operations
from subquest.engine.torch.weights import Weights
from subquest.errors import DataError, UsageError

from .conftest import FAMILIES, byte_tokenizer, greedy, tiny_model

Make = Callable[..., TorchEngine]
ADAPTED = ("self_attn.q_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj")


def random_adapter(model: Any, seed: int = 0, rank: int = 4) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, torch.Tensor] = {}
    for name, module in model.named_modules():
        if name.endswith(ADAPTED):
            rows, columns = module.weight.shape
            state[f"base_model.model.{name}.lora_A.weight"] = torch.randn(rank, columns, generator=generator) * 0.2
            state[f"base_model.model.{name}.lora_B.weight"] = torch.randn(rows, rank, generator=generator) * 0.2
    return state


def merged_by_hand(model: Any, state: dict[str, torch.Tensor], scale: float) -> Any:
    merged = tiny_model(model.config.model_type)
    merged.load_state_dict(model.state_dict())
    with torch.no_grad():
        for name, module in merged.named_modules():
            a = state.get(f"base_model.model.{name}.lora_A.weight")
            if a is not None:
                module.weight += scale * state[f"base_model.model.{name}.lora_B.weight"] @ a
    return merged


@pytest.mark.parametrize("merged", [True, False])
async def test_adapters(merged: bool, make_engine: Make) -> None:
    """On, replaced by another in place, off again."""
    model = tiny_model("qwen2")
    engine = make_engine(model)

    async def first_tokens() -> tuple[list[int], list[int]]:
        session = await engine.open([Message("user", "What now?")])
        turn = await session.generate(Sampling(max_tokens=16))
        return [i for s in session.segments[:-1] for i in s.token_ids], list(turn.token_ids)

    seen = []
    for seed in (1, 2):
        state = random_adapter(model, seed)
        engine.refresh(adapter=Adapter.from_state(state, scale=2.0), merged=merged)
        prompt, ids = await first_tokens()
        assert ids == greedy(merged_by_hand(model, state, 2.0), prompt, 16)
        seen.append(ids)
    engine.refresh(model.state_dict())
    prompt, ids = await first_tokens()
    assert ids == greedy(model, prompt, 16)
    assert ids not in seen


def test_adapter_files(tmp_path: Path) -> None:
    state = random_adapter(tiny_model())
    save_file(state, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 12}))
    adapter = load_adapter(tmp_path)
    assert adapter.scale == 3.0
    assert len(adapter.pairs) == 3 * len(ADAPTED)
    with pytest.raises(DataError, match="is not a LoRA adapter in PEFT's format"):
        load_adapter(tmp_path / "nowhere")
    with pytest.raises(DataError, match="lora"):
        Adapter.from_state({"x": torch.zeros(1)}, scale=1.0)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 12, "use_dora": True}))
    with pytest.raises(DataError, match="use_dora"):  # it would be computed wrongly
        load_adapter(tmp_path)
    save_file(
        state | {"base_model.model.lm_head.lora_magnitude": torch.zeros(1)}, tmp_path / "adapter_model.safetensors"
    )
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 4, "lora_alpha": 12}))
    with pytest.raises(DataError, match="lm_head"):
        load_adapter(tmp_path)


async def test_an_adapter_of_another_model_is_refused(make_engine: Make) -> None:
    engine = make_engine(tiny_model())
    other = random_adapter(tiny_model(hidden_size=96))
    with pytest.raises(DataError, match=r"the adapter is of another model: it changes model\.layers\.0"):
        engine.refresh(adapter=Adapter.from_state(other, scale=1.0))
    session = await engine.open([Message("user", "Still there?")])
    assert (await session.generate(Sampling(max_tokens=2))).token_ids


@pytest.mark.parametrize("family", FAMILIES)
async def test_model_folders(family: str, tmp_path: Path) -> None:
    """Weights in several files, as large models have them."""
    model = tiny_model(family)
    model.generation_config.eos_token_id = [257, 3]
    model.save_pretrained(tmp_path, max_shard_size="40KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    byte_tokenizer().save_pretrained(tmp_path)
    source = load(tmp_path)
    assert set(source.end_ids) == {257, 3}
    engine = TorchEngine(source, cache_tokens=512, dtype=torch.float32, device=torch.device("cpu"))
    session = await engine.open([Message("user", "hello")])
    turn = await session.generate(Sampling(max_tokens=8))
    await engine.close()
    ids = [i for s in session.segments[:-1] for i in s.token_ids]
    expected = greedy(model, ids, 8)
    assert list(turn.token_ids) == expected[: len(turn.token_ids)]


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no model at"):
        load(tmp_path / "nothing.gguf")
    with pytest.raises(DataError, match="no safetensors"):
        load(tmp_path)
    file = tmp_path / "broken.gguf"
    file.write_bytes(b"not a model at all")
    with pytest.raises(DataError, match="is not a GGUF file"):
        load(file)
    tiny_model().save_pretrained(tmp_path / "cut")
    byte_tokenizer().save_pretrained(tmp_path / "cut")
    (tmp_path / "cut" / "model.safetensors").write_bytes(b"half")
    with pytest.raises(DataError, match=r"model\.safetensors cannot be read"):
        load(tmp_path / "cut")
    config = tiny_model().config
    config.quantization_config = {"quant_method": "fp8"}
    with pytest.raises(UsageError, match="this model's are quantised"):
        Architecture.from_config(config)
    config = tiny_model().config
    config.model_type = "gpt2"
    with pytest.raises(UsageError, match="knows llama, qwen2, qwen3"):
        Architecture.from_config(config)


def test_heads_that_cannot_be_computed_say_why() -> None:
    config = tiny_model().config
    config.head_dim = 7
    with pytest.raises(UsageError, match="even number of channels, this model's have 7"):
        Architecture.from_config(config)
    config.head_dim, config.num_key_value_heads = 8, 4
    with pytest.raises(UsageError, match="6 query heads cannot share 4"):
        Architecture.from_config(config)
    huge = Architecture.from_config(LlamaConfig(head_dim=512))
    with pytest.raises(UsageError, match=r"heads of 256 channels, this model's have 512: use device='cpu'"):
        operations(torch.device("cuda"), huge)
    assert operations(torch.device("cpu"), huge) is reference


def test_wrong_shapes_and_names_are_refused() -> None:
    model = tiny_model()
    weights = Weights(Architecture.from_config(model.config), dtype=torch.float32, device=torch.device("cpu"))
    state = dict(model.state_dict())
    state["model.norm.weight"] = torch.zeros(3)
    with pytest.raises(DataError, match=r"model\.norm\.weight has shape"):
        weights.load(state)
    del state["model.norm.weight"]
    with pytest.raises(DataError, match=r"no parameter model\.norm\.weight"):
        weights.load(state)
    with pytest.raises(UsageError, match="cannot share weights"):
        weights.share(tiny_model().half())
