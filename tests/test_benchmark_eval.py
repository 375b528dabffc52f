"""`benchmarks/eval.py` must keep running; its numbers are not a matter for tests."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "benchmarks" / "eval.py"


def test_both_sides_run() -> None:
    sizes = ["--questions", "30", "--concurrency", "10", "--rounds", "1", "--memory", "40"]
    done = subprocess.run([sys.executable, str(SCRIPT), *sizes], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert 0 < found["ratios"]["throughput / ideal"] <= 1
    assert found["figures"]["memory questions"] == 40
    assert found["figures"]["stored writer_mb"] > 0
