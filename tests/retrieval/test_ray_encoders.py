"""Embedding on a Ray cluster: a real one, started on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import SearchError, UsageError
from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval import embedding as embedding
from subquest.retrieval.ray_encoders import RayEncoders

from .embeddings import embeddings_server

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def vectors() -> Iterator[str]:
    with embeddings_server(16) as (url, _):
        yield f"hashed-words@{url}"


def documents(count: int) -> list[Document]:
    return [Document(str(i), f"title {i}", f"word{i} word{i % 7} word{i % 3}") for i in range(count)]


def test_vectors_made_on_a_cluster_are_those_made_here(
    tmp_path: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "STEP", 10)
    done: list[int] = []
    with (
        Index.build(tmp_path / "here.sq", documents(75), encoder=vectors) as here,
        Index.build(tmp_path / "there.sq", documents(75)) as there,
    ):
        with RayEncoders("auto", vectors, workers=2) as through:
            assert there.embed(vectors, through=through, progress=done.append) == 75
            assert there.embed(vectors, through=through) == 0
        assert sum(done) == 75
        assert max(done) == 10
        assert there.verify() == []
        queries = ["word5 word2", "title 70"]
        assert there.search_many(queries, 5, mode="dense") == here.search_many(queries, 5, mode="dense")


def test_a_failed_job_keeps_what_was_done_and_goes_on(
    tmp_path: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding, "STEP", 5)
    bad = Document("17", "title 17", "fail here")
    with Index.build(tmp_path / "a.sq", [*documents(17), bad, *documents(40)[18:]]) as index:
        with RayEncoders("auto", vectors, workers=1) as through:
            with pytest.raises(SearchError, match="status 400"):
                index.embed(vectors, through=through)
            kept = index.info().vectors
            assert 0 < kept < 40
            index.add([Document("17", "title 17", "now it is well")])
        assert index.info().vectors == 40  # the add embedded what was missing
        with RayEncoders("auto", vectors, workers=1) as through:
            assert index.embed(vectors, through=through) == 0


def test_the_command_embeds_on_a_cluster(tmp_path: Path, vectors: str, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "a.sq")
    Index.build(folder, documents(12)).close()
    assert main(["index", "embed", folder, "--encoder", vectors, "--ray", "auto", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["embedded"] == 12
    assert main(["index", "embed", folder, "--workers", "2"]) == 2


def test_a_cluster_that_is_not_there_is_a_usage_error() -> None:
    import subquest.retrieval.ray_encoders as cluster

    class Unjoined:
        @staticmethod
        def is_initialized() -> bool:
            return False

    with pytest.raises(UsageError, match="no Ray cluster"):
        cluster.join(Unjoined, "127.0.0.1:9")
