"""Ctrl-C, or a scheduler's SIGTERM, during training: the step is finished and kept."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.cli.train import Stop

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "coda-peco-smoke.toml"


@pytest.mark.slow
def test_a_run_that_is_asked_to_stop_keeps_its_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", str(RECIPE), "--out", str(tmp_path / "run"), "--set", "checkpoint_every=1000", "--json"]
    run = subprocess.Popen(
        [sys.executable, "-m", "subquest", *command, "--set", "optimiser.steps=500"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert run.stdout is not None
    while json.loads(run.stdout.readline())["step"] < 1:
        pass
    run.send_signal(signal.SIGTERM)
    said = run.communicate(timeout=600)[1]
    assert run.returncode == 128 + signal.SIGTERM
    assert "stopping after this step" in said
    assert "the same command goes on from there" in said
    last = max(int(p.name.rpartition("-")[2]) for p in (tmp_path / "run" / "checkpoints").glob("step-*"))
    assert 1 <= last < 500
    assert main([*command, "--set", "optimiser.steps=500", "--minutes", "0"]) == 0
    assert f"step {last}" in capsys.readouterr().err


def test_before_the_first_step_there_is_nothing_to_wait_for() -> None:
    said: list[str] = []
    with Stop(said.append) as stop, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGTERM)
    assert not said
    assert not stop()


@pytest.mark.parametrize(
    ("first", "second"),
    [(signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT), (signal.SIGINT, signal.SIGTERM)],
)
def test_the_second_time_ends_it_at_once(first: signal.Signals, second: signal.Signals) -> None:
    said: list[str] = []
    before = signal.getsignal(first)
    with Stop(said.append) as stop:
        assert not stop()
        os.kill(os.getpid(), first)
        assert stop()
        assert stop.signal == first
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), second)
    assert len(said) == 1
    assert signal.getsignal(first) is before
