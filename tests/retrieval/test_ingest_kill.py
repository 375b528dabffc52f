"""kill -9 during the ingestion of a folder, then the same again: the index is that of an unbroken run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index, segment_builder, writer
from subquest.retrieval.ingest import State, ingest

from ..readers.made import pdf
from .test_crash import killed

FILES = 30
KILLS = 10


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH", 16)
    monkeypatch.setattr(writer, "COMMIT_EVERY", 48)
    monkeypatch.setattr(segment_builder, "SEGMENT_DOCUMENTS", 200)


def write(docs: Path, n: int, version: int, generator: random.Random) -> None:
    """File number n: text, a corpus or a PDF, of another length each time, or gone."""
    sentences = [
        f"Sentence {i} of file {n} in version {version}, with a few words." for i in range(generator.randrange(90))
    ]
    for old in docs.glob(f"{n}.*"):
        old.unlink()
    if n % 10 == 0:
        (docs / f"{n}.pdf").write_bytes(pdf(*(sentences or [" "])))
    elif n % 3 == 0:
        lines = [json.dumps({"id": f"{n}-{i}", "text": text}) for i, text in enumerate(sentences)]
        (docs / f"{n}.jsonl").write_text("\n".join(lines))
    elif sentences:
        (docs / f"{n}.txt").write_text("\n\n".join(sentences))


def fresh(folder: Path, docs: Path) -> list[Document]:
    with Index.build(folder, []) as index:
        ingest(index, [docs])
        return sorted(index.documents(), key=lambda document: document.id)


@pytest.mark.slow
def test_a_killed_ingestion_that_runs_again_gives_the_same_index(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2", reason="ingestion of PDF needs the extra `web-tools`")
    docs, generator, broken = tmp_path / "docs", random.Random(5), 0
    docs.mkdir()
    for n in range(FILES):
        write(docs, n, 0, generator)
    Index.build(tmp_path / "i.sq", []).close()
    for version in range(1, KILLS + 1):

        def work(acknowledge: Callable[[str], None]) -> None:
            def told(state: State) -> None:
                acknowledge(f"{state.files}")

            with Index.open(tmp_path / "i.sq") as index:
                ingest(index, [docs], prune=True, progress=told)
                acknowledge("done")

        given = killed(work, generator.randrange(300), generator.uniform(0.0, 0.03))
        broken += "done" not in given
        with Index.open(tmp_path / "i.sq") as index:
            assert index.verify() == []
            if version % 4:
                ingest(index, [docs], prune=True)
                assert index.verify() == []
                found = sorted(index.documents(), key=lambda document: document.id)
                assert found == fresh(tmp_path / f"fresh{version}.sq", docs)
                assert ingest(index, [docs], prune=True).files == 0
        for n in generator.sample(range(FILES), 12):
            write(docs, n, version, generator)
    assert broken >= KILLS // 2, broken


def test_a_killed_build_keeps_the_order(tmp_path: Path) -> None:
    """Documents stand in the order of an unbroken build, so that ties are the same."""
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(1, FILES, 2):
        write(docs, n, 0, random.Random(n))
    Index.build(tmp_path / "i.sq", []).close()

    def work(acknowledge: Callable[[str], None]) -> None:
        with Index.open(tmp_path / "i.sq") as index:
            ingest(index, [docs], progress=lambda state: acknowledge(str(state.passages)))

    killed(work, 150, 0.0)
    with Index.open(tmp_path / "i.sq") as index, Index.build(tmp_path / "whole.sq", []) as whole:
        ingest(index, [docs])
        ingest(whole, [docs])
        assert list(index.documents()) == list(whole.documents())
        query = "sentence 7 version 0"
        assert index.search(query, 50) == whole.search(query, 50)
