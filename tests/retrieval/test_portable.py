"""Indexes on the move: to a file and back, between places, by the command line."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.cli import main
from subquest.errors import DataError, UsageError
from subquest.record import Document
from subquest.retrieval import BM25, Index
from subquest.retrieval.locations import is_backend, open_place
from subquest.retrieval.transfer import PortableFile, copy, write

from .embeddings import embeddings_server
from .passages import LIBRARY


@pytest.fixture(scope="module")
def vectors() -> Iterator[str]:
    with embeddings_server(16) as (url, _):
        yield f"hashed-words@{url}"


def said(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_an_index_comes_back_from_a_file_as_it_was(tmp_path: Path, vectors: str) -> None:
    file = tmp_path / "library.jsonl.gz"
    odd = Document("half", "", "a lone \ud800 sign", {"deep": {"a": [1, None]}})
    with Index.build(tmp_path / "a.sq", [*LIBRARY, odd], bm25=BM25(0.9, 0.4), encoder=vectors) as index:
        with gzip.open(file, "wt") as out:
            assert write(index, out) == 5
        source = PortableFile(file)
        assert source.settings == index.settings
        with Index.create(tmp_path / "b.sq", source.settings) as back:
            assert copy(source, back).added == 5
            assert copy(source, back).unchanged == 5
            assert list(back.documents()) == list(index.documents())
            assert back.settings == index.settings
            assert back.verify() == []
            for mode in ("bm25", "dense", "hybrid"):
                assert back.search("bridge at Kelso", 3, mode=mode) == index.search("bridge at Kelso", 3, mode=mode)


def test_vectors_of_another_encoder_are_not_mixed_in(tmp_path: Path, vectors: str) -> None:
    with embeddings_server(16) as (url, _):
        one = Index.build(tmp_path / "a.sq", LIBRARY, encoder=vectors)
        other = Index.build(tmp_path / "b.sq", LIBRARY[:1], encoder=f"other@{url}")
        with one, other, pytest.raises(UsageError, match="choose another target"):
            copy(one, other)


def test_passages_that_come_without_vectors_are_embedded(tmp_path: Path, vectors: str) -> None:
    with Index.build(tmp_path / "a.sq", LIBRARY[:2], encoder=vectors) as target:
        with Index.build(tmp_path / "b.sq", LIBRARY) as source:
            changes = copy(source, target)
        assert (changes.added, changes.unchanged) == (2, 2)
        assert target.info().vectors == 4
        assert target.search("river Tweed", 1, mode="dense")[0].document.id == "river"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x", "title": "", "text": "", "vector": "AAAA"}', "line 3: not a passage"),
        ('{"id": "x", "title": ""}', "line 3: not a passage"),
        ("{", "line 3: not JSON"),
        ("[]", "line 3: not a passage"),
    ],
)
def test_a_broken_line_is_named_and_what_came_before_is_kept(
    tmp_path: Path, vectors: str, line: str, problem: str
) -> None:
    file = tmp_path / "library.jsonl"
    with Index.build(tmp_path / "a.sq", LIBRARY[:1], encoder=vectors) as index, open(file, "w") as out:
        write(index, out)
        out.write(line + "\n")
    source = PortableFile(file)
    with Index.create(tmp_path / "b.sq", source.settings) as back:
        with pytest.raises(DataError, match=problem):
            copy(source, back)
        assert len(back) == 1


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ('{"subquest_index": 9, "settings": {}}', "format 9"),
        ('{"subquest_index": 1, "settings": {"bm25": {}}}', "settings"),
        ('{"subquest_index": 1, "sett', "not JSON"),
    ],
)
def test_a_file_of_another_version_is_refused(tmp_path: Path, first: str, problem: str) -> None:
    (tmp_path / "f.jsonl").write_text(first + "\n")
    with pytest.raises(DataError, match=problem):
        PortableFile(tmp_path / "f.jsonl")


def test_commands_export_import_and_copy(
    tmp_path: Path, vectors: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Index.build("a.sq", LIBRARY, encoder=vectors).close()
    assert main(["index", "export", "a.sq", "--out", "whole.jsonl.gz", "--vectors", "--json"]) == 0
    assert said(capsys) == {"file": "whole.jsonl.gz", "documents": 4}
    assert main(["index", "import", "whole.jsonl.gz", "--out", "b.sq", "--json"]) == 0
    assert said(capsys) == {"index": "b.sq", "documents": 4, "added": 4, "updated": 0, "unchanged": 0}
    assert main(["index", "copy", "b.sq", "lance:there", "--json"]) == 0
    assert said(capsys)["documents"] == 4
    assert main(["index", "copy", "b.sq", "lance:there", "--json"]) == 0
    assert said(capsys)["unchanged"] == 4
    assert main(["search", "abbey café", "--index", "lance:there", "-k", "1", "--mode", "hybrid", "--json"]) == 0
    hits = said(capsys)["hits"]
    assert isinstance(hits, list)
    assert hits[0]["id"] == "kelso"
    assert main(["index", "remove", "lance:there", "kelso", "--json"]) == 0
    assert said(capsys)["documents"] == 3
    assert main(["index", "info", "lance:there", "--json"]) == 0
    assert said(capsys)["width"] == 16
    assert main(["index", "export", "lance:there", "--out", "plain.jsonl"]) == 0
    lines = [json.loads(line) for line in Path("plain.jsonl").read_text().splitlines()]
    assert sorted(line["id"] for line in lines) == ["bridge", "river", "tolland"]
    assert not any("vector" in line for line in lines)
    assert not list(Path().glob(".*.part"))


def test_wrong_places_are_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.txt").write_text("some text")
    for command, problem in (
        (["index", "build", "x.txt", "--out", "lance:there"], "subquest index copy"),
        (["index", "copy", "nothing.sq", "lance:there"], "not an index"),
        (["index", "copy", "lance:there", "b.sq"], "no collection"),
        (["index", "copy", "lance:there", "lance:there"], "itself"),
        (["index", "import", "nothing.jsonl", "--out", "b.sq"], "no such file"),
        (["search", "x", "--index", "mongodb://host/x"], "an index is a folder"),
    ):
        assert main(command) == 2
        assert problem in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "there") == ["x.txt"]


def test_places_say_which_are_backends() -> None:
    assert is_backend("postgres://h/d")
    assert is_backend("lance:s3://b/p")
    assert not is_backend("http://host:8000")
    assert not is_backend("docs.sq")
    with pytest.raises(UsageError, match="not an index"):
        open_place("docs.sq")
