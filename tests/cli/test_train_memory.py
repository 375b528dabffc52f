"""How training asks torch to keep GPU memory, and what training says if there is too little."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main

torch = pytest.importorskip("torch", reason="the train extra is not installed")

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
        ("coda-peco-smoke", {}, "0 expandable_segments:True"),
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


FULL = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.80 GiB of which 1.38 GiB is "
    "free. Process 7 has 60.00 GiB memory in use. Of the allocated memory 70.00 GiB is allocated by PyTorch, and 1.00 "
    "GiB is reserved by PyTorch but unallocated."
)
"""As torch words it."""


@pytest.mark.slow
@pytest.mark.parametrize("seam", ["train.optimiser.Optimiser.sft_step", "engine.torch.runner.Runner.decode"])
def test_a_run_that_is_out_of_memory_says_so_and_is_resumed_with_less(
    seam: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In an update, and in the evaluation after it, which would otherwise score an engine that has ended."""
    from subquest.engine.torch.runner import Runner
    from subquest.train.optimiser import Optimiser

    owner: type[Any] = Optimiser if seam.startswith("train") else Runner
    name = seam.rpartition(".")[2]
    works = getattr(owner, name)

    def fails_later(self: Any, *given: Any, **settings: Any) -> Any:
        if any((tmp_path / "run" / "checkpoints").glob("step-*1")):
            raise torch.OutOfMemoryError(FULL)
        return works(self, *given, **settings)

    command = ["train", str(RECIPES / "direct-sft-smoke.toml"), "--out", str(tmp_path / "run"), "--device", "cpu"]
    command += ["--set", "evaluate_questions=1", "--set", "evaluate_every=2"]
    with monkeypatch.context() as full:
        full.setattr(owner, name, fails_later)
        assert main(command) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == (
        "subquest: the GPU has too little memory (CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 139.80 GiB of which 1.38 GiB is free. Process 7 has 60.00 GiB memory in use): lower "
        "optimiser.micro_tokens, which is 16384 (--set optimiser.micro_tokens=8192), or end other processes on the "
        "GPU, or lower SUBQUEST_GPU_SHARE (0.4 unless set); the same command resumes the run"
    )
    assert main([*command, "--set", "optimiser.micro_tokens=8192"]) == 0
    assert "step 2 of 2" in capsys.readouterr().err
