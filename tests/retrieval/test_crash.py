"""kill -9 at any moment: the index opens, is sound, and holds every document whose write was acknowledged."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index

from .embeddings import embeddings_server

KILLS = 20
AHEAD = 5


def document(i: int, version: int = 0) -> Document:
    return Document(f"d{i}", f"Title {i}", f"unique{i} version{version} " + "some common words of a passage " * 3)


def killed(work: Callable[[Callable[[str], None]], None], after: int, seconds: float) -> list[str]:
    """Run `work` in a process, kill it some time after so many acknowledgements (or its end); all that it gave.

    However late we are, it gives `AHEAD` more at most, and then waits.
    """
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        left = after + AHEAD

        def acknowledge(line: str) -> None:
            nonlocal left
            os.write(write, f"{line}\n".encode())
            left -= 1
            while not left:
                signal.pause()

        try:
            work(acknowledge)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        given = [line for _, line in zip(range(after), pipe, strict=False)]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return [line.strip() for line in [*given, *pipe] if line.endswith("\n")]


def check(path: Path, wanted: dict[str, int]) -> None:
    """Sound before and after the next writer cleaned up; every acknowledged version can be found."""
    with Index.open(path) as index:
        assert index.verify() == []
        for identifier, version in wanted.items():
            found = index.get(identifier)
            assert found is not None
            assert int(found.text.split("version")[1].split()[0]) >= version
        index.add([])
        assert index.verify() == []
        assert index.info().unpublished == 0
        for identifier in list(wanted)[-20:]:
            assert identifier in [hit.document.id for hit in index.search(f"unique{identifier[1:]}", 3)]


@pytest.mark.slow
def test_add(tmp_path: Path) -> None:
    path, generator = tmp_path / "i", random.Random(1)
    Index.build(path, [document(i) for i in range(50)]).close()
    wanted = {f"d{i}": 0 for i in range(50)}
    for version in range(1, KILLS + 1):

        def work(acknowledge: Callable[[str], None], version: int = version) -> None:
            with Index.open(path) as index:
                for start in range(0, 2000, 20):
                    index.add(document(i, version) for i in range(start, start + 20))
                    acknowledge(str(start))

        for start in killed(work, generator.randrange(6), generator.uniform(0.0, 0.05)):
            wanted.update({f"d{i}": version for i in range(int(start), int(start) + 20)})
        check(path, wanted)
    assert len(wanted) > 50


@pytest.mark.slow
def test_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is killed again and again goes on where it was, and loses nothing that was published."""
    from subquest.retrieval import segment_builder, writer

    monkeypatch.setattr(writer, "COMMIT_EVERY", 512)
    monkeypatch.setattr(segment_builder, "SEGMENT_DOCUMENTS", 1000)
    path, generator, most = tmp_path / "i", random.Random(2), 0
    for _ in range(KILLS):

        def work(acknowledge: Callable[[str], None]) -> None:
            documents = map(document, range(20_000))
            Index.build(path, documents, progress=lambda more: acknowledge(str(more))).close()

        killed(work, generator.randrange(1, 12), generator.uniform(0.0, 0.05))
        if not (path / "store.db").exists():
            continue
        with Index.open(path) as index:
            assert index.verify() == []
            stored = len(index)
            assert stored >= most
            most = stored
            if stored:
                last = stored - 1
                assert index.search(f"unique{last}", 1)[0].document.id == f"d{last}"
    assert most > 0
    with Index.build(path, map(document, range(most + 10))) as index:
        assert len(index) >= most + 10
        assert index.verify() == []


@pytest.mark.slow
def test_compact(tmp_path: Path) -> None:
    path, generator = tmp_path / "i", random.Random(3)
    Index.build(path, [document(i) for i in range(300)]).close()
    wanted = {f"d{i}": 0 for i in range(300)}
    for version in range(1, KILLS + 1):
        with Index.open(path) as index:
            index.add(document(i, version) for i in range(version, 300, 30))
        wanted.update({f"d{i}": version for i in range(version, 300, 30)})
        killed(lambda _: Index.open(path).compact(), 0, generator.uniform(0.0, 0.06))
        check(path, wanted)


@pytest.mark.slow
def test_embed(tmp_path: Path) -> None:
    """An embedding job that is killed goes on where it was, and the index is sound at every moment."""
    pytest.importorskip("numpy", reason="vectors need the extra `dense`")
    from subquest.retrieval import embedding

    path, generator, most = tmp_path / "i", random.Random(4), 0
    Index.build(path, [document(i) for i in range(400)]).close()
    embedding.STEP, step = 16, embedding.STEP
    try:
        with embeddings_server() as (url, _):
            for _ in range(KILLS // 2):

                def work(acknowledge: Callable[[str], None]) -> None:
                    with Index.open(path) as index:
                        index.embed(f"m@{url}", progress=lambda more: acknowledge(str(more)))

                killed(work, generator.randrange(3), generator.uniform(0.0, 0.05))
                with Index.open(path) as index:
                    assert index.verify() == []
                    assert index.info().vectors >= most
                    most = index.info().vectors
            with Index.open(path) as index:
                assert index.embed(f"m@{url}") == 400 - most
                assert index.info().vectors == 400
                assert len(index.search("unique7", 400, mode="dense")) == 400
    finally:
        embedding.STEP = step
    assert most > 0
