"""The torch engine's own benchmark in its smallest form, on a CPU."""

from __future__ import annotations

import json
import sys

import pytest

from subquest.cli import main


@pytest.mark.slow
def test_rollouts_are_timed_and_exact(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    small = ["--shape", "tiny", "--batches", "2", "--contexts", "64", "--device", "cpu"]
    assert main(["bench", "rollout", "--only", "decode,prefill,exact,host", *small, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["figures"]
    step, least = found["decode_ms"]["64"]["2"], found["limit_ms"]["64"]["2"]
    assert 0 < least < step
    assert found["bandwidth_share"]["64"]["2"] == pytest.approx(least / step, abs=0.002)
    assert found["prefill"]["tokens_s"] == pytest.approx(found["prefill"]["tokens"] / found["prefill"]["seconds"])
    assert found["greedy_fp32"]["equal"] == found["greedy_fp32"]["texts"] > 0
    assert max(abs(gap["p100"]) for gap in found["logprob_gap"].values()) < 1e-4
    assert 0 < found["host"]["16"]["busy_ms"] <= found["host"]["16"]["step_ms"]
