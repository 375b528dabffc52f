"""A run that another process writes holds the same, and survives the end of either process."""

import asyncio
import collections
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from subquest.errors import DataError, OutsideError, UsageError
from subquest.runs import EpisodeExists, RunStore
from subquest.runs.salvage import verify_run

from .samples import episode


async def test_everything_arrives(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    episodes = [episode(f"e{n}", n) for n in range(60)]
    with RunStore.resume(path, settings={"a": 1}, own_process=True) as run:
        await asyncio.gather(*(run.add_episode(e, attempt=1, scores={"em": 0.5}) for e in episodes))
        assert list(run.episodes()) == episodes
        run.add_questions([e.question for e in episodes])
        for event in episode("live").events:
            run.add_event("live", event)
        run.add_metrics(3, {"loss": 0.25})
        run.flush()
        assert run.interrupted() == ["live"]
    with RunStore.resume(path, settings={"a": 1}, own_process=True) as again:
        assert list(again.episodes()) == episodes
        assert {s.attempt for s in again.summaries()} == {1}
        assert again.scores("e7") == [("e7", "em", 0.5)]
        assert again.metrics() == [(3, "loss", 0.25)]
        assert again.events("live") == list(episode("live").events)
    assert not Path(f"{path}-wal").exists()


async def test_every_kind_of_mapping_arrives_as_a_dictionary(tmp_path: Path) -> None:
    settings = types.MappingProxyType({"k": collections.OrderedDict(a=1)})
    with RunStore.create(tmp_path / "r.sqlite", own_process=True) as run:
        await run.add_episode(dataclasses.replace(episode("e"), settings=settings))
        assert run.episode("e").settings == {"k": {"a": 1}}


async def test_one_bad_record_takes_no_other_down(tmp_path: Path) -> None:
    objects = dataclasses.replace(episode("object"), settings={"x": object()})
    functions = dataclasses.replace(episode("function"), settings={"x": lambda: None})
    with RunStore.create(tmp_path / "r.sqlite", own_process=True) as run:
        writes = [run.add_episode(e) for e in (episode("a"), objects, functions, episode("a"), episode("b"))]
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(r) for r in results] == [type(None), DataError, DataError, EpisodeExists, type(None)]
        assert all("JSON" in str(r) for r in results[1:3])
        assert [e.id for e in run.episodes()] == ["a", "b"]


def test_a_failure_nobody_waited_for_shows_when_the_run_closes(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "r.sqlite", own_process=True)
    run.add_episode(episode("e"), scores={"em": 1.0})
    run.add_episode(episode("e"), scores={"em": 0.0})
    with pytest.raises(EpisodeExists, match="already has"):
        run.close()
    with pytest.raises(UsageError, match="is closed"):
        run.add_episode(episode("f"))
    with RunStore.open(tmp_path / "r.sqlite") as kept:
        assert kept.scores() == [("e", "em", 1.0)]  # the scores of the episode that stays


def test_many_threads_write_at_once(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r.sqlite", own_process=True) as run:

        def work(thread: int) -> None:
            for n in range(10):
                run.add_episode(episode(f"{thread}-{n}", n)).wait()

        threads = [threading.Thread(target=work, args=(t,)) for t in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({s.id for s in run.summaries()}) == 40


def test_a_writing_process_that_is_killed_is_reported(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "r.sqlite", own_process=True)
    run.add_episode(episode("before")).wait()
    os.kill(_writing_process(), signal.SIGKILL)
    with pytest.raises(OutsideError, match="ended with status -9; run again to resume"):
        run.add_episode(episode("after")).wait()
    run.close()
    with RunStore.resume(tmp_path / "r.sqlite", own_process=True) as again:
        again.add_episode(episode("later")).wait()
        assert [e.id for e in again.episodes()] == ["before", "later"]


def _writing_process() -> int:
    """The id of the only process that this one has started and that writes a run."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    (writer,) = (int(n) for n in children if b"process_writer" in Path(f"/proc/{n}/cmdline").read_bytes())
    return writer


def test_a_process_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from subquest.runs import RunStore; from tests.runs.samples import episode\n"
        "run = RunStore.create(sys.argv[1], own_process=True)\n"
        "run.add_episode(episode('e'))\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "r")], cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    with RunStore.open(tmp_path / "r") as run:
        assert list(run.episodes()) == [episode("e")]


def test_what_was_acknowledged_is_there_although_the_process_that_added_it_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from subquest.runs import RunStore; from tests.runs.samples import episode\n"
        "run = RunStore.create(sys.argv[1], own_process=True)\n"
        "receipts = [run.add_episode(episode(f'e{n}', n)) for n in range(30)]\n"
        "receipts[19].wait(); print('acknowledged', flush=True); time.sleep(60)\n"
    )
    path = tmp_path / "r.sqlite"
    root = Path(__file__).resolve().parents[2]
    giver = subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=root, stdout=subprocess.PIPE)
    assert giver.stdout is not None
    assert giver.stdout.readline() == b"acknowledged\n"
    giver.kill()
    giver.communicate()
    for _ in range(6000):  # the writing process writes what it has received and ends
        if not Path(f"{path}-wal").exists():
            break
        time.sleep(0.02)
    assert verify_run(path).problems == ()
    with RunStore.open(path) as run:
        found = list(run.episodes())
        assert len(found) >= 20
        assert found == [episode(f"e{n}", n) for n in range(len(found))]
