"""MiniLM by torch, where onnxruntime is not installed: the same vectors, up to the other's 8 bits."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from subquest.errors import DataError, UsageError
from subquest.retrieval import Index, encoder, minilm
from subquest.retrieval.encoder import EncoderSpec, MiniLM, TorchMiniLM, open_encoder

from .library import LIBRARY

pytest.importorskip("transformers", reason="the train extra is not installed")

TEXTS = ["", "Bridges", *(f"{d.title}\n{d.text}" for d in LIBRARY)]


@pytest.fixture(autouse=True)
def _weights() -> None:
    try:
        minilm.weights()
    except UsageError as reason:
        pytest.skip(str(reason))


def without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder, "_there", lambda *modules: "onnxruntime" not in modules)


@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="the dense extra is not installed")
def test_the_two_agree() -> None:
    spec = EncoderSpec()
    found, known = TorchMiniLM(spec).encode(TEXTS, query=False), MiniLM(spec).encode(TEXTS, query=False)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-3)
    assert ((found * known).sum(1) > 0.98).all()


def test_an_index_is_embedded_and_searched_without_onnxruntime(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_onnxruntime(monkeypatch)
    assert isinstance(open_encoder(EncoderSpec()), TorchMiniLM)
    with Index.build(tmp_path / "i.sq", LIBRARY) as index:
        assert index.embed("minilm") == len(LIBRARY)
    with Index.open(tmp_path / "i.sq") as index:
        (hits,) = index.search_many(["an engineer called Mira Tolland"], 1, mode="dense")
    assert hits[0].document.id == "tolland"


def a_copy(folder: Path, dtype: str, *, times: float = 1.0) -> Path:
    """The weights in another precision, as another program would have written them."""
    source = minilm.weights()
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(source / name, folder / name)
    parts, header, at = [], {}, 0
    for name, tensor in reversed(minilm.read_safetensors(source / "model.safetensors").items()):
        raw = (tensor * np.float32(times)).astype(dtype).tobytes()
        kind = {"float16": "F16", "float32": "F32"}[dtype]
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": [at, at + len(raw)]}
        parts.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
    return folder


def test_a_copy_in_half_precision_serves_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    known = TorchMiniLM(EncoderSpec()).encode(TEXTS, query=False)
    half = a_copy(tmp_path / "half", "float16")
    assert (half / "model.safetensors").stat().st_size < 46_000_000
    monkeypatch.setenv("SUBQUEST_MINILM", str(half))
    assert minilm.weights() == half
    found = TorchMiniLM(EncoderSpec()).encode(TEXTS, query=False)
    assert ((found * known).sum(1) > 0.99999).all()
    read = minilm.read_safetensors(half / "model.safetensors")["embeddings.word_embeddings.weight"]
    assert read.dtype == np.float32
    assert read.shape == (30522, 384)


def test_what_only_looks_like_the_model_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUBQUEST_MINILM", str(a_copy(tmp_path / "tuned", "float32", times=1.01)))
    with pytest.raises(DataError, match="not those of all-MiniLM-L6-v2"):
        TorchMiniLM(EncoderSpec())
    weights = tmp_path / "tuned" / "model.safetensors"
    for cut in (30_000_000, 100):
        weights.write_bytes(weights.read_bytes()[:cut])
        with pytest.raises(DataError, match="not a whole safetensors file"):
            minilm.weights()
    weights.unlink()
    with pytest.raises(UsageError, match=r"holds no model\.safetensors: point it at"):
        minilm.weights()


def test_onnxruntime_without_the_converter_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUBQUEST_MINILM", str(minilm.weights()))
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    monkeypatch.setattr(encoder, "_there", lambda *modules: True)
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "onnx" else find(name, *rest))
    assert isinstance(open_encoder(EncoderSpec()), TorchMiniLM)
