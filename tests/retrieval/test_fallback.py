"""Without the kernel: the same files, the same results; and how the kernel comes to be."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from subquest import c_libraries
from subquest.c_libraries import SEARCH
from subquest.models import cache_folder
from subquest.record import Document
from subquest.retrieval import Index, kernel

WORDS = ["planet", "moon", "orbit", "comet", "star", "probe", "launch", "crater", "tide", "eclipse"]
DOCUMENTS = [
    Document(f"d{i}", f"Note {i % 9}", " ".join(WORDS[(i * j) % 10] for j in range(1, 4 + i % 7)) + f" number {i}")
    for i in range(400)
]
QUERIES = ["moon tide", "note 4 comet", "probe probe launch star", "number 77 of the planets"]


def contents(path: Path) -> list[bytes]:
    return [file.read_bytes() for file in sorted(path.glob("*.lex"))]


def test_plain_python_gives_the_same_index_and_hits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if kernel.library() is None:
        pytest.skip("no compiler here: there is only plain Python")
    with Index.build(tmp_path / "fast", DOCUMENTS) as index:
        index.remove(["d5", "d17"])
        fast = index.search_many(QUERIES, 20)
        filtered = index.search_many(QUERIES, 20, where={"absent": 1})
    monkeypatch.setenv("SUBQUEST_KERNEL", "off")
    assert "plain Python" in kernel.status()
    with Index.build(tmp_path / "plain", DOCUMENTS) as index:
        index.remove(["d5", "d17"])
        assert index.search_many(QUERIES, 20) == fast
        assert index.search_many(QUERIES, 20, where={"absent": 1}) == filtered == [[]] * 4
        assert index.verify() == []
    assert contents(tmp_path / "fast") == contents(tmp_path / "plain")
    with Index.open(tmp_path / "fast") as crossed:
        assert crossed.search_many(QUERIES, 20) == fast


def test_no_compiler_is_said_and_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_libraries, "compilers", list)
    assert "no C compiler" in SEARCH.compile(tmp_path / "k.so", "-march=native")
    monkeypatch.setattr(c_libraries, "compilers", lambda: [["/bin/false"], ["/nonexistent/cc"]])
    reason = SEARCH.compile(tmp_path / "k.so", "-march=native")
    assert "/bin/false" in reason
    assert "/nonexistent/cc" in reason
    assert list(tmp_path.iterdir()) == []


def test_a_compiled_kernel_is_in_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for own, users in (("/own", "/users"), ("", "/users"), ("", "")):
        monkeypatch.setenv("SUBQUEST_CACHE", own)
        monkeypatch.setenv("XDG_CACHE_HOME", users)
        assert SEARCH.cached.parent == cache_folder() / "kernel"


@pytest.mark.slow
def test_the_kernel_of_the_wheel_runs_anywhere(tmp_path: Path) -> None:
    """Compiled without -march=native, as for the wheel."""
    if not c_libraries.compilers():
        pytest.skip("no compiler here")
    target = tmp_path / "_kernel.so"
    assert SEARCH.compile(target) == ""
    assert ctypes.CDLL(str(target)).sq_version() == kernel.VERSION
