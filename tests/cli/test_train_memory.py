"""How fine-tuning asks torch to keep GPU memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

RECIPES = Path(__file__).resolve().parents[2] / "recipes"
SHOW = """
import json, os, sys
import torch, transformers, subquest.train.launch
from subquest.cli import main
for given, command in json.loads(sys.argv[1]):
    if (child := os.fork()) == 0:
        os.environ.update(given)
        status = main(command)
        print(status, torch._C._accelerator_getAllocatorSettings(), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Loads the libraries once, then trains in a process for each case and has torch say what it has read; on a CPU nothing
asked before."""


def test_torch_is_told_before_it_uses_a_gpu(tmp_path: Path) -> None:
    cases = [
        ("coda-sft-smoke", {}, "0 expandable_segments:True"),
        ("coda-sft-smoke", {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64"}, "0 max_split_size_mb:64"),
        ("coda-peco-smoke", {}, "0"),
    ]
    known = {name: value for name, value in os.environ.items() if not name.endswith("ALLOC_CONF")}
    options = ["--minutes", "0", "--device", "cpu", "--set", "evaluate_questions=1"]
    commands = [
        (given, ["train", str(RECIPES / f"{recipe}.toml"), "--out", str(tmp_path / str(n)), *options])
        for n, (recipe, given, _) in enumerate(cases)
    ]
    done = subprocess.run(
        [sys.executable, "-c", SHOW, json.dumps(commands)],
        env={**known, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line.strip() for line in done.stdout.splitlines() if line.startswith("0")]
    assert told == [found for *_, found in cases], done.stderr
