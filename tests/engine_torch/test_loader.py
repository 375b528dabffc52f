"""GGUF files, written here as llama.cpp's converter writes them, read back into the model they came from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from subquest.engine.torch.architecture import Architecture
from subquest.engine.torch.loader import read_gguf
from subquest.errors import DataError, EngineRefused

from .conftest import FAMILIES, tiny_model

gguf = pytest.importorskip("gguf")

PARTS = {
    "input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm", "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "embed_tokens": "token_embd", "norm": "output_norm",
}  # fmt: skip


def write_gguf(path: Path, model: Any, *, extra: str = "") -> None:
    config, kind = model.config, model.config.model_type
    writer = gguf.GGUFWriter(path, kind)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight":
            if not config.tie_word_embeddings:
                writer.add_tensor("output.weight", tensor.numpy())
            continue
        stem, _, end = name.removeprefix("model.").rpartition(".")
        prefix = ""
        if stem.startswith("layers."):
            _, number, stem = stem.split(".", 2)
            prefix = f"blk.{number}."
        values = tensor.numpy()
        if kind == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):  # pairs of channels interleaved
            heads = config.num_attention_heads if "q_proj" in stem else config.num_key_value_heads
            halves = values.reshape(heads, 2, -1, *values.shape[1:])
            values = halves.swapaxes(1, 2).reshape(values.shape)
        writer.add_tensor(f"{prefix}{PARTS[stem]}.{end}", np.ascontiguousarray(values))
    if extra:
        writer.add_tensor(extra, np.zeros(4, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.parametrize("family", FAMILIES)
def test_gguf_files_give_the_model_back(family: str, tmp_path: Path) -> None:
    model = tiny_model(family)
    write_gguf(tmp_path / "model.gguf", model)
    config, state = read_gguf(tmp_path / "model.gguf")
    assert set(state) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(state[name], tensor, atol=0, rtol=0)
    found, wanted = Architecture.from_config(config), Architecture.from_config(model.config)
    assert found.epsilon == pytest.approx(wanted.epsilon)
    assert found.frequencies == pytest.approx(wanted.frequencies)
    assert (found.family, found.heads, found.kv_heads, found.head_size, found.tied, found.vocabulary) == (
        wanted.family, wanted.heads, wanted.kv_heads, wanted.head_size, wanted.tied, wanted.vocabulary,
    )  # fmt: skip


def test_what_a_gguf_file_must_not_hold(tmp_path: Path) -> None:
    write_gguf(tmp_path / "odd.gguf", tiny_model(), extra="blk.0.ffn_gate_exps.weight")
    with pytest.raises(EngineRefused, match="ffn_gate_exps"):
        read_gguf(tmp_path / "odd.gguf")
    write_gguf(tmp_path / "rope.gguf", tiny_model(), extra="rope_freqs.weight")
    with pytest.raises(EngineRefused, match="rotary factors"):
        read_gguf(tmp_path / "rope.gguf")
    writer = gguf.GGUFWriter(tmp_path / "empty.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises((DataError, EngineRefused), match="metadata has no"):
        read_gguf(tmp_path / "empty.gguf")
