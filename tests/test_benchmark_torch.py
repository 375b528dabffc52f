"""The torch engine's and the trainer's own benchmarks in their smallest form, on a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.slow


def figures(*options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "subquest", "bench", *options, "--device", "cpu", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_rollouts_are_timed_and_exact() -> None:
    found = figures(
        "rollout", "--only", "decode,exact,host", "--shape", "tiny", "--batches", "2", "--contexts", "64"
    )["figures"]  # fmt: skip
    step, least = found["decode_ms"]["64"]["2"], found["limit_ms"]["64"]["2"]
    assert 0 < least < step
    assert found["bandwidth_share"]["64"]["2"] == pytest.approx(least / step, abs=0.002)
    assert found["greedy_fp32"]["equal"] == found["greedy_fp32"]["texts"] > 0
    assert max(abs(gap["p100"]) for gap in found["logprob_gap"].values()) < 1e-4
    assert 0 < found["host"]["16"]["busy_ms"] <= found["host"]["16"]["step_ms"]


def test_what_fits_is_measured_with_and_without_checkpointing() -> None:
    found = figures("fits", "--shapes", "tiny", "--ranks", "4,0", "--micro-tokens", "256")
    rows = found["figures"]["rows"]
    assert [(row["rank"], row["checkpointing"]) for row in rows] == [(4, False), (4, True), (0, False), (0, True)]
    assert all(row["peak_gb"] > 0 and row["tokens_s"] == pytest.approx(256 / row["seconds"]) for row in rows)
    assert {name.rpartition(", ")[2] for name in found["ratios"]} == {"memory", "time"}
