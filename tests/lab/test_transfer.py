"""What is copied between machines: pieces of limited size, in the order of their worth."""

import json
import lzma
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transfer import pack, unpack


def write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def result(units: dict[str, int], stamp: str = "a") -> bytes:
    return lzma.compress(json.dumps({"stamp": stamp, "units": units}).encode())


def units_of(place: Path) -> dict[str, int]:
    return json.loads(lzma.decompress(place.read_bytes()))["units"]


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    write(tmp_path / "results" / "rag@none.json.xz", result({"world-1": 1}))
    write(tmp_path / "results" / "episodes" / "rag@none.jsonl", b'{"id": 1}\n')
    write(tmp_path / "runs" / "peco-1" / "adapter" / "adapter_model.safetensors", bytes(range(256)) * 200)
    write(tmp_path / "runs" / "decor-2" / "checkpoints" / "step-000004" / "state.json", b"{}" * 20_000)
    folders = [(f"{name}", tmp_path / "runs" / name) for name in ("peco-1/adapter", "decor-2/checkpoints/step-000004")]
    assert pack(tmp_path / "out", tmp_path / "results", folders, size=20_000) > 3
    return tmp_path / "out"


def test_everything_comes_back(packed: Path, tmp_path: Path) -> None:
    assert all(file.stat().st_size <= 20_000 for file in packed.iterdir())
    assert unpack(packed, tmp_path / "there" / "results", tmp_path / "there" / "runs") == 4
    for name in ("results/rag@none.json.xz", "results/episodes/rag@none.jsonl"):
        assert (tmp_path / "there" / name).read_bytes() == (tmp_path / name).read_bytes()
    for file in (f for f in (tmp_path / "runs").rglob("*") if f.is_file()):
        assert (tmp_path / "there" / file.relative_to(tmp_path)).read_bytes() == file.read_bytes()


def test_the_first_pieces_are_useful_without_the_last(packed: Path, tmp_path: Path) -> None:
    for piece in sorted(packed.iterdir())[2:]:
        piece.unlink()
    assert unpack(packed, tmp_path / "there" / "results", tmp_path / "there" / "runs") == 2
    assert units_of(tmp_path / "there" / "results" / "rag@none.json.xz") == {"world-1": 1}
    assert not (tmp_path / "there" / "runs").exists()


def test_results_of_the_same_measurement_are_put_together(packed: Path, tmp_path: Path) -> None:
    there = tmp_path / "there"
    write(there / "rag@none.json.xz", result({"world-2": 2}))
    unpack(packed, there, tmp_path / "runs-there")
    assert units_of(there / "rag@none.json.xz") == {"world-1": 1, "world-2": 2}
    write(there / "rag@none.json.xz", result({"world-2": 2}, stamp="of other weights"))
    unpack(packed, there, tmp_path / "runs-there")
    assert units_of(there / "rag@none.json.xz") == {"world-1": 1}


def test_a_checkpoint_takes_half_the_room(tmp_path: Path) -> None:
    shard = tmp_path / "runs" / "peco-1" / "checkpoints" / "step-000004" / "shard-000.safetensors"
    shard.parent.mkdir(parents=True)
    tensors = {"weight/a": torch.linspace(-1, 1, 4096), "exp_avg_sq/a": torch.logspace(-12, -3, 4096)}
    save_file(tensors, shard)
    pack(tmp_path / "out", tmp_path / "results", [("peco-1/checkpoints/step-000004", shard.parent)])
    assert sum(f.stat().st_size for f in (tmp_path / "out").iterdir()) < 0.75 * shard.stat().st_size
    unpack(tmp_path / "out", tmp_path / "results", tmp_path / "there")
    found = load_file(tmp_path / "there" / shard.relative_to(tmp_path / "runs"))
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name].float(), tensor, rtol=2**-8, atol=0)
