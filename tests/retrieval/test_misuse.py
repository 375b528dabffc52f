"""Documents, filters and requests that are not what they should be: named, and nothing else is lost."""

from __future__ import annotations

import asyncio
import datetime
import math
import os
import shlex
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.errors import UsageError
from subquest.record import Document
from subquest.retrieval import Index
from subquest.retrieval.backends.backend import facets_of, filter_facets


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    documents = [
        Document(str(i), f"Hat {i}", f"hat of straw {i}", {"year": 2000 + i, "tags": ["old", f"t{i}"]})
        for i in range(5)
    ]
    with Index.build(tmp_path / "i", documents) as made:
        yield made


def found(index: Index, query: str = "hat", **options: Any) -> set[str]:
    return {hit.document.id for hit in index.search(query, **options)}


def test_metadata_that_json_does_not_have(index: Index) -> None:
    odd = {"x": math.nan, "y": [math.inf, 1.5], "z": "half \ud800 sign", "\udfffkey": 1, "kept": "yes"}
    index.add([Document("odd", "", "hat", odd)])
    assert found(index, where={"kept": "yes"}) == {"odd"}
    kept = index.get("odd")
    assert kept is not None
    assert kept.meta == {"x": None, "y": [None, 1.5], "z": "half ? sign", "?key": 1, "kept": "yes"}
    assert index.add([Document("odd", "", "hat", odd)]).unchanged == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (Document("w", "", "hat", {"day": datetime.date(2020, 1, 1)}), "'w': its metadata"),
        (Document("w", "", None), "'w': its text is a NoneType"),  # type: ignore[arg-type]
        (Document(7, "", "hat"), "7: its id is a int"),  # type: ignore[arg-type]
        ({"id": "w"}, "expected a Document, got dict"),
    ],
)
def test_what_cannot_be_stored_is_named_and_what_came_before_is_kept(index: Index, wrong: Any, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        index.add([Document("before", "", "hat"), wrong, Document("after", "", "hat")])
    assert found(index) == {"0", "1", "2", "3", "4", "before"}
    assert index.verify() == []


def test_lists_in_metadata_are_filtered_by_their_values(index: Index) -> None:
    assert found(index, where={"tags": "t3"}) == {"3"}
    assert found(index, where={"tags": ["t1", "t2"], "year": 2001}) == {"1"}
    assert found(index, where={"tags": '["old", "t3"]'}) == set()
    assert facets_of({"tags": ["old", "t3", "old"], "year": 3, "of": {"a": 1}}) == (
        'tags="old"', 'tags="t3"', "year=3",
    )  # fmt: skip
    assert filter_facets({"tags": "t3"}) == [['tags="t3"']]


@pytest.mark.parametrize(
    "where", [{}, {"": 1}, {"n": None}, {"n": []}, {"n": 10**30}, {"n": [{}]}, {1: 1}, {'a"b': 1}, {"a\\b": 1}]
)
def test_filters_that_cannot_be_meant(index: Index, where: Any) -> None:
    with pytest.raises(UsageError):
        index.search("hat", where=where)
    with pytest.raises(UsageError):
        filter_facets(where)


def test_a_filter_by_a_text_that_cannot_be(index: Index) -> None:
    assert found(index, where={"year": "\ud800"}) == set()


def test_requests_that_cannot_be_meant(index: Index) -> None:
    for k in (0, -1, 2.5, "5", None):
        with pytest.raises(UsageError, match="at least 1"):
            index.search("hat", k)  # type: ignore[arg-type]
    for queries in ("hat", [None], [b"hat"]):
        with pytest.raises(UsageError, match="list of strings"):
            index.search_many(queries)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="list of ids"):
        index.remove("12")
    assert len(index) == 5
    assert index.remove(["\ud800", "1"]) == 1
    assert index.get("\ud800") is None
    assert len(index.search("hat", 10**12)) == 4


def test_threads_that_end_leave_no_open_files(index: Index) -> None:
    asyncio.run(index.retrieve(["hat"], 1))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        asyncio.run(index.retrieve(["hat"], 1))
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_copies_do_not_crowd_out_what_is_distinct(tmp_path: Path) -> None:
    copies = [Document(f"copy{i}", "", "the red fox jumps over a lazy dog by the river") for i in range(200)]
    others = [
        Document(f"other{i}", "", f"fox {i} lives in wood {i * 7} near hill {i * 11} and den {i * 13}")
        for i in range(9)
    ]
    bare = [Document("bare1", "Red fox", ""), Document("bare2", "Grey fox", "")]
    with Index.build(tmp_path / "i", [*copies, *others, *bare]) as index:
        got = [[h.document.id for h in hits] for hits in index.search_many(["red fox", "wood"], 6, distinct=True)]
        assert "copy0" in got[0]
        assert sum(name.startswith("copy") for name in got[0]) == 1
        assert len(got[0]) == 6
        assert {"bare1", "bare2"} <= set(got[0])
        assert len(got[1]) == 6


def test_verify_while_somebody_writes(tmp_path: Path) -> None:
    problems: list[str] = []
    with Index.build(tmp_path / "i", [Document(str(i), "", f"word{i}") for i in range(50)]) as index:
        stop = threading.Event()

        def write() -> None:
            turn = 0
            while not stop.is_set():
                turn += 1
                index.add([Document("changing", "", f"turn {turn}")])
                index.compact()

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(40):
                problems += index.verify()
        finally:
            stop.set()
            writer.join()
    assert problems == []


@pytest.mark.parametrize("ids", [["1", 5], [None], "1", b"1", 5])
def test_ids_that_are_no_texts_remove_nothing(tmp_path: Path, ids: object) -> None:
    with Index.build(tmp_path / "i.sq", [Document("1", "", "Kelm.")]) as index:
        with pytest.raises(UsageError, match="id"):
            index.remove(ids)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="id"):
            index.get(5)  # type: ignore[arg-type]
        assert len(index) == 1
        assert index.remove(iter(["1"])) == 1


@pytest.mark.parametrize("where", ["year=2023", [("year", 2023)], {"year": 2023, 5: 1}])
def test_filters_that_are_none(tmp_path: Path, where: object) -> None:
    with Index.build(tmp_path / "i.sq", [Document("1", "", "Kelm.")]) as index, pytest.raises(UsageError):
        index.search("Kelm", where=where)  # type: ignore[arg-type]


def test_a_search_outlasts_a_writer_that_is_quicker_many_times(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    from subquest.retrieval.store_reader import StoreReader

    read, missed = StoreReader.hits, iter(range(12))
    monkeypatch.setattr(StoreReader, "hits", lambda *given: None if next(missed, None) is not None else read(*given))
    assert index.search("straw", 1)


def test_documents_in_the_place_of_an_index_are_told_how_to_become_one(tmp_path: Path) -> None:
    """The command that the message prints can be pasted, and does not write into the documents."""
    (tmp_path / "my docs").mkdir()
    (tmp_path / "my docs" / "a.txt").write_text("Some text.")
    with pytest.raises(UsageError) as told:
        Index.open(tmp_path / "my docs")
    command = shlex.split(str(told.value).partition("Build one with: ")[2])
    assert command == ["subquest", "index", "build", f"{tmp_path}/my docs", "--out", f"{tmp_path}/my docs.sq"]
    (tmp_path / "begun.sq").mkdir()
    with pytest.raises(UsageError, match=r"index build SOURCE --out \S+begun\.sq$"):
        Index.open(tmp_path / "begun.sq")
