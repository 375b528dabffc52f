"""Weights and tokenizer from a model folder (safetensors), a GGUF file or a model in memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError, EngineRefused, UsageError
from ..adapter import read_gguf as read_gguf_adapter
from ..adapter import read_peft, shape_of
from ..adapter_base import check_base
from ..gguf_file import GgufFile, read_gguf_file
from .architecture import Architecture
from .gguf_tensors import values
from .gguf_tokenizer import tokenizer_of
from .weights import Adapter


@dataclass(frozen=True, slots=True)
class Source:
    """A loaded model: transformers configuration, parameters by their usual names, tokenizer."""

    name: str
    config: Any
    state: Mapping[str, Tensor]
    tokenizer: Any
    end_ids: tuple[int, ...]
    """Tokens that end a turn."""

    @property
    def architecture(self) -> Architecture:
        return Architecture.from_config(self.config)


def load(
    path: str | Path,
    *,
    weights: bool = True,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Source:
    """Load a folder with `config.json` and safetensors, or a `.gguf` file; without `weights` no parameters.

    Quantised weights are unpacked on `device`, in `dtype`. Safetensors stay in their files until they are copied.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        return _from_folder(path, weights)
    if not path.exists():
        raise DataError(f"no model at {path} (a folder with safetensors, or a GGUF file)")
    return _from_gguf(path, weights, device, dtype)


def memory_needed(path: Path, dtype: torch.dtype) -> int:
    """Bytes of memory that an engine on a CPU takes at least: quantised weights are unpacked, then copied."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.glob("*.safetensors"))
    return 2 * dtype.itemsize * sum(math.prod(tensor.shape) for tensor in read_gguf_file(path).tensors)


def from_model(model: Any, tokenizer: Any, *, name: str = "") -> Source:
    """A transformers model that is already in memory; the engine takes a fused copy of its weights."""
    config = model.config
    return Source(name or config.model_type, config, model.state_dict(), tokenizer, _end_ids(model, tokenizer))


def load_adapter(place: str | Path, base: Path | None = None) -> Adapter:
    """A LoRA adapter from PEFT's folder, or from a GGUF file for the model in `base`."""
    from safetensors.torch import load_file

    place = Path(place).expanduser()
    if place.is_dir() and base is not None:
        check_base(place, base)
    if place.is_dir() or base is None:
        lora = read_peft(place)  # refuses anything but plain LoRA
        return Adapter.from_state(load_file(place / "adapter_model.safetensors"), scale=lora.alpha / lora.rank)
    if not place.exists():
        raise UsageError(f"no such adapter: {place}")
    check_base(place, base)
    lora = read_gguf_adapter(place, shape_of(base))
    # llama.cpp divides alpha by each pair's own rank; an Adapter has one scale for all pairs
    pairs = {
        name: (torch.from_numpy(a), torch.from_numpy(b) * (lora.rank / len(a))) for name, (a, b) in lora.pairs.items()
    }
    return Adapter(pairs, lora.alpha / lora.rank)


def _from_folder(path: Path, weights: bool) -> Source:
    from safetensors import SafetensorError
    from safetensors.torch import load_file
    from transformers import AutoConfig, AutoTokenizer, GenerationConfig

    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise DataError(f"{path} holds no safetensors file")
    try:
        config = AutoConfig.from_pretrained(path)
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path} holds no whole model, which is config.json, tokenizer.json and safetensors: "
            + str(error).strip().partition("\n")[0]
        ) from None
    state: dict[str, Tensor] = {}
    for file in files if weights else ():
        try:
            state.update(load_file(file))
        except (OSError, SafetensorError) as error:
            raise DataError(f"{file} cannot be read: {error}") from None
    ends = (
        _as_ids(GenerationConfig.from_pretrained(path).eos_token_id)
        if (path / "generation_config.json").exists()
        else []
    )
    ends += _as_ids(getattr(config, "eos_token_id", None)) + _as_ids(tokenizer.eos_token_id)
    return Source(path.name, config, state, tokenizer, tuple(dict.fromkeys(ends)))


def _end_ids(model: Any, tokenizer: Any) -> tuple[int, ...]:
    ends = _as_ids(getattr(model.generation_config, "eos_token_id", None)) + _as_ids(tokenizer.eos_token_id)
    return tuple(dict.fromkeys(ends))


def _as_ids(value: Any) -> list[int]:
    if value is None:
        return []
    return [int(value)] if isinstance(value, int) else [int(v) for v in value]


_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm", "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
_TOP = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight"}  # fmt: skip


def _from_gguf(path: Path, weights: bool, device: torch.device | str, dtype: torch.dtype) -> Source:
    file = read_gguf_file(path)
    config, state = _model_of(file, device, dtype) if weights else (_gguf_config(file), {})
    tokenizer = tokenizer_of(file)
    return Source(path.stem, config, state, tokenizer, tuple(_as_ids(tokenizer.eos_token_id)))


def read_gguf(path: Path) -> tuple[Any, dict[str, Tensor]]:
    """Configuration and parameters of a GGUF file, under the names that transformers gives them, in fp32."""
    return _model_of(read_gguf_file(path))


def _model_of(
    file: GgufFile, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> tuple[Any, dict[str, Tensor]]:
    config = _gguf_config(file)
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    blocks = [re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", place.name) for place in file.tensors]
    for place, block in zip(file.tensors, blocks, strict=True):
        if place.name not in _TOP and (block is None or block[2] not in _NAMES):
            raise EngineRefused(f"{file.path} has a tensor {place.name} that no Llama, Qwen2 or Qwen3 model has")
    state: dict[str, Tensor] = {}
    unpacked = values(file, file.tensors, device=device, dtype=dtype)
    for place, block, tensor in zip(file.tensors, blocks, unpacked, strict=True):
        if block is None:
            state[_TOP[place.name]] = tensor
            continue
        if config.model_type == "llama" and block[2] in heads:
            tensor = _unpermute(tensor, heads[block[2]])
        state[f"model.layers.{block[1]}.{_NAMES[block[2]]}.{block[3]}"] = tensor
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    return config, state


def _unpermute(tensor: Tensor, heads: int) -> Tensor:
    """GGUF stores Llama's rotary channels interleaved in pairs; transformers stores the two halves one after the
    other."""
    rows = tensor.shape[0]
    return tensor.reshape(heads, rows // heads // 2, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)


def _gguf_config(file: GgufFile) -> Any:
    from transformers import LlamaConfig, Qwen2Config, Qwen3Config

    path = file.path

    def field(key: str, default: Any = None) -> Any:
        found = file.fields.get(key, default)
        if found is None:
            raise DataError(f"{path}: the GGUF metadata has no {key}")
        return found

    kind = field("general.architecture")
    if kind not in ("llama", "qwen2", "qwen3"):
        raise EngineRefused(f"{path} is a {kind} model; the torch engine knows llama, qwen2 and qwen3")
    if field(f"{kind}.rope.scaling.type", "none") not in ("none", "default"):
        raise EngineRefused(f"{path} uses rotary scaling, which is read only from model folders")
    names = {tensor.name for tensor in file.tensors}
    if "rope_freqs.weight" in names:
        raise EngineRefused(f"{path} has rotary factors of its own, which are read only from model folders")
    heads, width = int(field(f"{kind}.attention.head_count")), int(field(f"{kind}.embedding_length"))
    embedding = next((t for t in file.tensors if t.name == "token_embd.weight"), None)
    if embedding is None:
        raise DataError(f"{path} has no tensor token_embd.weight: it holds no whole model")
    configs = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
    return configs[kind](
        vocab_size=embedding.shape[0],
        hidden_size=width,
        intermediate_size=int(field(f"{kind}.feed_forward_length")),
        num_hidden_layers=int(field(f"{kind}.block_count")),
        num_attention_heads=heads,
        num_key_value_heads=int(field(f"{kind}.attention.head_count_kv", heads)),
        head_dim=int(field(f"{kind}.attention.key_length", width // heads)),
        max_position_embeddings=int(field(f"{kind}.context_length")),
        rms_norm_eps=float(field(f"{kind}.attention.layer_norm_rms_epsilon")),
        rope_parameters={"rope_type": "default", "rope_theta": float(field(f"{kind}.rope.freq_base", 10_000.0))},
        tie_word_embeddings="output.weight" not in names,
        bos_token_id=int(field("tokenizer.ggml.bos_token_id", -1)),
        eos_token_id=int(field("tokenizer.ggml.eos_token_id", -1)),
    )
