"""An evaluation that is killed again and again ends with the table of one that was not."""

import json
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from subquest.runs import RunStore

WORKER = textwrap.dedent("""
    import asyncio, json, sys
    from dataclasses import replace
    from subquest.engine.scripted import ScriptedEngine
    from subquest.evaluate import evaluate, jobs_for, table
    from subquest.evaluate.result_table import scored
    from subquest.record import Question
    from subquest.runs import RunStore
    from subquest.systems.coda import CoDA

    QUESTIONS = [Question(f"q{i}", f"What is {i}?", (str(i),), dataset="toy") for i in range(int(sys.argv[2]))]

    async def reply(context):
        await asyncio.sleep(0.02)
        number = int(context.messages[1].content.split()[-1].rstrip("?"))
        return f"<answer>{number if number % 3 else 'wrong'}</answer>"

    with RunStore.resume(sys.argv[1], own_process=True) as store:
        systems = {"coda": CoDA(ScriptedEngine(reply))}
        jobs = jobs_for(store, {"toy": QUESTIONS}, systems)

        def told(*_):
            print("one more", flush=True)
            sys.stdin.readline()  # waits until it may go on

        asyncio.run(evaluate(jobs, systems, store, concurrency=2, finished=told))
        cell = table(scored(store))["toy"]["coda"]
    print(json.dumps({k: v for k, v in cell.items() if k != "seconds"}))
""")


def start(run: Path, questions: int) -> subprocess.Popen[str]:
    """An evaluation that says a line for each answer and waits for one, and at the end says the table."""
    command = [sys.executable, "-c", WORKER, str(run), str(questions)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> Any:
    """The table of an evaluation that comes to its end."""
    lines = process.communicate()[0].splitlines()  # its input is closed: nothing to wait for
    assert process.returncode == 0
    return json.loads(lines[-1])


@pytest.mark.slow
def test_two_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    alone = outcome(start(tmp_path / "a", 40))
    both = [start(tmp_path / "b", 40) for _ in range(2)]
    assert [outcome(process) for process in both] == [alone, alone]
    with RunStore.open(tmp_path / "b") as run:
        assert run.counts()["episodes"] == 40


@pytest.mark.slow
def test_kill_minus_nine_ten_times(tmp_path: Path) -> None:
    """Each time after some answers more, so that the moments are the same on every machine."""
    unbroken = outcome(start(tmp_path / "a", 120))
    chance = random.Random(0)
    for _ in range(10):
        process = start(tmp_path / "b", 120)
        assert process.stdout is not None
        assert process.stdin is not None
        answers = chance.randrange(1, 8)
        process.stdin.write("go on\n" * (answers + 3))  # however late we are: at most so many
        process.stdin.flush()
        for _ in range(answers):
            assert process.stdout.readline() == "one more\n"
        time.sleep(chance.uniform(0, 0.02))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    assert outcome(start(tmp_path / "b", 120)) == unbroken
