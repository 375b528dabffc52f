"""The reader of GGUF files and the unpacking of tensors, against the package `gguf`, bit for bit."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from subquest.engine.gguf_file import read_gguf_file
from subquest.engine.torch.gguf_tensors import values
from subquest.engine.torch.gguf_tokenizer import SPLITS, by_transformers, byte_level, tokenizer_of
from subquest.engine.torch.loader import load, read_gguf
from subquest.errors import DataError, EngineRefused
from subquest.models import smollm2_path

gguf = pytest.importorskip("gguf")

KINDS = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")


def written(path: Path, kinds: tuple[str, ...] = KINDS) -> Path:
    """A file with one tensor of each kind: wide and narrow ranges, a row of zeros."""
    numbers = np.random.default_rng(5)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_string("note", "Zoë")
    writer.add_array("few", [1, -2, 3])
    writer.add_array("words", ["a", "", "ß"])
    writer.add_bool("yes", True)
    writer.add_float32("third", 1 / 3)
    for kind in kinds:
        rows = (numbers.normal(size=(6, 96)) * np.logspace(-4, 3, 6)[:, None]).astype(np.float32)
        rows[2] = 0
        packed = gguf.quantize(rows, gguf.GGMLQuantizationType[kind])
        writer.add_tensor(kind, packed, raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_metadata_and_tensors_are_those_that_gguf_reads(tmp_path: Path) -> None:
    file = read_gguf_file(written(tmp_path / "all.gguf"))
    reader = gguf.GGUFReader(file.path)
    wanted = {name: field.contents() for name, field in reader.fields.items() if not name.startswith("GGUF.")}
    assert file.fields == wanted
    assert [place.name for place in file.tensors] == list(KINDS)
    for found, entry in zip(values(file, file.tensors), reader.tensors, strict=True):
        expected = gguf.dequantize(entry.data, entry.tensor_type)
        assert found.dtype == torch.float32
        assert found.shape == (6, 96)
        assert found.numpy().tobytes() == np.ascontiguousarray(expected, np.float32).tobytes(), entry.name
    whole, threads = values(file, file.tensors), torch.get_num_threads()
    for found, half in zip(whole, values(file, file.tensors, dtype=torch.bfloat16), strict=True):
        assert torch.equal(found.bfloat16(), half)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("rows", [3, 700])
@pytest.mark.parametrize("kind", ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"])
def test_k_quants_have_the_bits_of_gguf(kind: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual ones without its help."""
    number = gguf.GGMLQuantizationType[kind]
    block, size = gguf.GGML_QUANT_SIZES[number]
    raw = np.random.default_rng(3).integers(0, 256, (rows, 2 * size), dtype=np.uint8)
    halves = {"Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "Q3_K": (108,), "Q2_K": (80, 82)}[kind]
    for start in (0, size):
        for at in halves:
            raw[:, start + at + 1] &= 0xBB  # numbers that are finite
    writer = gguf.GGUFWriter(tmp_path / "k.gguf", "llama")
    writer.add_tensor("t", raw, raw_dtype=number)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf_file(tmp_path / "k.gguf")
    expected = gguf.dequantize(raw, number)
    if kind in ("Q4_K", "Q5_K", "Q6_K"):
        monkeypatch.setitem(sys.modules, "gguf", None)
    (found,) = values(file, file.tensors)
    assert found.shape == (rows, 2 * block)
    assert found.numpy().tobytes() == np.ascontiguousarray(expected).tobytes()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    whole = written(tmp_path / "all.gguf").read_bytes()
    broken = tmp_path / "broken.gguf"
    for size in (0, 3, 20, 60, 150, 400):
        broken.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"broken\.gguf"):
            read_gguf_file(broken)
    broken.write_bytes(whole[:4] + b"\x01\0\0\0" + whole[8:])
    with pytest.raises(DataError, match="version 1"):
        read_gguf_file(broken)
    broken.write_bytes(b"PK\x03\x04" + whole[4:])
    with pytest.raises(DataError, match="is not a GGUF file"):
        read_gguf_file(broken)
    broken.write_bytes(whole[:-40])
    file = read_gguf_file(broken)
    with pytest.raises(DataError, match="ends within the tensor Q8_0"):
        values(file, file.tensors)
    with pytest.raises(DataError, match="cannot read"):
        read_gguf_file(tmp_path / "absent.gguf")


def test_a_kind_that_nobody_unpacks(tmp_path: Path) -> None:
    path = written(tmp_path / "odd.gguf", ("Q8_0",))
    file = read_gguf_file(path)
    place = type(file.tensors[0])("t", (1, 256), 999, file.tensors[0].start)
    with pytest.raises(EngineRefused, match="quantisation of t"):
        values(file, [place])


def with_vocabulary(path: Path, cut: str) -> Path:
    """A byte-level vocabulary with merges, control tokens, a user-defined one and one outside the byte alphabet."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = ["Ġ t", "h e", "Ġt he", "1 2", "Ġ Ġ", "' s"]
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *letters]
    tokens += [merge.replace(" ", "") for merge in merges] + ["<think>", "日本"]
    kinds = [3, 3, 3] + [1] * (len(tokens) - 5) + [4, 1]
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(cut)
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template("{{ messages }}")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


TEXTS = ("the 12345 cat's  the\n\n the", "I'M <|im_end|> <think> 日本 é", "  12 \t x_y--\r\n  ", "")


NEW_CONVERSION = tuple(int(n) for n in transformers.__version__.split(".")[:2]) >= (5, 22)
"""transformers rewrote its conversion in 5.22; earlier ones mix up the special tokens of such files."""


def same_tokenizer(found: Any, wanted: Any) -> None:
    mine, theirs = (json.loads(t.backend_tokenizer.to_str()) for t in (found, wanted))
    for part in theirs:
        assert mine[part] == theirs[part], part
    for name in ("bos_token", "eos_token", "unk_token", "pad_token", "chat_template", "all_special_ids"):
        assert getattr(found, name) == getattr(wanted, name), name
    for text in TEXTS:
        assert found.encode(text) == wanted.encode(text)
        assert found.decode(found.encode(text)) == wanted.decode(wanted.encode(text))


@pytest.mark.parametrize("cut", sorted(SPLITS))
def test_tokenizers_are_those_of_transformers(cut: str, tmp_path: Path) -> None:
    if not NEW_CONVERSION:
        pytest.skip("transformers before 5.22 mixes up the special tokens of such files")
    path = with_vocabulary(tmp_path / "words.gguf", cut)
    same_tokenizer(tokenizer_of(read_gguf_file(path)), by_transformers(path))


def test_a_cut_that_is_not_known_is_left_to_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = with_vocabulary(tmp_path / "words.gguf", "tekken")
    monkeypatch.setattr("subquest.engine.torch.gguf_tokenizer.by_transformers", lambda file: ("theirs", file))
    assert tokenizer_of(read_gguf_file(path)) == ("theirs", path)


@pytest.mark.slow
@pytest.mark.embedded
def test_smollm2_is_read_bit_for_bit() -> None:
    """Every parameter against `gguf`'s own reading; the tokenizer against transformers'."""
    if not smollm2_path().exists():
        pytest.skip(f"the model file {smollm2_path()} is not here")
    source = load(smollm2_path())
    reader = gguf.GGUFReader(smollm2_path())
    plain = {
        "token_embd.weight": "model.embed_tokens.weight",
        "blk.7.ffn_down.weight": "model.layers.7.mlp.down_proj.weight",
        "blk.29.attn_v.weight": "model.layers.29.self_attn.v_proj.weight",
        "output_norm.weight": "model.norm.weight",
    }
    turned = {
        "blk.3.attn_q.weight": ("model.layers.3.self_attn.q_proj.weight", 9),
        "blk.3.attn_k.weight": ("model.layers.3.self_attn.k_proj.weight", 3),
    }
    for entry in reader.tensors:
        if entry.name in plain:
            expected = gguf.dequantize(entry.data, entry.tensor_type)
            assert np.array_equal(source.state[plain[entry.name]].numpy(), expected)
        if entry.name in turned:
            name, heads = turned[entry.name]
            expected = gguf.dequantize(entry.data, entry.tensor_type)
            found = source.state[name].numpy().reshape(heads, 2, 32, 576).swapaxes(1, 2).reshape(heads * 64, 576)
            assert np.array_equal(found, expected)
    assert len(source.state) == len(reader.tensors) + 1  # the output matrix is the embedding's
    assert source.end_ids == (2,)
    if NEW_CONVERSION:
        same_tokenizer(source.tokenizer, by_transformers(smollm2_path()))


def test_models_without_embeddings_are_refused(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "none.gguf", "llama")
    writer.add_head_count(4)
    writer.add_embedding_length(64)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(DataError, match="token_embd"):
        read_gguf(tmp_path / "none.gguf")


def test_merges_are_needed(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "few.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(["a"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(DataError, match=r"tokenizer\.ggml\.merges"):
        byte_level(read_gguf_file(tmp_path / "few.gguf"))
