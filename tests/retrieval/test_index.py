"""An index as its users meet it: build, find, change, reopen, and every kind of bad input."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import resource
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from subquest.cli import main
from subquest.errors import DataError, SearchError, SearchRefused, UsageError
from subquest.record import Document
from subquest.retrieval import BM25, Index, Search
from subquest.retrieval.writer import Writer

DOCUMENTS = [
    Document("lovelace", "Ada Lovelace", "Ada Lovelace wrote the first program for the Analytical Engine."),
    Document("babbage", "Charles Babbage", "Babbage designed the Analytical Engine, a mechanical computer."),
    Document("hopper", "Grace Hopper", "Grace Hopper built the first compiler and found a moth.", {"page": 3}),
    Document("tokyo", "東京", "東京都は日本の首都です。"),
]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.build(tmp_path / "docs.sq", DOCUMENTS) as built:
        yield built


def ids(index: Index, query: str, k: int = 10) -> list[str]:
    return [hit.document.id for hit in index.search(query, k)]


def test_finds_by_stem_title_accent_and_chinese(index: Index) -> None:
    assert ids(index, "who was writing programs?") == ["lovelace"]
    assert ids(index, "COMPILERS") == ["hopper"]
    assert ids(index, "Charles")[0] == "babbage"
    assert ids(index, "Lóvelace's") == ["lovelace"]
    assert ids(index, "日本の首都") == ["tokyo"]
    assert index.search("compiler")[0].document.meta == {"page": 3}
    assert isinstance(index, Search)


def test_reopens_with_the_same_results(index: Index) -> None:
    before = index.search("analytical engine first")
    with Index.open(index.path) as again:
        assert again.search("analytical engine first") == before
        assert len(again) == 4
        assert again.get("hopper") == DOCUMENTS[2]
        assert again.get("nobody") is None
        assert list(again.documents()) == DOCUMENTS


async def test_retrieve_does_not_block_the_loop(index: Index) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    hits = await index.retrieve(["compiler", "engine", "nothing of the kind"], 2)
    ticking.cancel()
    assert [len(found) for found in hits] == [1, 2, 0]
    assert ticks > 1


def test_add_updates_by_id_and_leaves_equal_documents_alone(index: Index) -> None:
    new = Document("hopper", "Grace Hopper", "Rear admiral of the navy.")
    changes = index.add([new, DOCUMENTS[0], Document("turing", "Alan Turing", "Machines that compute.")])
    assert (changes.added, changes.updated, changes.unchanged) == (1, 1, 1)
    assert ids(index, "compiler moth") == []
    assert ids(index, "admiral") == ["hopper"]
    assert len(index) == 5
    assert index.verify() == []


def test_an_id_given_twice_in_one_build_keeps_the_later_document(tmp_path: Path) -> None:
    twins = [Document("a", "", "red apple"), Document("b", "", "pear"), Document("a", "", "green apple")]
    with Index.build(tmp_path / "i", twins) as index:
        assert len(index) == 2
        assert [hit.document.text for hit in index.search("apple")] == ["green apple"]
        assert index.verify() == []


def test_removed_documents_count_in_no_statistic(tmp_path: Path) -> None:
    with Index.build(tmp_path / "a", DOCUMENTS) as full, Index.build(tmp_path / "b", DOCUMENTS[:2]) as small:
        assert full.remove(["hopper", "tokyo", "nobody"]) == 2
        assert full.search("first engine of babbage") == small.search("first engine of babbage")
        full.compact()
        assert full.search("first engine of babbage") == small.search("first engine of babbage")
        assert full.info().removed == 0
        assert full.verify() == []


def test_results_do_not_depend_on_how_documents_came_in(tmp_path: Path) -> None:
    documents = [Document(str(i), f"title {i % 7}", f"word{i % 13} word{i % 5} common text {i}") for i in range(200)]
    with Index.build(tmp_path / "once", documents) as once, Index.build(tmp_path / "bits", []) as bits:
        for start in range(0, 200, 10):
            bits.add(documents[start : start + 10])
        assert bits.info().segments < 20  # small segments were merged on the way
        for query in ("word3 common", "title 4 word12", "text 17"):
            assert bits.search(query, 50) == once.search(query, 50)
        assert bits.verify() == []


def test_parameters_are_honoured(index: Index) -> None:
    long, short = Document("l", "", "zork " * 3 + "filler " * 300), Document("s", "", "zork")
    index.add([long, short])
    plain = index.search("zork", bm25=BM25(1.2, 0.0))
    strict = index.search("zork", bm25=BM25(1.2, 1.0))
    assert [hit.document.id for hit in plain] == ["l", "s"]
    assert [hit.document.id for hit in strict] == ["s", "l"]


@pytest.mark.parametrize("query", ["", "   ", "?!", "\x00", "🙂", "\ud800"])
def test_queries_without_a_word_find_nothing(index: Index, query: str) -> None:
    assert index.search(query) == []


def test_a_query_of_stop_words_still_finds(tmp_path: Path) -> None:
    with Index.build(tmp_path / "i", [Document("h", "", "To be, or not to be"), Document("x", "", "Nothing")]) as index:
        assert ids(index, "to be or not to be") == ["h"]


def test_operators_are_words_like_any_other(index: Index) -> None:
    assert ids(index, 'title:"compiler" AND (moth OR NOT *) +~^ -')[0] == "hopper"


def test_a_query_of_100_kilobytes(index: Index) -> None:
    assert ids(index, "engine " * 14_000 + "moth")[-1] == "hopper"


def test_odd_documents_are_kept(tmp_path: Path) -> None:
    odd = [
        Document("empty", "", ""),
        Document("huge", "", "needle " + "hay " * 300_000),
        Document("broken \ud800", "\udfff", "lone \ud83d surrogate"),
        Document("nul", "", "before\x00after"),
        Document("long word", "", "x" * 100_000),
    ]
    with Index.build(tmp_path / "i", odd) as index:
        assert len(index) == 5
        assert ids(index, "needle") == ["huge"]
        assert ids(index, "surrogate") == ["broken ?"]
        assert ids(index, "after") == ["nul"]
        assert ids(index, "x" * 100_000) == ["long word"]
        assert index.get("empty") == odd[0]
        assert index.verify() == []


def test_bad_numbers_are_refused(index: Index) -> None:
    with pytest.raises(UsageError, match="k is 0"):
        index.search("engine", 0)
    with pytest.raises(UsageError, match="b from 0 to 1"):
        BM25(1.2, 3.0)
    assert len(index.search("engine", 1_000_000)) == 2


def test_an_iterator_that_breaks_loses_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[Document]:
        yield from DOCUMENTS[:3]
        raise DataError("line 4: not JSON")

    with pytest.raises(DataError, match="line 4"):
        Index.build(tmp_path / "i", broken())
    with Index.open(tmp_path / "i") as index:
        assert len(index) == 3
    with Index.build(tmp_path / "i", DOCUMENTS) as index:
        assert len(index) == 4


def test_what_is_not_an_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="subquest index build"):
        Index.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="not an index"):
        Index.build(tmp_path / "file", DOCUMENTS)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious.txt").write_text("x")
    with pytest.raises(UsageError, match="not an index"):
        Index.build(tmp_path / "folder", DOCUMENTS)
    (tmp_path / "folder" / "store.db").write_bytes(os.urandom(5000))
    with pytest.raises(DataError, match="not an index"):
        Index.open(tmp_path / "folder")


@pytest.mark.parametrize("place", [12, 16, 40, 60, 90, 200, 300, -40, -4])
def test_a_segment_whose_bytes_were_changed_is_told_and_made_again(tmp_path: Path, place: int) -> None:
    """The kernel believes what it reads: a wrong byte could end the process."""
    Index.build(tmp_path / "i", DOCUMENTS).close()
    (segment,) = (tmp_path / "i").glob("*.lex")
    content = bytearray(segment.read_bytes())
    content[place] ^= 0xFF
    segment.write_bytes(content)
    with pytest.raises(DataError, match="subquest index compact"):
        Index.open(tmp_path / "i")
    with Writer.open(tmp_path / "i") as writer:
        writer.rebuild()
    with Index.open(tmp_path / "i") as index:
        assert index.verify() == []
        assert len(index) == len(DOCUMENTS)


async def test_a_damaged_store_is_told_and_never_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"word{n}" for n in range(3000)]
    many = [Document(f"d{n}", f"Title {n}", " ".join(words[n : n + 200])) for n in range(400)]
    Index.build(tmp_path / "i", many).close()
    store = tmp_path / "i" / "store.db"
    content = bytearray(store.read_bytes())
    content[len(content) // 4 : -len(content) // 4] = bytes(len(content[len(content) // 4 : -len(content) // 4]))
    store.write_bytes(content)
    with Index.open(tmp_path / "i") as index:
        with pytest.raises(SearchRefused, match="is damaged"):
            await index.retrieve([" ".join(words[::7])], 400)
        assert any(problem.startswith("store.db: ") for problem in index.verify())
    assert main(["index", "verify", str(tmp_path / "i")]) == 1
    assert "the store itself is damaged" in capsys.readouterr().out.casefold()


def test_info_survives_a_writer_that_removes_files(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [*index.path.iterdir(), index.path / "gone.lex", index.path / "gone.vec"]
    monkeypatch.setattr(Path, "glob", lambda self, pattern: [path for path in listed if path.match(pattern)])
    found = index.info()
    assert found.bytes_lexical > 0
    assert found.bytes_dense == found.bytes_tables == 0
    assert found.bytes == found.bytes_store + found.bytes_lexical


def test_an_index_of_another_format_is_refused(index: Index) -> None:
    with closing(sqlite3.connect(index.path / "store.db")) as db, db:
        db.execute("UPDATE settings SET value = '99' WHERE key = 'format'")
    with pytest.raises(DataError, match="format 99"):
        Index.open(index.path)


def test_other_settings_need_another_path(index: Index) -> None:
    with pytest.raises(UsageError, match="analysis"):
        Index.build(index.path, DOCUMENTS, language="any")


def test_two_writers_at_once(index: Index) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[Document]:
        inside.set()
        go_on.wait(300)
        yield Document("slow", "", "slow")

    thread = threading.Thread(target=index.add, args=(slow(),))
    thread.start()
    inside.wait(300)
    with pytest.raises(UsageError, match=f"process {os.getpid()}"):
        index.add([Document("other", "", "other")])
    assert ids(index, "compiler") == ["hopper"]
    go_on.set()
    thread.join()
    assert ids(index, "slow") == ["slow"]


@pytest.mark.slow
def test_readers_see_whole_generations(tmp_path: Path) -> None:
    """Each generation has one colour; a reader that saw two colours at once would have read a torn one."""

    def generation(colour: int) -> list[Document]:
        return [Document(str(i), "", f"item colour{colour}") for i in range(50)]

    stop, seen = threading.Event(), set()
    torn: list[object] = []
    with Index.build(tmp_path / "i", generation(0)) as index, Index.open(tmp_path / "i") as reader:

        def read() -> None:
            while not stop.is_set():
                try:
                    texts = {hit.document.text for hit in reader.search("item", 100)}
                except Exception as error:
                    torn.append(error)
                    return
                seen.update(texts)
                if len(texts) != 1:
                    torn.append(texts)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for colour in range(1, 25):
            index.add(generation(colour))
            if colour % 8 == 0:
                index.compact()
        stop.set()
        for thread in threads:
            thread.join()
        assert torn == []
        assert len(seen) > 1
        assert ids(index, "colour24", 100) == [str(i) for i in range(50)]


@pytest.mark.parametrize("kilobytes", [40, 300, 1200])
def test_a_full_disk_leaves_the_index_as_it_was(index: Index, kilobytes: int) -> None:
    """Really full for the writer: no file may grow beyond a limit that falls into the store, the log or a segment."""
    generator = random.Random(kilobytes)
    new = [Document(f"n{i}", "", " ".join(f"w{generator.randrange(10**6)}" for _ in range(40))) for i in range(3000)]
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (kilobytes * 1000, kilobytes * 1000))
        try:
            with Index.open(index.path) as mine:
                mine.add(new)
            os._exit(1)
        except SearchError:
            os._exit(0)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert ids(index, "compiler") == ["hopper"]
    assert index.verify() == []
    index.add(new)
    assert len(index) == 3004
    assert index.verify() == []


def test_verify_names_what_is_wrong(index: Index) -> None:
    (segment,) = index.path.glob("*.lex")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    assert any("checksum" in problem for problem in index.verify())
    segment.unlink()
    assert any(segment.name in problem for problem in index.verify())


def test_closing_waits_for_a_search_of_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search in a thread goes on when the task that waits for it is cancelled."""
    index = Index.build(tmp_path / "i.sq", [Document("a", "A", "apple")])
    inside, go_on, found = threading.Event(), threading.Event(), []
    rank = index._rank

    def slow(*args: Any) -> Any:
        inside.set()
        assert go_on.wait(300)
        return rank(*args)

    monkeypatch.setattr(index, "_rank", slow)
    search = threading.Thread(target=lambda: found.extend(index.search("apple")))
    search.start()
    assert inside.wait(300)
    closing = threading.Thread(target=index.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    go_on.set()
    search.join()
    closing.join()
    assert [hit.document.id for hit in found] == ["a"]
    with pytest.raises(UsageError, match="closed"):
        index.search("apple")


def test_closed_index_says_so(tmp_path: Path) -> None:
    index = Index.build(tmp_path / "i", DOCUMENTS)
    index.close()
    index.close()
    with pytest.raises(UsageError, match="closed"):
        index.search("engine")


def _ids(index: Index) -> list[str]:
    return [hit.document.id for hit in index.search("river", 5)]


def test_a_forked_process_searches_through_connections_of_its_own(tmp_path: Path) -> None:
    """The child neither uses nor frees the connections that threads of its parent had open."""
    fork = multiprocessing.get_context("fork")
    with Index.build(tmp_path / "i.sq", [Document("1", "", "A river."), Document("2", "", "A hill.")]) as index:
        opened, done = threading.Event(), threading.Event()

        def reader() -> None:
            _ids(index)
            opened.set()
            done.wait()

        thread = threading.Thread(target=reader)
        thread.start()
        assert opened.wait(300)
        child = fork.Process(target=_search_and_check, args=(index,))
        child.start()
        child.join(300)
        assert child.exitcode == 0
        done.set()
        thread.join()
        assert _ids(index) == ["1"]
    with pytest.raises(UsageError, match="is closed"):
        index.search("river")


def _search_and_check(index: Index) -> None:
    assert _ids(index) == ["1"]
    index.close()


def test_an_index_of_version_0_1_opens_and_ranks_as_it_did(tmp_path: Path) -> None:
    """`index-0.1.sq` was written by version 0.1, `index-0.1.json` holds what that version found in it."""
    here = Path(__file__).parent
    shutil.copytree(here / "index-0.1.sq", tmp_path / "old.sq")
    recorded = json.loads((here / "index-0.1.json").read_text())
    with Index.open(tmp_path / "old.sq") as index:
        assert index.verify() == []
        for name, expected in recorded["found"].items():
            options: dict[str, Any] = {"where": {"year": 2001}} if name == "where" else {"mode": name}
            found = index.search_many(recorded["queries"], 5, **options)
            assert [[[hit.document.id, hit.score] for hit in row] for row in found] == expected
        assert index.add([Document("new", "Quay", "A quay of stone.")]).added == 1
        assert index.search("quay", 1)[0].document.id == "new"
