"""EM and F1 against torchmetrics' SQuAD, on 10,000 fuzzed pairs with unicode in them."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_they_agree() -> None:
    pytest.importorskip("torchmetrics", reason="the independent implementation is not installed")
    command = [sys.executable, "-m", "tests.parity.against_squad"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("10000 batches") == 2
