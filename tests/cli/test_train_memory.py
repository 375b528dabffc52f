"""How fine-tuning asks torch to keep GPU memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SHOW = """
import sys
from subquest.cli import main
status = main(sys.argv[1:])
import torch
print(status, torch._C._accelerator_getAllocatorSettings())
"""
"""Trains, then has torch say what it has read; on a CPU nothing asked before."""


@pytest.mark.parametrize(
    ("recipe", "given", "found"),
    [
        ("coda-sft-smoke", {}, "0 expandable_segments:True"),
        ("coda-sft-smoke", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, "0 max_split_size_mb:64"),
        ("coda-peco-smoke", {}, "0"),
    ],
)
def test_torch_is_told_before_it_uses_a_gpu(recipe: str, given: dict[str, str], found: str, tmp_path: Path) -> None:
    known = {name: value for name, value in os.environ.items() if not name.endswith("ALLOC_CONF")}
    command = ["train", str(RECIPES / f"{recipe}.toml"), "--out", str(tmp_path / "run"), "--minutes", "0"]
    done = subprocess.run(
        [sys.executable, "-c", SHOW, *command, "--device", "cpu", "--set", "evaluate_questions=1"],
        env={**known, **given, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1].strip() == found, done.stderr
