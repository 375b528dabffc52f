"""EM and F1 against torchmetrics' SQuAD, on fuzzed pairs with unicode in them.

`make parity` compares 10,000; here are as many as show every word of the list dozens of times.
"""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_they_agree() -> None:
    pytest.importorskip("torchmetrics", reason="the independent implementation is not installed")
    command = [sys.executable, "-m", "tests.parity.against_squad", "2000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("2000 batches") == 2
