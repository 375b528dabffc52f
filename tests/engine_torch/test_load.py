"""Torch engines by name: a folder, a GGUF file, and adapters in both forms."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from subquest import models
from subquest.assemble import EngineOptions, open_engine
from subquest.engine.adapter import Lora, Shape, write_gguf
from subquest.engine.adapter_base import base_digest
from subquest.engine.interface import Message, Sampling
from subquest.engine.torch.bare_engine import BareEngine
from subquest.engine.torch.engine import TorchEngine
from subquest.engine.torch.loader import load_adapter
from subquest.errors import UsageError
from subquest.models import KnownModel, ModelFile, default_adapter, file_digest, smollm2_path

from .conftest import byte_tokenizer, tiny_model

gguf = pytest.importorskip("gguf", reason="adapters as GGUF files need it")
QUESTION = [Message("user", "Answer with one word: which colour has the sky?")]


async def written(engine: TorchEngine | BareEngine) -> list[float]:
    session = await engine.open(QUESTION)
    generation = await session.generate(Sampling(max_tokens=6, temperature=0.0, logprobs=True))
    assert generation.logprobs is not None
    return list(generation.logprobs)


async def logprobs(engine: TorchEngine) -> list[float]:
    try:
        return await written(engine)
    finally:
        await engine.close()


@pytest.mark.parametrize("spec", ["torch:/nowhere", "torch:", "torch:/nowhere.gguf"])
def test_a_model_that_is_not_there_is_named(spec: str) -> None:
    with pytest.raises(UsageError, match=r"/nowhere|unknown model 'torch:'"):
        open_engine(spec)


def test_a_model_that_does_not_fit_into_memory_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix of 64 × 32 in fp32, unpacked and then copied."""
    writer = gguf.GGUFWriter(tmp_path / "tiny.gguf", "llama")
    writer.add_tensor("token_embd.weight", np.zeros((64, 32), np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    monkeypatch.setattr("subquest.models.memory.available_memory", lambda: 2 * 64 * 32 * 4 - 1)
    with pytest.raises(UsageError, match=r"tiny\.gguf needs .*of memory.*end other programs"):
        TorchEngine.load(tmp_path / "tiny.gguf", device="cpu")


def test_pairs_of_several_ranks_count_as_llama_cpp_counts_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pairs = {
        f"model.layers.0.mlp.{name}": tuple(rng.normal(size=s).astype(np.float32) for s in ((rank, 8), (6, rank)))
        for name, rank in (("gate_proj", 2), ("up_proj", 4))
    }
    lora = Lora(pairs, 8.0)  # type: ignore[arg-type]
    write_gguf(lora, tmp_path / "a.gguf", Shape("llama", 2, 1))
    config = {"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    adapter = load_adapter(tmp_path / "a.gguf", tmp_path)
    for name, (a, b) in adapter.pairs.items():
        np.testing.assert_allclose(adapter.scale * (b @ a).numpy(), lora.delta(name), rtol=1e-5)


async def test_a_known_model_runs_with_the_adapter_that_ships_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any name, and of no other model; an adapter of another model is refused before an engine starts."""
    monkeypatch.setenv("SUBQUEST_CACHE", str(tmp_path))
    monkeypatch.setattr(models, "ADAPTERS", tmp_path)
    model, folder = tiny_model(), tmp_path / "models" / "stand-in"
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    files = tuple(ModelFile(f.name, f.stat().st_size, file_digest(f), ()) for f in folder.iterdir())
    known = KnownModel("stand-in", "", "", files, context=512, folder="stand-in")
    monkeypatch.setitem(models.MODELS, "stand-in", known)
    rng = np.random.default_rng(0)
    pairs = {
        name: tuple(rng.normal(0, 0.2, s).astype(np.float32) for s in ((4, m.in_features), (m.out_features, 4)))
        for name, m in model.named_modules()
        if name.endswith("q_proj")
    }
    shape, shipped = Shape("llama", 6, 2), tmp_path / "stand-in-subquest.gguf"
    write_gguf(Lora(pairs, 8.0, "compact", base_digest(folder)), shipped, shape)  # type: ignore[arg-type]

    async def run(place: object, adapter: object = None) -> tuple[str, list[float]]:
        engine = open_engine(f"torch:{place}", EngineOptions(adapter=str(adapter) if adapter else None))
        assert isinstance(engine, TorchEngine)
        return engine.prompt_set, await logprobs(engine)

    with_it, without = await run("stand-in"), await run("stand-in", "none")
    assert (with_it[0], without[0]) == ("compact", "full")
    assert with_it[1][:3] != pytest.approx(without[1][:3], abs=1e-2)
    assert await run(folder, shipped) == with_it
    assert await run(folder) == without, "a folder that is named has no adapter of its own"
    other = tmp_path / "other.gguf"
    write_gguf(Lora(pairs, 8.0, "compact", "0" * 64), other, shape)  # type: ignore[arg-type]
    threads = set(threading.enumerate())
    with pytest.raises(UsageError, match="another model"):
        await run("stand-in", other)
    assert set(threading.enumerate()) <= threads


@pytest.mark.embedded
@pytest.mark.slow
async def test_both_forms_of_an_adapter_are_one(tmp_path: Path) -> None:
    from subquest.cli import main

    if not smollm2_path().is_file():
        pytest.skip("the embedded model is not on this machine")
    shipped = default_adapter()
    assert shipped is not None
    assert main(["model", "adapter", "convert", str(shipped), str(tmp_path / "peft")]) == 0
    torch.set_num_threads(1)
    results, bare = [], []
    for adapter in (None, str(tmp_path / "peft")):
        engine = open_engine("torch:smollm2", EngineOptions(adapter=adapter))
        assert isinstance(engine, TorchEngine)
        bare.append(await written(engine.without_adapter()))
        results.append(await logprobs(engine))
        del engine  # before the next one is loaded
    assert results[0] == pytest.approx(results[1], abs=2e-3)
    assert bare[0] == pytest.approx(bare[1], abs=1e-4)
    assert results[0][:3] != pytest.approx(bare[0][:3], abs=1e-2)
