"""An evaluation on a disk that is really full: it says so, keeps what it has, and goes on when there is room again."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
mount -t tmpfs -o size=12000k tmpfs disk || exit 77
head -c 11200k /dev/zero > disk/ballast
run() {{ {python} -m subquest eval toy.jsonl --system direct --model scripted:answers.jsonl --out disk/run --json; }}
run; echo "status $?"
{python} -m subquest runs info disk/run --json
rm disk/ballast
run; echo "status $?"
"""
QUESTIONS = 400


def test_a_full_disk(place: Path) -> None:
    rows = [{"id": f"q{i}", "question": f"Which city {i}?", "answers": ["Kestel"]} for i in range(QUESTIONS)]
    (place / "toy.jsonl").write_text("\n".join(map(json.dumps, rows)))
    replies = [f"<answer>Kestel</answer> {hash(str(i)):x}{hash(i * 7.1):x}" for i in range(2 * QUESTIONS)]
    (place / "answers.jsonl").write_text("\n".join(map(json.dumps, replies)))
    (place / "disk").mkdir()
    command = ["unshare", "--map-root-user", "--mount", "bash", "-c", SCRIPT.format(python=sys.executable)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place, timeout=600)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    first, kept, table, last = done.stdout.splitlines()
    assert (first, last) == ("status 1", "status 0")
    assert "database or disk is full; what was written before is safe: free some space and run again" in done.stderr
    assert "Traceback" not in done.stderr
    before = json.loads(kept)["episodes"]
    assert 0 < before < QUESTIONS
    assert f"{before} of {QUESTIONS} are done already" in done.stderr
    cell = json.loads(table)["toy"]["direct"]
    assert (cell["n"], cell["em"]) == (QUESTIONS, 1.0)
