"""Runs that older versions stored open, whole."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from subquest.runs import RunStore
from subquest.runs.salvage import verify_run

from .samples import episode, question
from .stored import METRICS, SETTINGS, stored_episodes

STORED = sorted(Path(__file__).with_name("data").glob("*.sqlite.gz"))


@pytest.mark.parametrize("file", STORED, ids=lambda file: file.name)
def test_a_run_of_an_older_version_opens(file: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(gzip.decompress(file.read_bytes()))
    assert verify_run(path).problems == ()
    made = stored_episodes()
    with RunStore.resume(path, settings=SETTINGS) as run:
        assert list(run.episodes()) == made
        assert [summary.attempt for summary in run.summaries()] == list(range(len(made)))
        assert question(50) in list(run.questions())
        assert run.interrupted() == ["interrupted"]
        assert run.events("interrupted") == list(episode("interrupted").events[:3])
        assert run.scores("e3") == [("e3", "em", 1.0), ("e3", "f1", 0.5)]
        assert run.metrics() == [
            (step, name, value) for step in METRICS for name, value in sorted(METRICS[step].items())
        ]
        run.add_episode(episode("later", 1)).wait()  # shares pieces with what is there
        assert run.episode("later") == episode("later", 1)
