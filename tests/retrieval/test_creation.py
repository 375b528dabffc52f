"""Making an index: killed on the way, by two at once, or where something else stands."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from subquest.errors import UsageError
from subquest.record import Document
from subquest.retrieval import Index

ONE = Document("1", "Hat", "A hat of straw.")


def begun(folder: Path, how: str) -> None:
    """What a process leaves that was killed while it made an index."""
    folder.mkdir()
    if how == "file":
        (folder / "store.db").touch()
    elif how == "page":
        db = sqlite3.connect(folder / "store.db")
        db.execute("PRAGMA journal_mode = WAL")
        db.close()
    else:
        killed = (
            "import os, sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
            "db.execute('PRAGMA journal_mode = WAL'); db.execute('BEGIN IMMEDIATE')\n"
            "db.execute('CREATE TABLE settings (key TEXT)'); os.kill(os.getpid(), 9)"
        )
        subprocess.run([sys.executable, "-c", killed, str(folder / "store.db")], check=False)


@pytest.mark.parametrize("how", ["file", "page", "table"])
def test_a_killed_creation_is_finished_by_the_next(tmp_path: Path, how: str) -> None:
    folder = tmp_path / "i"
    begun(folder, how)
    with pytest.raises(UsageError, match="no finished store"):
        Index.open(folder)
    with Index.build(folder, [ONE]) as index:
        assert [hit.document.id for hit in index.search("straw")] == ["1"]
        assert index.verify() == []
    with closing(sqlite3.connect(folder / "store.db")) as db, db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "i"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "store.db")) as db, db:
        db.execute("CREATE TABLE letters (text TEXT)")
    with pytest.raises(UsageError):
        Index.build(folder, [ONE])
    with closing(sqlite3.connect(folder / "store.db")) as db, db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("letters",)]


def test_several_make_the_same_index_at_once(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from subquest.retrieval import Index\n"
        "from subquest.retrieval.settings import Settings\n"
        "for n in range(20):\n"
        "    with Index.create(f'{sys.argv[1]}/{n}', Settings()) as index: assert len(index) == 0"
    )
    makers = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [(maker.communicate()[1], maker.returncode) for maker in makers] == [("", 0)] * 3


def test_a_folder_that_may_not_be_written_is_read(tmp_path: Path) -> None:
    """As on a read-only disk: root, whom permissions do not bind, gets a real one."""
    folder = tmp_path / "i"
    Index.build(folder, [ONE]).close()
    code = (
        "import sys\n"
        "from subquest.errors import UsageError\n"
        "from subquest.record import Document\n"
        "from subquest.retrieval import Index\n"
        "with Index.open(sys.argv[1]) as index:\n"
        "    assert [hit.document.id for hit in index.search('straw')] == ['1'] and index.verify() == []\n"
        "    assert index.info().documents == len(index) == 1\n"
        "    try: index.add([Document('2', '', 'x')])\n"
        "    except UsageError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(folder)]
    if os.geteuid() == 0:
        mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
        if subprocess.run(["unshare", "-m", "sh", "-c", mount, str(folder)], capture_output=True).returncode:
            pytest.skip("root without the right to mount")
        command = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', str(folder), *command]
    else:
        folder.chmod(0o555)
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    finally:
        folder.chmod(0o755)
    assert "cannot be written" in done.stdout, done.stderr
