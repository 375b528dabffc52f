"""Results and adapters are restored as they were packed, within the sizes that may be copied."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from safetensors.torch import save_file
from transfer import expand, pack, squeeze, unpack_adapters, unpack_results


def adapter(folder: Path, seed: int, *, moved: float = 0.0) -> Path:
    """LoRA matrices as a short training leaves them: those of the start, a little off."""
    base = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    noise = torch.randn(64, 256, generator=torch.Generator().manual_seed(seed))
    folder.mkdir(parents=True)
    save_file({"a.lora_A.weight": (base + moved * noise).to(torch.bfloat16)}, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps({"r": 16, "seed": seed}))
    return folder


def test_a_difference_is_smaller_and_comes_out_bit_for_bit(tmp_path: Path) -> None:
    start = adapter(tmp_path / "start", 0)
    trained = (adapter(tmp_path / "trained", 1, moved=0.01) / "adapter_model.safetensors").read_bytes()
    base = (start / "adapter_model.safetensors").read_bytes()
    packed = squeeze(trained, base)
    assert expand(packed, base) == trained
    assert len(packed) < 0.7 * len(trained)
    assert len(squeeze(trained, b"")) > len(packed)
    assert expand(squeeze(b"odd", b"longer"), b"longer") == b"odd"


def test_a_parcel_brings_adapters_and_results(tmp_path: Path) -> None:
    trained = {name: adapter(tmp_path / "runs" / name / "adapter", n, moved=0.01) for n, name in enumerate("xab")}
    results = tmp_path / "results"
    results.mkdir()
    (results / "coda@none.json.xz").write_bytes(b"scores")
    assert pack(tmp_path / "out", results, trained, "x") == []
    names = sorted(f.name for f in (tmp_path / "out").iterdir())
    assert names == ["claims-adapters-1.tar", "claims-results.tar", "claims-start.tar"]
    assert unpack_results(tmp_path / "out", tmp_path / "there") == 1
    assert (tmp_path / "there" / "coda@none.json.xz").read_bytes() == b"scores"
    assert unpack_adapters(tmp_path / "out", tmp_path / "bare") == ["x", "a", "b"]
    for name, place in trained.items():
        found = tmp_path / "bare" / name / "adapter"
        for file in ("adapter_model.safetensors", "adapter_config.json"):
            assert (found / file).read_bytes() == (place / file).read_bytes()
    assert unpack_adapters(tmp_path / "out", tmp_path / "bare") == []  # they are there


def test_older_results_do_not_replace_newer_ones(tmp_path: Path) -> None:
    results = tmp_path / "results"
    results.mkdir()
    file = results / "coda@none.json.xz"
    file.write_bytes(b"old")
    os.utime(file, (1_000_000, 1_000_000))
    pack(tmp_path / "out", results, {})
    file.write_bytes(b"new")
    assert unpack_results(tmp_path / "out", results) == 0
    assert file.read_bytes() == b"new"


def test_what_does_not_fit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = {name: adapter(tmp_path / "runs" / name, n, moved=0.01) for n, name in enumerate("xabc")}
    whole, some = ((trained[name] / "adapter_model.safetensors").read_bytes() for name in "xa")
    size = len(squeeze(some, whole))
    monkeypatch.setattr("transfer.FILE", int(1.5 * size))
    monkeypatch.setattr("transfer.FILES", 4)
    (tmp_path / "results").mkdir()
    assert pack(tmp_path / "out", tmp_path / "results", trained, "x") == ["c"]
    assert len(list((tmp_path / "out").iterdir())) == 4
    assert all(f.stat().st_size < len(whole) + 20_000 for f in (tmp_path / "out").iterdir())
