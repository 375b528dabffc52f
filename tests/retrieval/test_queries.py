"""Queries that people and programs send: stop words, operators, 100 kB, Chinese down to a single sign."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from subquest.record import Document
from subquest.retrieval import Index, store
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.highlight import highlight
from subquest.retrieval.writer import Writer

DOCUMENTS = [
    Document("hamlet", "", "To be, or not to be: that is the question."),
    Document("search", "Search operators", 'Use AND, OR and NOT, "exact phrases", title:words and wild* cards.'),
    Document("tokyo", "東京", "東京都は日本の首都です。"),
    Document("book", "", "本を読む。"),
    Document("last", "", "彼は一冊の本"),
    Document("plain", "", "Nothing of the kind, only words."),
    Document("korean", "", "서울은 대한민국의 수도이다."),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.build(tmp_path / "i.sq", DOCUMENTS) as built:
        yield built


def ids(index: Index, query: str, k: int = 10) -> list[str]:
    return [hit.document.id for hit in index.search(query, k)]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("本", {"tokyo", "book", "last"}),
        ("首", {"tokyo"}),
        ("です", {"tokyo"}),
        ("日本", {"tokyo"}),
        ("日 本", {"tokyo", "book", "last"}),
        ("本 nothing", {"tokyo", "book", "last", "plain"}),
        ("수", {"korean"}),
        ("京都", {"tokyo"}),
        ("犬", set()),
    ],
)
def test_chinese_japanese_and_korean(index: Index, query: str, found: set[str]) -> None:
    assert set(ids(index, query)) == found


def test_pairs_still_go_before_signs(index: Index) -> None:
    """A query of two signs asks for the pair; the documents that only have one of them are not found."""
    assert Analysis().query_terms("日本") == ["日本".encode()]
    assert Analysis().terms("日本") == [text.encode() for text in ("日本", "日", "本")]
    assert Analysis().query_terms("本") == ["本".encode()]
    span = highlight(DOCUMENTS[2].text, "首", index.analysis)
    assert DOCUMENTS[2].text[span.start : span.end] == DOCUMENTS[2].text


def test_an_index_from_before_single_signs_works_as_it_did(tmp_path: Path) -> None:
    """It opens, takes documents and finds what it found; its analysis is kept, so old and new documents are equal."""
    Index.build(tmp_path / "old.sq", []).close()
    with Writer.open(tmp_path / "old.sq") as writer, store.transaction(writer.db):
        store.put(writer.db, "analysis", {"language": "english", "title_weight": 4})
    with Index.build(tmp_path / "old.sq", DOCUMENTS) as index:
        assert index.analysis == Analysis(signs=False, thai=False)
        assert ids(index, "日本") == ["tokyo"]
        assert ids(index, "本") == []
        assert index.verify() == []
    with Index.build(tmp_path / "new.sq", DOCUMENTS) as new:
        assert new.analysis == Analysis()
        assert ids(new, "本 の")


def test_nothing_but_stop_words(index: Index) -> None:
    assert ids(index, "to be or not to be")[0] == "hamlet"
    assert ids(index, "the of and is") != []
    assert ids(index, "the kind of") == ["plain"]


@pytest.mark.parametrize(
    "query",
    ['title:words AND (wild* OR "exact phrases") NOT ~^', "exact+phrases -wild", "wild\\*", "%wild%' OR 1=1 --"],
)
def test_operators_are_words(index: Index, query: str) -> None:
    assert ids(index, query)[0] == "search"


@pytest.mark.parametrize("kilobytes", [100, 1000])
def test_gigantic_queries(index: Index, kilobytes: int) -> None:
    many = " ".join(f"word{n}" for n in range(kilobytes * 100)) + " question"
    assert ids(index, many) == ["hamlet"]
    assert "tokyo" in ids(index, "日本の首都です" * (kilobytes * 20))
    assert ids(index, "x" * (kilobytes * 1000)) == []
