"""Our side of `benchmarks/overhead.py` must keep acting out the scene; its numbers are not a matter for tests."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "overhead.py"


@pytest.mark.parametrize("side", ["text", "tokens"])
def test_our_side_runs(side: str) -> None:
    command = [sys.executable, str(SCRIPT), "--side", side, "--episodes", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["cpu_us_per_turn"] > 0
    assert figures["peak_mb"] > 0
