"""Models in well-known shapes with random weights: speed does not depend on a weight's value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from subquest.engine.torch import Source

_WINDOW = 8192
SHAPES: dict[str, tuple[str, int, int, int, int, int, int, bool]] = {
    # family, vocabulary, width, inner, layers, heads, key-value heads, tied
    "tiny": ("llama", 49_152, 64, 128, 2, 4, 2, True),
    "135m": ("llama", 49_152, 576, 1536, 30, 9, 3, True),
    "0.5b": ("qwen2", 151_936, 896, 4864, 24, 14, 2, True),
    "1.5b": ("qwen2", 151_936, 1536, 8960, 28, 12, 2, True),
    "3b": ("qwen2", 151_936, 2048, 11_008, 36, 16, 2, True),
    "7b": ("qwen2", 152_064, 3584, 18_944, 28, 28, 4, False),
}
"""SmolLM2's and Qwen2.5's sizes; `tiny` is for trying things on a CPU."""


def fields(shape: str) -> dict[str, Any]:
    """A shape as the fields of a transformers configuration."""
    _, vocabulary, width, inner, layers, heads, kv_heads, tied = SHAPES[shape]
    return {
        "vocab_size": vocabulary, "hidden_size": width, "intermediate_size": inner, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "max_position_embeddings": _WINDOW,
        "rms_norm_eps": 1e-6, "tie_word_embeddings": tied,
    }  # fmt: skip


def _classes(shape: str, **more: Any) -> tuple[Any, Any]:
    """The configuration of a shape, and the class of its model."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

    classes = {"llama": (LlamaConfig, LlamaForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
    config_class, model_class = classes[SHAPES[shape][0]]
    rotary = {"rope_type": "default", "rope_theta": 1e6}
    return config_class(**{**fields(shape), "rope_parameters": rotary, **more}), model_class


def random_source(shape: str, tokenizer: Any, device: torch.device, dtype: torch.dtype, **more: Any) -> Source:
    """A model in memory; `more` are further fields of its configuration."""
    config, model_class = _classes(shape, **more)
    torch.manual_seed(0)
    usual = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            state = model_class(config).state_dict()
    finally:
        torch.set_default_dtype(usual)
    return Source(f"random-{shape}", config, state, tokenizer, ())


class _Made(Mapping[str, torch.Tensor]):
    """Parameters that are made when they are asked for, so that no copy is held beside those in use."""

    def __init__(self, shapes: Mapping[str, torch.Size], device: torch.device, dtype: torch.dtype) -> None:
        self._shapes, self._device, self._dtype = shapes, device, dtype

    def __getitem__(self, name: str) -> torch.Tensor:
        return torch.empty(self._shapes[name], device=self._device, dtype=self._dtype).normal_(0.0, 0.02)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)


def lazy_source(shape: str, tokenizer: Any, device: torch.device, dtype: torch.dtype) -> Source:
    """A model whose random weights take no memory until they are used."""
    config, model_class = _classes(shape)
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in model_class(config).state_dict().items()}
    return Source(f"random-{shape}", config, _Made(shapes, device, dtype), tokenizer, ())


def write_folder(shape: str, folder: Path) -> None:
    """A model folder without weights, for programs that can fill them in by themselves."""
    family = SHAPES[shape][0]
    name = {"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}[family]
    more = {"architectures": [name], "model_type": family, "hidden_act": "silu", "torch_dtype": "bfloat16"}
    text = json.dumps({**fields(shape), **more, "rope_theta": 1e6})
    (folder / "config.json").write_text(text, encoding="utf-8")
