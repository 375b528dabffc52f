"""`benchmarks/train_host.py` must keep running, and what it counts does not depend on the machine."""

import importlib.util
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "train_host.py"


def test_merged_updates_take_fewer_operations() -> None:
    spec = importlib.util.spec_from_file_location("benchmark_train_host", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    threads = torch.get_num_threads()
    try:
        found = module.main(["--device", "cpu", "--repeats", "1"])
    finally:
        torch.set_num_threads(threads)
    figures = found["figures"]
    assert figures["tokens"] == 6
    products = 3 * module.LAYERS  # of seven forward products a layer, four are left
    assert figures["pass, apart"]["operations"] - figures["pass, merged"]["operations"] > products
    assert figures["merging, once a step"]["operations"] < 50
    assert found["ratios"]["operations of a micro-batch's update, apart / merged"] == pytest.approx(1.8, abs=0.2)
