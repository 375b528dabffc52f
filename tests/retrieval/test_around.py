"""Around the index: corpora, passages, highlighting, near-duplicates, reranking, remote servers, commands."""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.engine.scripted import ScriptedEngine
from subquest.errors import DataError, SearchError, UsageError
from subquest.process import run_sync
from subquest.record import Document, Hit
from subquest.retrieval import Index, RemoteSearch, Search, remote
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.collection import distinct
from subquest.retrieval.corpus import from_object, read
from subquest.retrieval.highlight import highlight
from subquest.retrieval.rerank import Listwise, Pointwise, Reranked, parse_order, probability_of_yes
from subquest.retrieval.splitter import split

from .servers import retrieval_server

# ---------------------------------------------------------------------------------------------------- corpora


def test_reads_every_form(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('\ufeff{"id": 1, "title": "T", "text": "body", "year": 1999}\n\n')
    (tmp_path / "b.jsonl").write_text('{"id": "x", "contents": "\\"A title\\"\\nIts body\\nand more"}\n')
    (tmp_path / "c.tsv").write_text('id\ttext\ttitle\n7\t"Some ""quoted"" text"\tA "title"\n')
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write('{"id": "z", "text": "zipped"}\n')
    found = list(read([tmp_path]))
    assert found[0] == Document("1", "T", "body", {"year": 1999})
    assert found[1] == Document("x", "A title", "Its body\nand more")
    assert found[2] == Document("7", 'A "title"', 'Some "quoted" text')
    assert found[3] == Document("z", "", "zipped")


@pytest.mark.parametrize(
    ("record", "title", "text"),
    [
        ({"contents": "One line, no title."}, "", "One line, no title."),
        ({"title": "Foo", "contents": "Bar.\nMore."}, "Foo", "Bar.\nMore."),
        ({"title": "Foo", "contents": '"Foo"\nText'}, "Foo", "Text"),
        ({"contents": "Foo\nText"}, "Foo", "Text"),
        ({"contents": '"Foo" is a word.\nMore.'}, '"Foo" is a word.', "More."),
        ({"contents": f"{'long ' * 100}\nMore."}, "", f"{'long ' * 100}\nMore."),
        ({"contents": f'"{"long " * 100}"\nMore.'}, "long " * 100, "More."),
        ({"title": 1984, "text": "A novel."}, "1984", "A novel."),
        ({"title": None, "text": "", "contents": "kept out"}, "", ""),
    ],
)
def test_no_word_of_a_corpus_is_lost(record: dict[str, object], title: str, text: str) -> None:
    assert from_object({"id": "1", **record}, "here") == Document("1", title, text)


@pytest.mark.parametrize(
    ("record", "reason"),
    [({"contents": None}, "no text"), ({"text": 5}, "no text"), ({"title": ["a"], "text": "x"}, "title")],
)
def test_objects_that_are_no_document(record: dict[str, object], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        from_object({"id": "1", **record}, "here")
    with pytest.raises(DataError, match="id must be"):
        from_object({"id": True, "text": "x"}, "here")


def test_text_and_markdown_become_passages_with_their_place(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    text = "# Birds\n\nRobins sing.\n\n## Owls\nOwls " + "hoot softly at night. " * 60
    (docs / "birds.md").write_text(text)
    (docs / "raw.txt").write_bytes(b"caf\xe9 \xff\xfe broken bytes")
    found = list(read([docs]))
    place = {"file": "docs/birds.md", "line": 3, "start": 9, "section": "Birds"}
    assert found[0] == Document("docs/birds.md#1", "Birds", "Robins sing.", place)
    assert {(d.title, d.meta["section"]) for d in found[1:-1]} == {("Birds > Owls", "Birds > Owls")}
    assert all(text[d.meta["start"] :].startswith(d.text) for d in found[:-1])
    assert found[-1].text == "café ÿþ broken bytes"


def test_broken_files_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "good"}\nnot json\n')
    (tmp_path / "b.jsonl").write_text('{"title": "no id"}\n')
    (tmp_path / "c.jsonl.gz").write_bytes(b"not gzip")
    (tmp_path / "d.tsv").write_text("alone\n")
    (tmp_path / "e.jsonl").write_text('{"id": "2", "text": "good too"}\n["a list"]\n')
    (tmp_path / "f.jsonl").write_text("[" * 100_000)
    os.symlink(tmp_path, tmp_path / "loop")
    os.symlink(tmp_path / "nowhere.txt", tmp_path / "dangling.txt")
    complaints: list[str] = []
    assert [d.id for d in read([tmp_path], complain=complaints.append)] == ["1", "2"]
    assert len(complaints) == 6
    assert "a.jsonl, line 2: not JSON" in complaints[0]
    with pytest.raises(DataError, match=r"b\.jsonl, line 1: the document has no id"):
        list(read([tmp_path / "b.jsonl"]))
    with pytest.raises(UsageError, match="does not exist"):
        list(read([tmp_path / "nothing"]))
    with pytest.raises(UsageError, match="pattern"):
        list(read([tmp_path / "*.nothing"]))


def test_passages_cover_the_text_and_end_at_sentences() -> None:
    sentences = [f"Sentence number {i} has a few words in it." for i in range(200)]
    text = " ".join(sentences)
    passages = list(split(text))
    assert " ".join(p.text for p in passages) == text
    assert all(p.text.endswith(".") for p in passages)
    assert all(80 <= len(p.text.split()) <= 125 for p in passages[:-1])
    assert all(text[p.start : p.start + len(p.text)] == p.text for p in passages)
    assert [len(p.text.split()) for p in split("word " * 450)] == [100, 100, 100, 100, 50]
    assert len(list(split("日本語の文章。" * 100))) > 3
    assert list(split("")) == []


# ---------------------------------------------------------------------------------------------------- results


def test_highlight_marks_the_sentence() -> None:
    text = "Ada was born in London. She wrote programs for an engine! Later she died."
    span = highlight(text, "who wrote the program?", Analysis())
    assert text[span.start : span.end] == "She wrote programs for an engine!"
    assert highlight(text, "zebra", Analysis()) == (0, 0)
    long = "word " * 500 + "needle " + "word " * 500
    span = highlight(long, "needle", Analysis())
    assert "needle" in long[span.start : span.end]
    assert span.end - span.start <= 300


def test_near_identical_passages_are_left_out(tmp_path: Path) -> None:
    base = "the quick brown fox jumps over the lazy dog near the river bank every single morning"
    texts = [base, base + " again", "a fox of quite another kind lives in the forest", base.upper()]
    hits = [Hit(Document(str(i), "", text), 1.0) for i, text in enumerate(texts)]
    assert [hit.document.id for hit in distinct(hits, 10, Analysis())] == ["0", "2"]
    with Index.build(tmp_path / "i", [hit.document for hit in hits]) as index:
        assert len(index.search("fox", 2, distinct=True)) == 2
        assert {hit.document.id for hit in index.search("fox", 10, distinct=True)} < {"0", "1", "2", "3"}


# ---------------------------------------------------------------------------------------------------- reranking


class Fixed:
    """A search that always finds the same."""

    name = "fixed"

    def __init__(self, *texts: str) -> None:
        self.hits = [Hit(Document(str(i), "", text), 1.0 - i / 10) for i, text in enumerate(texts)]

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return [self.hits[:k] for _ in queries]


async def test_pointwise_puts_yes_before_no() -> None:
    engine = ScriptedEngine(lambda context: "Yes" if "good" in context.messages[-1].content else "no")
    search = Reranked(Fixed("bad", "good one", "worse", "good two"), Pointwise(engine, trust=1.0))
    assert isinstance(search, Search)
    (hits,) = await search.retrieve(["q"], 3)
    assert [hit.document.id for hit in hits] == ["1", "3", "0"]


async def test_pointwise_keeps_to_its_time() -> None:
    engine = ScriptedEngine(lambda context: "no", latency=30.0)
    (hits,) = await Reranked(Fixed("a", "b"), Pointwise(engine, seconds=0.05, trust=1.0)).retrieve(["q"], 2)
    assert [(hit.document.id, hit.score) for hit in hits] == [("0", 0.5), ("1", 0.5)]


async def test_listwise_follows_the_order_written() -> None:
    engine = ScriptedEngine(lambda context: "[3] > [1] > [9] > [3]")
    (hits,) = await Reranked(Fixed("a", "b", "c"), Listwise(engine)).retrieve(["q"], 3)
    assert [hit.document.id for hit in hits] == ["2", "0", "1"]
    slow = ScriptedEngine(lambda context: "[2] > [1]", latency=30.0)
    (hits,) = await Reranked(Fixed("a", "b"), Listwise(slow, seconds=0.05)).retrieve(["q"], 2)
    assert [hit.document.id for hit in hits] == ["0", "1"]


def test_replies_are_read_kindly() -> None:
    assert parse_order("2, 1", 3) == [1, 0, 2]
    assert parse_order("no idea", 2) == [0, 1]
    assert parse_order(f"{'1' * 5000}, 2, 1", 2) == [1, 0]
    assert probability_of_yes("Yes.", [-0.5]) == pytest.approx(0.6065, abs=1e-4)
    assert probability_of_yes(" no", [-0.5]) == pytest.approx(0.3935, abs=1e-4)
    assert probability_of_yes("perhaps", None) == 0.5


# ---------------------------------------------------------------------------------------------------- remote


async def test_remote_search_in_all_its_forms() -> None:
    with retrieval_server() as (url, seen):
        search = RemoteSearch(url)
        assert isinstance(search, Search)
        (hits,) = await search.retrieve(["one"], 2)
        assert hits[0] == Hit(Document("d1", "Title of one", "Body"), 0.9)
        assert hits[1].document == Document("Plain", "Plain", "No id")
        found = await search.retrieve(["one", "two"], 1)
        assert [hits[0].document.title for hits in found] == ["Title of one", "Title of two"]
        assert sorted(len(body["queries"]) for body in seen) == [1, 1, 1]  # a batch of two goes as two requests
        assert len(await search.retrieve(["a", "b", "c"], 1)) == 3
        assert await search.retrieve([], 1) == []
        ((hit,),) = await search.retrieve(["half"], 1)
        assert hit.document.text == "Built in 1931 ?"


async def test_remote_failures_are_search_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_FIRST_WAIT", 0.01)
    with retrieval_server() as (url, seen):
        search = RemoteSearch(url)
        for query, message in (
            ("broken", "3 times"),
            ("refused", "status 422"),
            ("strange", "without a `result`"),
            ("short", "a different length"),
            ("textless", "no text"),
        ):
            with pytest.raises(SearchError, match=message):
                await search.retrieve([query], 1)
        assert sum(body["queries"] == ["broken"] for body in seen) == 3
        (hits,) = await search.retrieve(["flaky"], 1)
        assert hits
    with pytest.raises(SearchError, match="3 times"):
        await RemoteSearch("http://127.0.0.1:9").retrieve(["x"], 1)
    with pytest.raises(UsageError, match="http://"):
        RemoteSearch("localhost:8000")


async def test_remote_search_keeps_its_connections_for_the_next_search(monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2

    made = []

    class Counted(httpx2.AsyncClient):
        def __init__(self, **options: Any) -> None:
            made.append(self)
            super().__init__(**options)

    monkeypatch.setattr(httpx2, "AsyncClient", Counted)
    with retrieval_server() as (url, _):
        search = RemoteSearch(url)
        for _ in range(3):
            await search.retrieve(["one"], 1)
        assert len(made) == 1
        assert run_sync(search.retrieve(["one"], 1))[0]  # another loop, connections of its own
        assert len(made) == 2


async def test_remote_search_checks_what_is_asked_and_what_is_answered() -> None:
    with retrieval_server() as (url, seen):
        search = RemoteSearch(url)
        await search.retrieve(["one \ud800"], 1)
        assert seen[-1]["queries"] == ["one ?"]
        for queries, k in (("one", 1), ([None], 1), (["one"], 0)):
            with pytest.raises(UsageError):
                await search.retrieve(queries, k)  # type: ignore[arg-type]
        assert len(seen) == 1
    document = {"id": 1, "contents": "x"}
    hits = search._hits(
        [{"document": document, "score": score} for score in (0.5, math.nan, math.inf, "1", 10**400)], 9
    )
    assert [hit.score for hit in hits] == [0.5, 1 / 2, 1 / 3, 1 / 4, 1 / 5]


# ---------------------------------------------------------------------------------------------------- commands


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    out, error = capsys.readouterr()
    return status, out, error


def test_a_search_server_is_asked_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with retrieval_server() as (url, _):
        status, out, _ = run(capsys, "search", "one", "--index", url, "-k", "1", "--json")
        (hit,) = json.loads(out)["hits"]
        assert (status, hit["id"], hit["title"], hit["score"]) == (0, "d1", "Title of one", 0.9)
        (tmp_path / "q.jsonl").write_text('{"id": 1, "query": "one"}\n{"id": 2, "query": "two"}\n')
        status, out, _ = run(capsys, "search", "--queries", tmp_path / "q.jsonl", "--index", url)
        assert [json.loads(line)["id"] for line in out.splitlines()] == [1, 2]
        for flags in (["--mode", "bm25"], ["--where", "year=1"], ["--distinct"]):
            status, _, error = run(capsys, "search", "one", "--index", url, *flags)
            assert (status, f"{flags[0]} is for an index" in error) == (2, True)
        status, _, error = run(capsys, "search", "refused", "--index", url)
        assert (status, "status 422" in error) == (1, True)


def test_commands_from_build_to_import(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, index = tmp_path / "c.jsonl", tmp_path / "i.sq"
    lines = [{"id": f"d{i}", "title": f"T{i}", "text": f"apple number{i}", "kind": i % 2} for i in range(5)]
    corpus.write_text("\n".join(json.dumps(line) for line in lines))
    status, out, _ = run(capsys, "index", "build", corpus, "--out", index, "--json")
    assert (status, json.loads(out)["added"]) == (0, 5)
    status, out, _ = run(capsys, "index", "build", corpus, "--out", index, "--json")
    assert json.loads(out)["unchanged"] == 5
    status, out, _ = run(capsys, "search", "number3 apple", "--index", index, "-k", "2", "--json")
    found = json.loads(out)
    assert found["query"] == "number3 apple"
    assert found["hits"][0]["id"] == "d3"
    assert {"id", "title", "text", "score"} <= found["hits"][0].keys()
    status, out, _ = run(capsys, "search", "apple", "--index", index, "--where", "kind=1", "--json")
    assert [hit["id"] for hit in json.loads(out)["hits"]] == ["d1", "d3"]
    queries = tmp_path / "q.jsonl"
    queries.write_text('{"id": "q1", "query": "number1"}\n{"id": 2, "query": "nothing at all"}\n')
    status, out, _ = run(capsys, "search", "--queries", queries, "--index", index)
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["id"], [hit["id"] for hit in row["hits"]]) for row in rows] == [("q1", ["d1"]), (2, [])]
    status, out, _ = run(capsys, "search", "number2", "--index", index)
    assert "T2" in out
    assert run(capsys, "index", "remove", index, "d1", "nobody")[0] == 0
    assert run(capsys, "index", "remove", index, "nobody")[0] == 1
    assert run(capsys, "index", "verify", index)[0] == 0
    status, out, _ = run(capsys, "index", "info", index, "--json")
    assert json.loads(out)["documents"] == 4
    exported = tmp_path / "out.jsonl.gz"
    assert run(capsys, "index", "export", index, "--out", exported)[0] == 0
    assert run(capsys, "index", "import", exported, "--out", tmp_path / "j.sq")[0] == 0
    with Index.open(index) as a, Index.open(tmp_path / "j.sq") as b:
        assert list(a.documents()) == list(b.documents())


def test_compact_repairs_a_damaged_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "i.sq"
    Index.build(index, [Document(str(i), "", f"apple {i}") for i in range(30)]).close()
    next(index.glob("*.lex")).write_bytes(b"rubbish")
    status, out, _ = run(capsys, "index", "verify", index)
    assert status == 1
    assert "index compact" in out
    assert run(capsys, "index", "compact", index)[0] == 0
    assert run(capsys, "index", "verify", index)[0] == 0
    with Index.open(index) as opened:
        assert len(opened.search("apple", 100)) == 30


def test_wrong_usage_is_status_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, words in (
        (("search", "x", "--index", tmp_path / "no.sq"), "subquest index build"),
        (("search", "--index", tmp_path), "give one QUERY"),
        (("index", "build", tmp_path / "no.txt", "--out", tmp_path / "a.sq"), "does not exist"),
        (("index", "build", tmp_path, "--out", tmp_path / "b.sq", "--encoder", "word2vec"), "unknown encoder"),
        (("index", "build", tmp_path, "--out", tmp_path / "c.sq", "--b", "7"), "b from 0 to 1"),
    ):
        status, _, error = run(capsys, *arguments)
        assert status == 2
        assert words in error
    Index.build(tmp_path / "d.sq", []).close()
    (tmp_path / "q.jsonl").write_text('{"id": 1}\n')
    status, _, error = run(capsys, "search", "--queries", tmp_path / "q.jsonl", "--index", tmp_path / "d.sq")
    assert (status, "line 1" in error) == (2, True)


def test_rows_of_a_corpus_after_a_stray_quotation_mark_are_kept(tmp_path: Path) -> None:
    table = tmp_path / "psgs.tsv"
    table.write_text('\nid\ttext\ttitle\n1\t"Kelm is a town\tKelm\n2\tOstel is a river\tOstel\n3\tA "b" c\tC\n')
    assert [(d.id, d.title) for d in read([table])] == [("1", "Kelm"), ("2", "Ostel"), ("3", "C")]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_corpus_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    corpus = tmp_path / "c.jsonl"
    corpus.write_text('{"id": 1, "text": "Kelm \u2028 東京 😀"}\n{"id": 2, "text": "Ostel"}\n', encoding)
    assert [(d.id, d.text) for d in read([corpus])] == [("1", "Kelm \u2028 東京 😀"), ("2", "Ostel")]
