"""The file of a run: its tables, how it is created, opened and found, and what is wrong with other files.

A run is one SQLite file in write-ahead mode. Records are added and never changed, so a reader needs no lock and a
killed writer leaves at worst a tail that SQLite drops. The tables:

    meta       settings, time of creation
    block      pieces of content (see `pack`), numbered from `first`, compressed together
    piece      hash of a piece that may occur again -> its number
    question   each distinct question
    episode    finished episodes; the columns serve filters, lists and checks, `body` holds the record
    trajectory each episode's contexts, in order
    failure    what went wrong in an episode
    event      parts of an episode's event stream, also of episodes that never finished
    score      scores of an episode
    metric     numbers of the run as a whole, by step
    sums       checksums of these tables (`checksums`); format 1 had none, and gets them from the first writer
"""

from __future__ import annotations

import os
import re
import shlex
import sqlite3
import uuid
from collections.abc import Collection
from pathlib import Path

from .. import checksums
from ..errors import DataError, UsageError

SCHEMA_VERSION = 2
APPLICATION_ID = 0x53715275
"""`SqRu`, in the header of every run file."""
RUN_FILE = "run.sqlite"
"""The name of the run file in a run that is a folder."""
PAGE_SIZE = 4096
BUSY_SECONDS = 60.0

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE block (first INTEGER PRIMARY KEY, count INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE piece (hash BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE question (number INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, id TEXT NOT NULL, dataset TEXT NOT NULL,
  split TEXT NOT NULL, body BLOB NOT NULL);
CREATE TABLE episode (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, question INTEGER NOT NULL,
  attempt INTEGER NOT NULL, system TEXT NOT NULL, model TEXT NOT NULL, answer TEXT NOT NULL, stop_reason TEXT NOT NULL,
  forced INTEGER NOT NULL, added REAL NOT NULL, trajectories INTEGER NOT NULL, failures INTEGER NOT NULL,
  events INTEGER NOT NULL, body BLOB NOT NULL);
CREATE TABLE trajectory (number INTEGER PRIMARY KEY, episode INTEGER NOT NULL, id TEXT NOT NULL, role TEXT NOT NULL,
  body BLOB NOT NULL);
CREATE TABLE failure (number INTEGER PRIMARY KEY, episode INTEGER NOT NULL, place TEXT NOT NULL, fatal INTEGER NOT NULL,
  body BLOB NOT NULL);
CREATE TABLE event (number INTEGER PRIMARY KEY, episode TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
  body BLOB NOT NULL, UNIQUE (episode, first));
CREATE TABLE score (episode TEXT NOT NULL, metric TEXT NOT NULL, value NOT NULL,
  PRIMARY KEY (episode, metric)) WITHOUT ROWID;
CREATE TABLE metric (name TEXT NOT NULL, step INTEGER NOT NULL, value NOT NULL, PRIMARY KEY (name, step)) WITHOUT ROWID;
CREATE INDEX episode_question ON episode (question, attempt);
CREATE INDEX trajectory_episode ON trajectory (episode);
CREATE INDEX failure_episode ON failure (episode);
"""
SUMMED = ("meta", "block", "piece", "question", "episode", "trajectory", "failure", "event", "score", "metric")
SCHEMA = f"{TABLES}{checksums.SUMS};"


def run_path(path: str | os.PathLike[str]) -> Path:
    """The run file at a path: the path itself, or `run.sqlite` in it if it is a folder."""
    found = Path(path)
    return found / RUN_FILE if found.is_dir() else found


def new_run_path(path: str | os.PathLike[str]) -> Path:
    """The run file at a path, as `run_path`. Raises UsageError for a folder that holds other things and no run."""
    file = run_path(path)
    if file != Path(path) and not file.exists():
        refuse_foreign(Path(path))
    return file


def refuse_foreign(folder: Path, own: Collection[str] = ()) -> None:
    """Raise UsageError if a folder holds files that do not belong to a run; logs, hidden and empty files may be there,
    and what is named in `own`."""
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        harmless = path.name in own or path.name.startswith((".", "run.")) or path.suffix in _LOGS
        if not harmless and (path.is_dir() or path.stat().st_size):
            raise UsageError(
                f"{folder} holds other things, such as {path.name}, and no run: name a new folder for the run"
            )


_LOGS = (".log", ".out", ".err")
VERDICTS = ".judge.sqlite"
"""Suffix of the file that keeps the verdicts of a judge on a run."""


def runs_in(folder: Path) -> dict[str, Path]:
    """The runs of a folder by name: `NAME.sqlite`, a run file without a suffix, or a folder with a `run.sqlite`."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir() if folder.is_dir() else ()):
        if path.is_dir() and (path / RUN_FILE).is_file():
            found[path.name] = path / RUN_FILE
        elif path.is_file() and (_is_marked(path) or (path.suffix == ".sqlite" and not path.name.endswith(VERDICTS))):
            name = path.stem if path.suffix == ".sqlite" else path.name
            found[path.name if name in found else name] = path
    return found


def _is_marked(path: Path) -> bool:
    """Whether the header of a file says that it is a run; one that is still being created is not."""
    if re.search(r"\.[0-9a-f]{8}\.new$", path.name):
        return False
    try:
        with path.open("rb") as file:
            header = file.read(72)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[68:] == APPLICATION_ID.to_bytes(4, "big")


def create_file(path: Path, meta: dict[str, str]) -> None:
    """Create an empty run. It appears complete or not at all, and never replaces a file."""
    if not path.parent.is_dir():
        raise UsageError(f"cannot create the run {path}: there is no folder {path.parent}")
    if path.exists():
        raise UsageError(f"the run {path} already exists; open it to resume it, or choose another name")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot create the run {path}: no permission to write into {path.parent}")
    scratch = f"{path}.{uuid.uuid4().hex[:8]}.new"
    try:
        connection = sqlite3.connect(scratch, isolation_level=None)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            connection.executescript(f"BEGIN; {SCHEMA} COMMIT;")
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            checksums.record_sums(connection, SUMMED)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            connection.close()
        try:
            os.link(scratch, path)
        except FileExistsError:
            raise UsageError(f"the run {path} already exists; open it to resume it, or choose another name") from None
        _sync_folder(path.parent)
    except (OSError, sqlite3.Error) as error:
        raise UsageError(f"cannot create the run {path}: {error}") from None
    finally:
        for leftover in (scratch, f"{scratch}-wal", f"{scratch}-shm"):
            Path(leftover).unlink(missing_ok=True)


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open a run file; raises a UsageError that says what is wrong with any other file."""
    _check_file(path)
    connection = _open(path, write)
    try:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != APPLICATION_ID:
            raise DataError(f"{path} is an SQLite file, but not a run of Subquest")
        if version > SCHEMA_VERSION:
            raise DataError(
                f"{path} was written by a newer Subquest (run format {version}, this one reads up to "
                f"{SCHEMA_VERSION}); upgrade Subquest to read it"
            )
        connection.execute("SELECT count(*) FROM meta").fetchone()
        if write:
            connection.execute("PRAGMA synchronous = FULL")  # a commit is on the disk when it returns
            if version < SCHEMA_VERSION:
                _add_sums(connection)
            checksums.watch(connection, SUMMED)
    except sqlite3.DatabaseError as error:
        connection.close()
        raise damaged(path, error) from None
    except BaseException:
        connection.close()
        raise
    return connection


def _add_sums(connection: sqlite3.Connection) -> None:
    """Bring a run to the present format, unless another process has just done that."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
            connection.execute(checksums.SUMS)
            checksums.record_sums(connection, SUMMED)
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def damaged(path: Path, error: object) -> DataError:
    return DataError(
        f"the run {path} is damaged ({error}); recover what is readable with: "
        f"subquest runs verify {shlex.quote(str(path))} --salvage NEW.sqlite"
    )


def _check_file(path: Path) -> None:
    """Check name and size only: opening and closing a file that SQLite holds would drop SQLite's locks on it."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise UsageError(f"there is no run {path}") from None
    except OSError as error:
        raise UsageError(f"cannot read the run {path}: {error.strerror}") from None
    if not path.is_file():
        raise UsageError(f"{path} is not a file")
    if size == 0:
        raise DataError(f"{path} is empty, not a run; remove it and start the run again")


def _open(path: Path, write: bool) -> sqlite3.Connection:
    uri = path.absolute().as_uri()

    def connected(options: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            f"{uri}?{options}", uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_SECONDS
        )
        try:
            connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    try:
        try:
            connection = connected("mode=rw")
        except sqlite3.OperationalError:  # no shared-memory file can be created in a read-only folder
            if write or os.access(path.parent, os.W_OK):
                raise
            connection = connected("mode=ro&immutable=1")
        if not write:  # not mode=ro: a reader that could not write would leave its log files behind
            connection.execute("PRAGMA query_only = ON")
        return connection
    except sqlite3.OperationalError as error:
        raise UsageError(f"cannot open the run {path}: {error}") from None
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error):
            raise DataError(
                f"{path} is not a run of Subquest; if it was one, try: "
                f"subquest runs verify {shlex.quote(str(path))} --salvage NEW.sqlite"
            ) from None
        raise damaged(path, error) from None
    except UnicodeDecodeError as error:  # from a message that quotes a damaged table
        raise damaged(path, error) from None


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
