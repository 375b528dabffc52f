"""Indexes on the move: to a file and back, between places, by the command line."""

from __future__ import annotations

import base64
import gzip
import json
import math
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError, SearchError, UsageError
from subquest.record import Document
from subquest.retrieval import BM25, Index
from subquest.retrieval.encoder import EncoderSpec
from subquest.retrieval.locations import is_backend, open_place
from subquest.retrieval.settings import Entry, Settings
from subquest.retrieval.transfer import PortableFile, copy, write

from .embeddings import embeddings_server
from .library import LIBRARY

np = pytest.importorskip("numpy", reason="vectors need the extra `dense`")


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


NOT_FINITE = json.dumps({
    "id": "x", "title": "", "text": "", "vector": base64.b64encode(struct.pack("<64e", *[math.nan] * 64)).decode()
})  # fmt: skip


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"id": "x", "title": "", "text": "", "vector": "AAAA"}', "line 3: not a passage"),
        ('{"id": "x", "title": ""}', "line 3: not a passage"),
        ("{", "line 3: not JSON"),
        ("[]", "line 3: not a passage"),
        ('{"id": 5, "title": "", "text": ""}', r"line 3: not a passage .*`\$.id`"),
        ('{"id": null, "title": "", "text": ""}', r"line 3: not a passage .*`\$.id`"),
        ('{"id": "x", "title": ["a"], "text": ""}', r"line 3: not a passage .*`\$.title`"),
        ('{"id": "x", "title": "", "text": "", "meta": "year"}', r"line 3: not a passage .*`\$.meta`"),
        ('{"id": "x", "title": "", "text": "", "meta": [1]}', r"line 3: not a passage .*`\$.meta`"),
        ('{"id": "x", "title": "", "text": "", "vector": 7}', r"line 3: not a passage .*`\$.vector`"),
        ('{"id": "x", "title": "", "text": "", "vector": "é"}', "line 3: not a passage"),
        ('{"id": "x", "title": "", "text": "", "meta": {"a": ' + "9" * 6000 + "}}", "line 3: not JSON"),
        ("[" * 100_000, "line 3: not JSON"),
        (NOT_FINITE, "line 3: .*vector of document 'x' has numbers that are not finite"),
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


def test_odd_ids_and_metadata_survive(tmp_path: Path) -> None:
    """Ids and metadata of any text: empty, with a zero byte, a lone surrogate, quotes, very long."""
    odd = ["", " ", "\0", "a\0b", "\ud800", '"', "'; DROP TABLE documents; --", "../../x", "\u202e", "x" * 100_000, "1"]
    lines = [{"id": i, "title": i, "text": "one text", "meta": {i: [i, None, True, 1e300, {"a": i}]}} for i in odd]
    file = tmp_path / "odd.jsonl"
    first = json.dumps({"subquest_index": 1, "settings": Settings().to_record()})
    file.write_text("\n".join([first, *map(json.dumps, lines)]) + "\n")
    source = PortableFile(file)
    with Index.create(tmp_path / "a.sq", source.settings) as index:
        assert copy(source, index).added == len(odd)
        kept = [i.replace("\ud800", "?") for i in odd]
        assert [document.id for document in index.documents()] == kept
        assert all(index.get(i) for i in odd)
        assert len(index.search("text", 20, mode="bm25")) == len(odd)
        assert index.verify() == []
        with open(tmp_path / "again.jsonl", "w") as out:
            write(index, out)
    again = PortableFile(tmp_path / "again.jsonl")
    with Index.create(tmp_path / "b.sq", again.settings) as back:
        copy(again, back)
        assert [document.id for document in back.documents()] == kept
        assert back.verify() == []


def test_vectors_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    spec = EncoderSpec(kind="endpoint", model="m", url="http://127.0.0.1:9")
    good = np.ones(8, np.float32)
    for wrong in (math.nan, math.inf, 70_000.0):
        with Index.create(tmp_path / f"{wrong}.sq", Settings(encoder=spec, width=8)) as index:
            entries = [Entry(LIBRARY[0], good), Entry(LIBRARY[1], np.where(np.arange(8) == 3, wrong, good))]
            with pytest.raises(DataError, match=f"document '{LIBRARY[1].id}'"):
                index.load(entries)
            index._encoder = _Encoder(spec, wrong)
            with pytest.raises(SearchError, match="the vector of document 'later' has numbers that are not finite"):
                index.add([Document("later", "Later", "A later document.")])
            assert [entry.document.id for entry in index.entries()] == [LIBRARY[0].id, "later"]
            assert index.info().vectors == 1


class _Encoder:
    def __init__(self, spec: EncoderSpec, number: float) -> None:
        self.spec = spec
        self._number = number

    def encode(self, texts: Sequence[str], *, query: bool) -> Any:
        return np.full((len(texts), 8), self._number, np.float32)


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
