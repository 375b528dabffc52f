"""An evaluation of one system that is killed: lists say what is missing, and the same command resumes it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.evaluate.run_overview import Overviews
from subquest.runs import RunStore

from ..docs.endpoint import Reader, endpoint

QUESTIONS = 5
ANSWERED = 2


def long_ago(path: Path) -> None:
    """As if nothing had been written for hours."""
    then = time.time() - 10_000
    for place in (path, path.with_name(f"{path.name}-wal")):
        if place.exists():
            os.utime(place, (then, then))


def listed(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["runs", "list"]) == 0
    return capsys.readouterr().out


def test_a_killed_evaluation_is_not_finished(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": f"q{n}", "question": f"Which city {n}?", "answers": ["32 pounds"]} for n in range(QUESTIONS)]
    (place / "toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (place / "runs").mkdir()
    answer, calls, stuck, go_on = Reader.reply, [0], threading.Event(), threading.Event()

    def reply(reader: Reader, messages: list[dict[str, object]]) -> str:
        calls[0] += 1
        if calls[0] > ANSWERED:
            stuck.set()
            go_on.wait(600)
        return answer(reader, messages)

    monkeypatch.setattr(Reader, "reply", reply)
    with endpoint() as url:
        command = ["eval", "toy.jsonl", "--system", "direct", "--model", f"openai:my-model@{url}", "--out", "runs/one"]
        command += ["--concurrency", "1"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen([sys.executable, "-m", "subquest", *command], env=environment)
        assert stuck.wait(300)
        until = time.monotonic() + 300
        while _episodes(place / "runs/one") < ANSWERED and time.monotonic() < until:
            time.sleep(0.05)
        assert f"running: {ANSWERED} of {QUESTIONS}" in listed(capsys)
        process.send_signal(signal.SIGKILL)
        process.wait()
        long_ago(place / "runs/one")
        assert f"stopped: {ANSWERED} of {QUESTIONS}" in listed(capsys)
        overview = Overviews().get("one", place / "runs/one")
        assert (overview["status"], overview["missing"]) == ("stopped", QUESTIONS - ANSWERED)
        assert main(["report", "runs/one", "--markdown"]) == 0
        assert (
            f"note: runs/one is not complete (stopped: {ANSWERED} of {QUESTIONS} answered)" in capsys.readouterr().err
        )
        go_on.set()
        assert main(command) == 0
        resumed = capsys.readouterr().err
        assert main(["report", "runs/one", "--markdown"]) == 0
        assert "not complete" not in capsys.readouterr().err
    assert f"{ANSWERED} of {QUESTIONS} are done already" in resumed
    assert "finished" in listed(capsys)
    assert Overviews().get("one", place / "runs/one")["status"] == "finished"


def _episodes(path: Path) -> int:
    if not path.exists():
        return 0
    with RunStore.open(path) as run:
        return run.counts()["episodes"]
