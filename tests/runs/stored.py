"""A run that holds every kind of record. Runs that older versions stored are compared with it.

python -m tests.runs.stored tests/runs/data/run-0.1.sqlite.gz     writes the run as the present version stores it
"""

from __future__ import annotations

import dataclasses
import gzip
import math
import sys
import tempfile
from pathlib import Path

from subquest.record import Episode
from subquest.runs import RunStore

from .samples import episode, question

SETTINGS = {"system": "coda", "k": 3}
METRICS = {0: {"loss": 0.5, "kl": math.inf}, 1: {"loss": 0.25}}


def stored_episodes() -> list[Episode]:
    """Episodes of two systems, one with text and numbers that JSON and UTF-8 do not know."""
    odd = dataclasses.replace(
        episode("odd", 9),
        answer="half a sign: \ud800",
        settings={"$": "a key of ours", "$n": [1, 2], "huge": 2**70, "infinite": math.inf, "long": ["é" * 50] * 3},
    )
    return [*(episode(f"e{n}", n % 3, system="hira" if n == 4 else "coda", seed=n) for n in range(5)), odd]


def write_stored_run(path: Path) -> None:
    with RunStore.create(path, settings=SETTINGS) as run:
        run.add_questions([question(50)])
        for attempt, made in enumerate(stored_episodes()):
            run.add_episode(made, attempt=attempt, scores={"em": 1.0, "f1": 0.5}).wait()
        for event in episode("interrupted").events[:3]:
            run.add_event("interrupted", event)
        for step, metrics in METRICS.items():
            run.add_metrics(step, metrics)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.sqlite"
        write_stored_run(path)
        Path(sys.argv[1]).write_bytes(gzip.compress(path.read_bytes(), mtime=0))
