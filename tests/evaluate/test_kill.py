"""An evaluation that is killed again and again ends with the table of one that was not."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from subquest.runs import RunStore

WORKER = textwrap.dedent("""
    import asyncio, json, sys
    from dataclasses import replace
    from subquest.engine.scripted import ScriptedEngine
    from subquest.evaluate import evaluate, jobs_for, table
    from subquest.evaluate.table import scored
    from subquest.record import Question
    from subquest.runs import RunStore
    from subquest.systems.coda import CoDA

    QUESTIONS = [Question(f"q{i}", f"What is {i}?", (str(i),), dataset="toy") for i in range(int(sys.argv[2]))]

    async def reply(context):
        await asyncio.sleep(0.05)
        number = int(context.messages[1].content.split()[-1].rstrip("?"))
        return f"<answer>{number if number % 3 else 'wrong'}</answer>"

    with RunStore.resume(sys.argv[1], apart=True) as store:
        systems = {"coda": CoDA(ScriptedEngine(reply))}
        asyncio.run(evaluate(jobs_for(store, {"toy": QUESTIONS}, systems), systems, store, concurrency=2))
        cell = table(scored(store))["toy"]["coda"]
    print(json.dumps({k: v for k, v in cell.items() if k != "seconds"}))
""")


def start(run: Path, questions: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(run), str(questions)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    alone = start(tmp_path / "a", 40).communicate()[0]
    both = [start(tmp_path / "b", 40) for _ in range(2)]
    for process in both:
        assert json.loads(process.communicate()[0]) == json.loads(alone)
        assert process.returncode == 0
    with RunStore.open(tmp_path / "b") as run:
        assert run.counts()["episodes"] == 40


@pytest.mark.slow
def test_kill_minus_nine_twenty_times(tmp_path: Path) -> None:
    unbroken = start(tmp_path / "a", 300).communicate()[0]
    chance = random.Random(0)
    kills = 0
    while True:
        process = start(tmp_path / "b", 300)
        deadline = time.monotonic() + chance.uniform(0.1, 0.9)
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        if kills < 20 and process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
            process.communicate()
            continue
        out = process.communicate()[0]
        assert process.returncode == 0
        break
    assert kills == 20
    assert json.loads(out) == json.loads(unbroken)
