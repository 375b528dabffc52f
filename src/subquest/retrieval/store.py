"""The store: one SQLite file (WAL) that an index rests on; all other files can be rebuilt from it.

    documents   number, id, title, text, meta     numbers ascend and are never reused
    removed     number                            documents that a segment still holds but that were removed
    segments    name, kind, first, last, documents   the files of the current generation and the numbers they cover
    vectors     number, vector                    embeddings, where the index has an encoder
    settings    key, value                        format, analysis, BM25, encoder, generation, published
    files, origins, retired                       which files the documents come from (`ingest.ledger`)
    document_checks, vector_checks                checksums, a row each (`checks`)
    sums                                          checksums of the other tables and of the files, as a whole

Format 2 had no checksums. It is read as it is, and brought to format 3 by the first writer.

A *generation* is what one committed transaction shows: a set of segments and of removed numbers. Rows above the
`published` number belong to a write that is still running (or was killed); no reader sees them, and the next writer
publishes them.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import sqlite3
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from .. import checksums
from ..errors import DamagedIndex, DataError, SearchError, UsageError
from . import checks

FORMAT = 3
UNCHECKED_FORMAT = 2
"""The format without checksums."""
STORE = "store.db"
LOCK = "writer.lock"

_BLANK = 8192
"""Bytes that a store without tables may have: SQLite's first page."""

_PASSING = frozenset({
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
})  # fmt: skip
"""Failures of SQLite that say nothing about the content of the file."""

SCHEMA = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL, title TEXT NOT NULL, text TEXT NOT NULL, meta TEXT
);
CREATE INDEX documents_id ON documents (id);
CREATE TABLE removed (number INTEGER PRIMARY KEY);
CREATE TABLE segments (
    name TEXT PRIMARY KEY, kind TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, documents INTEGER NOT NULL
);
CREATE TABLE vectors (number INTEGER PRIMARY KEY, vector BLOB NOT NULL);
"""

CHECKS = f"""
CREATE TABLE document_checks (number INTEGER PRIMARY KEY, title INTEGER NOT NULL, content INTEGER NOT NULL);
CREATE TABLE vector_checks (number INTEGER PRIMARY KEY, vector INTEGER NOT NULL);
{checksums.SUMS};
"""

LEDGER = """
CREATE TABLE IF NOT EXISTS files (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, path TEXT NOT NULL, source TEXT NOT NULL,
    hash TEXT, how TEXT, passages INTEGER, empty_pages INTEGER, note TEXT, wrong TEXT
);
CREATE INDEX IF NOT EXISTS files_path ON files (path);
CREATE TABLE IF NOT EXISTS origins (
    shared INTEGER NOT NULL, first INTEGER NOT NULL, file INTEGER NOT NULL, last INTEGER NOT NULL,
    PRIMARY KEY (shared, first, file)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS origins_file ON origins (file);
CREATE TABLE IF NOT EXISTS retired (number INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS displaced (id TEXT NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (id, file)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS displaced_file ON displaced (file);
"""

SUMMED = ("settings", "segments", "removed")
"""The tables whose rows have no checksums of their own."""
SUMMED_LEDGER = ("files", "origins", "retired", "displaced")


def create(folder: Path, settings: dict[str, Any]) -> None:
    """Make an empty index with its settings, all or nothing.

    A killed process may have begun one, and another process may be creating it right now: the last one finds it done.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be created: {error.strerror}") from None
    with contextlib.closing(_connect(folder / STORE)) as db:
        with transaction(db):
            if _blank(db):
                _execute(db, SCHEMA + CHECKS)
                name = uuid.uuid4().hex
                first = {"format": FORMAT, "generation": 0, "published": 0, "name": name, "unchecked": 0}
                for key, value in (first | settings).items():
                    put(db, key, value)
                checksums.record_sums(db, SUMMED)
                checks.write_manifest(folder, name, 0)
        use_wal(db)


def _execute(db: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";"):
        db.execute(statement)


def add_checks(db: sqlite3.Connection, folder: Path) -> None:
    """Bring an index of format 2 to format 3; its documents get their checksums with the next `compact`."""
    for table in ("document_checks", "vector_checks", "sums"):
        db.execute(f"DROP TABLE temp.{table}")
    with transaction(db):
        _execute(db, CHECKS)
        (last,) = db.execute("SELECT coalesce(max(number), 0) FROM documents").fetchone()
        name = uuid.uuid4().hex
        for key, value in {"format": FORMAT, "name": name, "unchecked": last}.items():
            put(db, key, value)
        checksums.record_sums(db, (*SUMMED, *(SUMMED_LEDGER if has_ledger(db) else ())))
    checks.write_manifest(folder, name, get(db, "generation", 0))


def add_ledger(db: sqlite3.Connection) -> None:
    """The tables of files, where the index does not have them yet."""
    if not has_ledger(db):
        with transaction(db):
            _execute(db, LEDGER)
            checksums.record_sums(db, SUMMED_LEDGER)
    checksums.watch(db, SUMMED_LEDGER)


def use_wal(db: sqlite3.Connection) -> None:
    """Let readers continue while somebody writes (WAL); where a reader blocks this, the next writer does it."""
    with contextlib.suppress(sqlite3.OperationalError):
        db.execute("PRAGMA journal_mode = WAL")


def exists(folder: Path) -> bool:
    """Whether there is an index, or another file in the place of its store."""
    path = folder / STORE
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise UsageError(f"{folder} cannot be opened: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{str(folder)!r} cannot be the name of an index") from None
    if not stat.S_ISREG(status.st_mode):
        return False
    if status.st_size > _BLANK:
        return True
    try:
        with contextlib.closing(_connect(path)) as db:
            return not _blank(db)
    except sqlite3.DatabaseError:
        return True


def is_foreign(path: Path) -> bool:
    """Whether the folder of an unfinished index would not have this file."""
    return not path.name.startswith(STORE) and path.name not in (LOCK, checks.MANIFEST)


def _blank(db: sqlite3.Connection) -> bool:
    return db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _how_to_build(folder: Path) -> str:
    """What is missing and the command that builds it; never into an existing folder, which may hold documents."""
    if not folder.exists():
        return f"it does not exist. Build one with: subquest index build SOURCE --out {shlex.quote(str(folder))}"
    listed = folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)
    if not folder.name:
        return "it is the root of the file system. Build one with: subquest index build SOURCE --out docs.sq"
    unfinished = folder.suffix == ".sq" or (listed and not any(is_foreign(path) for path in folder.iterdir()))
    source, out = (Path("SOURCE"), folder) if unfinished else (folder, folder.with_suffix(".sq"))
    command = shlex.join(["subquest", "index", "build", str(source), "--out", str(out)])
    return f"there is no finished store.db in it. Build one with: {command}"


def connect(folder: Path) -> sqlite3.Connection:
    """A connection to an existing index whose format this version understands."""
    if not exists(folder):
        raise UsageError(f"{folder} is not an index: {_how_to_build(folder)}")
    try:
        try:
            db, found = _with_format(_connect(folder / STORE))
        except sqlite3.OperationalError:
            if os.access(folder, os.W_OK):
                raise
            db, found = _with_format(_connect_frozen(folder))
    except UnicodeDecodeError:  # SQLite's message about a table whose definition is damaged
        raise DamagedIndex(f"{folder / STORE} is damaged; rebuild it from its source") from None
    except sqlite3.DatabaseError as error:
        if _is_passing(error):
            free = shutil.disk_usage(folder).free
            raise SearchError(
                f"{folder} cannot be opened now ({error}; {free:,} bytes are free on its disk); its content is intact"
            ) from None
        raise DamagedIndex(f"{folder / STORE} is not an index ({error}); rebuild it from its source") from None
    except DataError as error:
        raise DamagedIndex(f"{folder / STORE}: {error}") from None
    with _closing_on_error(db):
        if found == UNCHECKED_FORMAT:
            if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'sums'").fetchone():
                raise damaged(folder, "its format is not what was written")
            db.execute("PRAGMA temp_store = MEMORY")
            _execute(db, CHECKS.replace("CREATE TABLE", "CREATE TEMP TABLE"))  # empty: nothing can be checked
        elif found != FORMAT:
            raise DataError(
                f"{folder} has index format {found}, this version reads format {FORMAT}; export it with the version "
                "that wrote it and import it again, or rebuild it from its source"
            )
    return db


@contextlib.contextmanager
def _closing_on_error(db: sqlite3.Connection) -> Iterator[None]:
    """Close the connection where the block raises: an error that is kept would keep the store's files open."""
    try:
        yield
    except BaseException:
        db.close()
        raise


def _with_format(db: sqlite3.Connection) -> tuple[sqlite3.Connection, Any]:
    with _closing_on_error(db):
        return db, get(db, "format", None)


def _is_passing(error: sqlite3.DatabaseError) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING


@contextlib.contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Turn what SQLite raises while an index is read into a SearchError that says whether the index is damaged."""
    try:
        yield
    except (sqlite3.ProgrammingError, sqlite3.IntegrityError):
        raise
    except sqlite3.DatabaseError as error:
        if _is_passing(error):
            raise SearchError(f"{folder} cannot be read now: {error}; its content is intact") from None
        raise damaged(folder, error) from None
    except UnicodeDecodeError as error:  # from SQLite's message about a table whose definition is damaged
        raise damaged(folder, error) from None


def damaged(folder: Path, what: object) -> DamagedIndex:
    return DamagedIndex(
        f"{folder / STORE} is damaged ({str(what)[:200]}); see `subquest index verify`, and rebuild it from its source"
    )


def _connect(path: Path | str, *, uri: bool = False) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60.0, isolation_level=None, check_same_thread=False, uri=uri)
    with _closing_on_error(db):
        db.executescript("PRAGMA synchronous = FULL; PRAGMA cache_size = -16000")
    return db


def _connect_frozen(folder: Path) -> sqlite3.Connection:
    """A connection where nothing may be written, not even SQLite's own files: a container image, a read-only disk.

    The index is read as it is; nobody may write to it meanwhile.
    """
    log = folder / f"{STORE}-wal"
    if log.exists() and log.stat().st_size:
        raise DataError(
            f"{folder} may not be written here, and its last writer has not finished; open it once where it can be "
            "written, or make a copy"
        )
    return _connect(f"{(folder / STORE).absolute().as_uri()}?mode=ro&immutable=1", uri=True)


def get(db: sqlite3.Connection, key: str, default: Any) -> Any:
    row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    return default if row is None else parsed(key, row[0])


def parsed(key: str, value: Any) -> Any:
    """The value of a setting."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, ValueError, TypeError):
        raise DamagedIndex(
            f"the index is damaged: its setting {key!r} cannot be read; rebuild it from its source"
        ) from None


def put(db: sqlite3.Connection, key: str, value: Any) -> None:
    db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))


def is_checked(db: sqlite3.Connection) -> bool:
    """Whether the index has checksums."""
    return bool(get(db, "format", None) != UNCHECKED_FORMAT)


def has_ledger(db: sqlite3.Connection) -> bool:
    """Whether files were ever ingested: the first ones create the tables of `ingest.ledger`."""
    return db.execute("SELECT 1 FROM sqlite_master WHERE name = 'displaced'").fetchone() is not None


def retired(db: sqlite3.Connection) -> list[int]:
    """Documents that the next publication removes."""
    if not has_ledger(db):
        return []
    return [number for (number,) in db.execute("SELECT number FROM retired ORDER BY number")]


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing."""
    try:
        db.execute("BEGIN IMMEDIATE")
        yield
        db.execute("COMMIT")
    except sqlite3.OperationalError as error:
        _rollback(db)
        raise SearchError(f"the index could not be written: {error}; what was there before is intact") from error
    except BaseException:
        _rollback(db)
        raise


def _rollback(db: sqlite3.Connection) -> None:
    if db.in_transaction:
        db.execute("ROLLBACK")


@contextlib.contextmanager
def writer_lock(folder: Path) -> Iterator[None]:
    """One writer at a time; the lock ends with the process, however that ends."""
    try:
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip() or "unknown"
            raise UsageError(
                f"{folder} is being written by process {holder}; wait until it is done (searching works meanwhile)"
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)
