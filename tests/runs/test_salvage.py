from __future__ import annotations

import os
import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from subquest.errors import DataError, UsageError
from subquest.runs import RunStore
from subquest.runs.file import PAGE_SIZE
from subquest.runs.salvage import salvage_run, verify_run

from .samples import episode

COUNT = 300


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.sqlite"
    with RunStore.create(path, settings={"system": "coda"}) as run:
        for n in range(COUNT):
            run.add_episode(episode(f"e{n}", n)).wait()  # one by one: the same layout of the file each time
            run.add_scores(f"e{n}", {"em": 1.0})
    return path


def check_saved(path: Path) -> set[str]:
    """Names of the episodes saved, each of which must be exactly what was written."""
    assert verify_run(path).sound
    with RunStore.open(path) as run:
        saved = list(run.episodes())
    for e in saved:
        written = episode(e.id, int(e.id[1:]))
        assert e.without_events() == written.without_events()
        assert e.events in (written.events, ())
    return {e.id for e in saved}


def test_a_sound_run(run_file: Path) -> None:
    verdict = verify_run(run_file)
    assert verdict.sound
    assert verdict.episodes == COUNT


@pytest.mark.slow
def test_a_lost_first_page_loses_nothing_else(run_file: Path, tmp_path: Path) -> None:
    with run_file.open("r+b") as file:
        file.write(b"\xff" * PAGE_SIZE)
    damaged = run_file.read_bytes()
    verdict = verify_run(run_file)
    assert not verdict.sound
    assert "not a run of Subquest" in verdict.problems[0]
    saved = salvage_run(run_file, tmp_path / "saved.sqlite")
    assert (saved.episodes, saved.lost) == (COUNT, ())
    assert check_saved(tmp_path / "saved.sqlite") == {f"e{n}" for n in range(COUNT)}
    with RunStore.open(tmp_path / "saved.sqlite") as run:
        assert run.settings == {"system": "coda"}
        assert len(run.scores()) == COUNT
    assert run_file.read_bytes() == damaged


def test_a_file_cut_in_half_gives_what_was_before_the_cut(run_file: Path, tmp_path: Path) -> None:
    os.truncate(run_file, run_file.stat().st_size * 6 // 10)
    assert not verify_run(run_file).sound
    saved = salvage_run(run_file, tmp_path / "saved.sqlite")
    names = check_saved(tmp_path / "saved.sqlite")
    assert len(names) == saved.episodes >= COUNT // 4
    assert any("episode" in what for what in saved.lost)


@pytest.mark.slow
def test_damaged_pages_cost_only_what_stood_on_them(run_file: Path, tmp_path: Path) -> None:
    pages = run_file.stat().st_size // PAGE_SIZE
    rng = random.Random(3)
    with run_file.open("r+b") as file:
        for page in rng.sample(range(pages * 2 // 3, pages), 3):
            file.seek(page * PAGE_SIZE + 8)
            file.write(rng.randbytes(PAGE_SIZE // 2))
    assert not verify_run(run_file).sound
    saved = salvage_run(run_file, tmp_path / "saved.sqlite")
    names = check_saved(tmp_path / "saved.sqlite")
    assert COUNT // 2 <= len(names) < COUNT
    mentioned = " ".join(saved.lost)
    assert all(f"e{n}" in names or f"e{n}" in mentioned or "episode number" in mentioned for n in range(COUNT))


def test_a_swapped_byte_in_a_stored_text_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with RunStore.create(path) as run:
        run.add_episode(episode("e")).wait()
    connection = sqlite3.connect(path)
    with connection:
        data = bytearray(connection.execute("SELECT data FROM block").fetchone()[0])
        data[len(data) // 2] ^= 1
        connection.execute("UPDATE block SET data = ?", (bytes(data),))
    connection.close()
    verdict = verify_run(path)
    assert not verdict.sound
    assert verdict.episodes == 0
    with RunStore.open(path) as run, pytest.raises(DataError, match=r"subquest runs verify .*run.sqlite --salvage"):
        run.episode("e")


def test_nothing_is_made_of_nothing(tmp_path: Path) -> None:
    source, target = tmp_path / "x.sqlite", tmp_path / "saved.sqlite"
    with pytest.raises(UsageError, match="there is no run"):
        salvage_run(source, target)
    for content in (b"hello world" * 2000, b"short", b""):
        source.write_bytes(content)
        with pytest.raises(DataError, match=r"nothing in .* is readable"):
            salvage_run(source, target)
    source.unlink()
    with closing(sqlite3.connect(source)) as db:
        db.execute("CREATE TABLE t (x)")
    with pytest.raises(DataError, match=r"x\.sqlite is an SQLite file, but not a run"):
        salvage_run(source, target)
    assert not target.exists()


def test_salvage_replaces_nothing(run_file: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    with pytest.raises(UsageError, match="already exists"):
        salvage_run(run_file, target)
    assert target.read_text() == "precious"


def test_a_table_whose_name_is_damaged(run_file: Path) -> None:
    """SQLite quotes the damaged text in its message, and Python cannot read it."""
    content = run_file.read_bytes()
    place = content.index(b"CREATE TABLE")
    run_file.write_bytes(content[:place] + b"CREATE T\xcc\xff\xfe" + content[place + 11 :])
    with pytest.raises(DataError):
        RunStore.open(run_file)


def test_numbers_and_names_that_are_none_any_more(tmp_path: Path) -> None:
    """Damage that SQLite does not see: a value that is gone, and a name that is not what the episode says."""
    path = tmp_path / "small.sqlite"
    with RunStore.create(path) as run:
        for n in range(4):
            run.add_episode(episode(f"e{n}", n), scores={"em": 1.0, "f1": 0.5}).wait()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET sql = replace(sql, ' NOT NULL', '')")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE score SET value = NULL WHERE episode = 'e1' AND metric = 'em'")
        db.execute("UPDATE episode SET id = 'd2', added = NULL WHERE id = 'e2'")
        db.execute("UPDATE episode SET body = 5 WHERE id = 'e3'")
        db.execute("UPDATE meta SET value = NULL WHERE key = 'settings'")
    db.close()
    with RunStore.open(path) as run, pytest.raises(DataError, match="is damaged"):
        run.scores()
    assert not verify_run(path).sound
    saved = salvage_run(path, tmp_path / "saved.sqlite")
    when = "attempt number and time of episode d2"
    assert set(saved.lost) == {when, "episode e3", "1 of the scores", "the settings"}
    assert check_saved(tmp_path / "saved.sqlite") == {"e0", "e1", "e2"}
    with RunStore.open(tmp_path / "saved.sqlite") as run:
        assert len(run.scores()) == 7
        assert all(e.events for e in run.episodes())
