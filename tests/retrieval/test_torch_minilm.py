"""MiniLM by torch, where onnxruntime is not installed: the same vectors, up to the other's 8 bits."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from subquest.errors import UsageError
from subquest.retrieval import Index, encoder, minilm
from subquest.retrieval.encoder import EncoderSpec, MiniLM, TorchMiniLM, open_encoder

from .passages import LIBRARY

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
