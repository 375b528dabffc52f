from __future__ import annotations

import asyncio
import dataclasses
import math
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from subquest.errors import DataError, OutsideError, UsageError
from subquest.events import Event
from subquest.record import Episode
from subquest.runs import Metric, RunStore, Score
from subquest.runs import file as run_file

from ..strategies import episodes as any_episodes
from .samples import episode, question


def test_a_folder_with_other_things_gets_no_run(tmp_path: Path) -> None:
    for name in (".hidden", "train.log", "run.judge.sqlite"):
        (tmp_path / name).write_text("harmless")
    RunStore.create(tmp_path).close()
    (tmp_path / "letter.md").write_text("Dear Mila")
    RunStore.resume(tmp_path).close()
    (tmp_path / "run.sqlite").unlink()
    for begin in (RunStore.create, RunStore.resume):
        with pytest.raises(UsageError, match=r"such as letter\.md, and no run"):
            begin(tmp_path)


async def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    made = [episode(f"e{n}", n) for n in range(5)]
    with RunStore.create(tmp_path / "run.sqlite", settings={"system": "coda"}) as run:
        await asyncio.gather(*(run.add_episode(e, attempt=n % 2) for n, e in enumerate(made)))
        assert run.episode("e3") == made[3]
        assert list(run.episodes()) == made
        assert list(run.episodes(events=False)) == [e.without_events() for e in made]
    with RunStore.open(tmp_path / "run.sqlite") as again:
        assert list(again.episodes()) == made
        assert again.settings == {"system": "coda"}
        assert [s.attempt for s in again.summaries()] == [0, 1, 0, 1, 0]
        assert again.events("e1") == list(made[1].events)
        assert list(again.questions()) == [e.question for e in made]


@pytest.mark.slow
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50, deadline=None
)
@given(st.lists(any_episodes, max_size=3, unique_by=lambda e: e.id))
def test_any_episode_comes_back(tmp_path: Path, made: list[Episode]) -> None:
    path = tmp_path / f"{os.urandom(8).hex()}.sqlite"
    with RunStore.create(path) as run:
        for e in made:
            run.add_episode(e)
        run.flush()
        assert list(run.episodes()) == made
        assert [run.episode(e.id) for e in made] == made


def test_filters(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r.sqlite") as run:
        for n in range(200):
            made = episode(f"e{n}", n % 3, system="coda" if n % 2 else "hira")
            if n == 7:
                made = dataclasses.replace(made, question=dataclasses.replace(made.question, dataset="other"))
            run.add_episode(made)
        run.flush()
        assert len(list(run.episodes(system="hira", events=False))) == 100
        assert {e.question.id for e in run.episodes(question="q2", events=False)} == {"q2"}
        assert [s.id for s in run.summaries(dataset="other")] == ["e7"]
        assert [s.id for s in run.summaries(dataset="other", system="hira")] == []
        assert len(list(run.summaries())) == 200
        counts = run.counts()
        assert (counts["episodes"], counts["trajectories"], counts["failures"]) == (200, 400, 200)
        assert counts["questions"] == 4
        with pytest.raises(UsageError, match="no finished episode 'e200'"):
            run.episode("e200")


async def test_live_events_show_an_episode_that_never_ended(tmp_path: Path) -> None:
    made, lost = episode("done", 1), episode("lost", 2)
    with RunStore.create(tmp_path / "r.sqlite") as run:
        for e in made.events:
            run.add_event("done", e)
        for e in lost.events[:3]:
            run.add_event("lost", e)
        run.flush()
        assert run.interrupted() == ["done", "lost"]
        await run.add_episode(made)
        assert run.interrupted() == ["lost"]
        assert run.episode("done") == made
        assert run.events("lost") == list(lost.events[:3])
        assert [e.seq for e in run.events("done", after=1)] == [2, 3]
        assert run.events("unknown") == []
        await run.add_questions([question(50)])
        assert [q.id for q in run.questions()] == ["q1", "q50"]


async def test_events_told_live_are_not_stored_twice(tmp_path: Path) -> None:
    made = episode("e", 1)
    with RunStore.create(tmp_path / "r.sqlite") as run:
        for e in made.events[:2]:
            run.add_event("e", e)
        await run.add_episode(made)
        assert run.events("e") == list(made.events)
        rows = run.query("SELECT first, last FROM event ORDER BY number")
        assert rows == [(0, 1), (2, 3)]


@pytest.mark.parametrize("live", [True, False])
def test_an_interrupted_episode_begun_again_replaces_what_it_told(tmp_path: Path, live: bool) -> None:
    path = tmp_path / "r.sqlite"
    with RunStore.create(path) as run:
        for event in episode("e", 1, seed=1).events[:3]:
            run.add_event("e", event)
    again = episode("e", 1, seed=2)
    with RunStore.open(path, write=True) as run:
        assert run.interrupted() == ["e"]
        for event in again.events if live else ():
            run.add_event("e", event)
            run.flush()
        run.add_episode(again).wait()
        assert run.episode("e") == again
        assert run.interrupted() == []
        run.add_event("e", again.events[0])
        with pytest.raises(DataError, match="episode 'e' has ended; event 0 is too late"):
            run.flush()


def test_a_gap_in_the_stream_is_an_error_that_is_not_swallowed(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "r.sqlite")
    run.add_event("e", Event(1, "turn", 0.0))
    with pytest.raises(DataError, match="got event 1, expected 0"):
        run.flush()
    run.flush()
    run.add_event("e", Event(7, "turn", 0.0))
    with pytest.raises(DataError, match="got event 7, expected 0"):
        run.close()
    run.close()


async def test_one_bad_record_takes_no_other_down(tmp_path: Path) -> None:
    good = [episode(f"e{n}", n) for n in range(20)]
    odd = dataclasses.replace(episode("odd", 99), settings={"engine": object()})
    with RunStore.create(tmp_path / "r.sqlite") as run:
        writes = [run.add_episode(e) for e in good]
        writes.insert(10, run.add_episode(odd))
        writes.append(run.add_episode(good[0]))
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert [r for r in results if r is None] == [None] * 20
        assert isinstance(results[10], DataError)
        assert "JSON" in str(results[10])
        assert isinstance(results[-1], DataError)
        assert "already has an episode 'e0'" in str(results[-1])
        assert list(run.episodes()) == good
    with RunStore.open(tmp_path / "r.sqlite") as again:
        assert list(again.episodes()) == good


def test_a_failure_nobody_waited_for_shows_when_the_run_closes(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "r.sqlite")
    run.add_episode(episode("e"))
    run.add_episode(episode("e"))
    with pytest.raises(DataError, match="already has"):
        run.close()
    with pytest.raises(UsageError, match="is closed"):
        run.add_episode(episode("f"))
    with pytest.raises(UsageError, match="is closed"):
        run.counts()


async def test_a_cancelled_waiter_does_not_lose_the_write(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r.sqlite") as run:

        async def add() -> None:
            await run.add_episode(episode("e"))

        task = asyncio.create_task(add())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        run.flush()
        assert run.episode("e") == episode("e")


def test_a_full_disk_is_reported_and_nothing_is_half_written(tmp_path: Path) -> None:
    run = RunStore.create(tmp_path / "r.sqlite")
    run.add_episode(episode("before")).wait()
    writer = run._writing
    pages = writer._transactions._connection.execute("PRAGMA page_count").fetchone()[0]
    writer._transactions._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    big = dataclasses.replace(episode("big"), answer=os.urandom(100_000).hex())
    with pytest.raises(OutsideError, match="full"):
        run.add_episode(big).wait()
    writer._transactions._connection.execute("PRAGMA max_page_count = 1000000")
    run.add_episode(big).wait()
    run.add_episode(episode("after", 3)).wait()
    assert list(run.episodes()) == [episode("before"), big, episode("after", 3)]
    run.close()


def test_many_threads_write_at_once(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r.sqlite") as run:

        def work(thread: int) -> None:
            for n in range(20):
                run.add_episode(episode(f"{thread}-{n}", n)).wait()

        threads = [threading.Thread(target=work, args=(t,)) for t in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({s.id for s in run.summaries()}) == 160


async def test_group_commit(tmp_path: Path) -> None:
    """Many writers share their disk flushes: far fewer commits than records."""
    with RunStore.create(tmp_path / "r.sqlite") as run:
        commits = 0

        def count(statement: str) -> None:
            nonlocal commits
            commits += statement == "COMMIT"

        run._writing._transactions._connection.set_trace_callback(count)
        await asyncio.gather(*(run.add_episode(episode(f"e{n}", n)) for n in range(200)))
        assert commits <= 20
        assert run._writing._transactions._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def _write_from_another_process(path: Path, name: str, count: int) -> None:
    with RunStore.open(path, write=True) as run:
        for n in range(count):
            run.add_episode(episode(f"{name}{n}", n, seed=len(name))).wait()


def test_two_processes_write_and_a_third_reads(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    RunStore.create(path).close()
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_from_another_process, args=(path, name, 40)) for name in ("a", "bb")]
    for writer in writers:
        writer.start()
    with RunStore.open(path) as reader:
        seen = 0
        while any(w.is_alive() for w in writers):
            found = [e.id for e in reader.episodes()]
            assert len(found) >= seen
            seen = len(found)
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    with RunStore.open(path) as run:
        found = {e.id: e for e in run.episodes()}
        assert found == {f"{m}{n}": episode(f"{m}{n}", n, seed=len(m)) for m in ("a", "bb") for n in range(40)}


def test_a_process_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    script = (
        "import sys; from subquest.runs import RunStore; from tests.runs.samples import episode\n"
        "run = RunStore.create(sys.argv[1])\n"
        "[run.add_event('x', e) for e in episode('x').events[:2]]\n"
        "run.add_episode(episode('e'))\n"
    )
    root = Path(__file__).resolve().parents[2]
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "r.sqlite")], cwd=root, check=True)
    with RunStore.open(tmp_path / "r.sqlite") as run:
        assert run.episode("e") == episode("e")
        assert run.interrupted() == ["x"]


def test_scores_and_metrics(tmp_path: Path) -> None:
    with RunStore.create(tmp_path / "r.sqlite") as run:
        run.add_scores("e1", {"em": 1.0, "f1": 0.5})
        run.add_scores("e2", {"em": 0.0})
        run.add_scores("e1", {"f1": 0.75})
        run.add_metrics(1, {"loss": 0.5, "kl": math.nan})
        run.add_metrics(2, {"loss": math.inf})
        run.add_metrics(2, {"loss": 0.25})
        run.flush()
        assert run.scores("e1") == [Score("e1", "em", 1.0), Score("e1", "f1", 0.75)]
        assert len(run.scores()) == 3
        run.add_scores("e1", {"em": None, "cem": 1.0})
        run.flush()
        assert run.scores("e1") == [Score("e1", "cem", 1.0), Score("e1", "f1", 0.75)]
        assert run.metrics("loss") == [Metric(1, "loss", 0.5), Metric(2, "loss", 0.25)]
        assert math.isnan(run.metrics("kl")[0].value)


def test_resume_makes_opens_and_compares_settings(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite"
    with RunStore.resume(path, settings={"system": "coda", "k": 3}) as run:
        run.add_episode(episode("e")).wait()
    with RunStore.resume(path, settings={"k": 3, "system": "coda"}) as run:
        assert [s.id for s in run.summaries()] == ["e"]
    with pytest.raises(UsageError, match=r"begun with k = 3, not 5"):
        RunStore.resume(path, settings={"system": "coda", "k": 5})
    with pytest.raises(UsageError, match="already exists"):
        RunStore.create(path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["r.sqlite"]


def test_a_folder_stands_for_the_run_in_it(tmp_path: Path) -> None:
    with RunStore.create(tmp_path) as run:
        assert run.path == tmp_path / "run.sqlite"
    RunStore.open(tmp_path).close()


def test_a_run_opened_for_reading_cannot_be_written(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r.sqlite").close()
    with RunStore.open(tmp_path / "r.sqlite") as run, pytest.raises(UsageError, match="for reading only"):
        run.add_episode(episode("e"))


def test_a_read_only_folder_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "archive"
    folder.mkdir()
    with RunStore.create(folder / "r.sqlite") as run:
        run.add_episode(episode("e")).wait()
    real = sqlite3.connect

    def refuse_shared_memory(database: str, /, **options: object) -> sqlite3.Connection:
        """What SQLite does in a folder without write permission; tests may run as root, who is never refused."""
        if "immutable" not in database:
            raise sqlite3.OperationalError("unable to open database file")
        return real(database, **options)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(run_file.sqlite3, "connect", refuse_shared_memory)
    monkeypatch.setattr(run_file.os, "access", lambda path, mode: False)
    with RunStore.open(folder / "r.sqlite") as run:
        assert run.episode("e") == episode("e")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: None, "there is no run"),
        (lambda p: p.write_bytes(b""), "is empty, not a run"),
        (lambda p: p.write_bytes(b"question,answer\n" * 500), "is not a run of Subquest"),
        (lambda p: p.write_bytes(b"SQLite format 3\0" + bytes(8000)), "is not a run of Subquest"),
        (lambda p: _other(p), "an SQLite file, but not a run"),
        (lambda p: _newer(p), "written by a newer Subquest (run format 99"),
        (lambda p: _cut(p), "is damaged"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_any_other_file_is_refused_by_name(tmp_path: Path, make: object, message: str, write: bool) -> None:
    path = tmp_path / "r.sqlite"
    make(path)  # type: ignore[operator]
    with pytest.raises(UsageError) as caught:
        RunStore.open(path, write=write)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def _other(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE t (x)")


def _newer(path: Path) -> None:
    RunStore.create(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()


def _cut(path: Path) -> None:
    with RunStore.create(path) as run:
        for n in range(20):
            run.add_episode(episode(f"e{n}", n))
    os.truncate(path, 3 * run_file.PAGE_SIZE)


def test_damaged_settings_are_no_traceback(tmp_path: Path) -> None:
    RunStore.create(tmp_path / "r.sqlite", settings={"k": 3}).close()
    connection = sqlite3.connect(tmp_path / "r.sqlite")
    with connection:
        connection.execute("UPDATE meta SET value = '{' WHERE key = 'settings'")
    connection.close()
    with RunStore.open(tmp_path / "r.sqlite") as run, pytest.raises(DataError, match="is damaged"):
        _ = run.settings


def test_a_run_needs_a_folder_and_plain_settings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        RunStore.create(tmp_path / "no" / "r.sqlite")
    with pytest.raises(UsageError, match="must be JSON"):
        RunStore.create(tmp_path / "r.sqlite", settings={"x": object()})
    assert list(tmp_path.iterdir()) == []


def test_a_thousand_episodes_stay_small(tmp_path: Path) -> None:
    naive = 0
    with RunStore.create(tmp_path / "r.sqlite") as run:
        for n in range(300):
            made = episode(f"e{n}", n // 8, seed=n)
            naive += len(made.to_json().encode()) + 1
            run.add_episode(made)
    assert naive / (tmp_path / "r.sqlite").stat().st_size > 4
