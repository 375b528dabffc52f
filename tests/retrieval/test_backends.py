"""PostgreSQL and LanceDB as backends, the real ones: what our own index finds is what they find."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from subquest.assemble import open_search
from subquest.errors import SearchError, UsageError
from subquest.record import Document
from subquest.retrieval import BM25, Index, json_server
from subquest.retrieval.backends import lance, postgres, sql_bm25
from subquest.retrieval.backends.backend import Backend, facet, filter_facets, key_of
from subquest.retrieval.locations import create_place, is_backend, open_place
from subquest.retrieval.settings import Settings
from subquest.retrieval.transfer import copy

from .embeddings import embeddings_server
from .passages import CHANGED, LIBRARY, encoder, settings
from .postgres_server import postgres_server, with_half_vectors

Place = Callable[[], str]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres_server() as url:
        yield url


@pytest.fixture(scope="module")
def vectors() -> Iterator[str]:
    with embeddings_server(32) as (url, _):
        yield url


@pytest.fixture(params=["postgres", "lance"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Makes addresses of collections that nobody has used yet."""
    numbers = itertools.count()
    name = f"{request.node.name.split('[')[0][:30]}_".lower()
    if request.param == "lance":
        return lambda: f"lance:{tmp_path}/{name}{next(numbers)}"
    base = request.getfixturevalue("server")
    return lambda: f"{base}&collection={name}{next(numbers)}"


WORDS = [f"word{i}" for i in range(300)]


def text(source: random.Random, least: int, most: int) -> str:
    """Words of a skewed distribution, so that some are in most passages and some in one."""
    return " ".join(WORDS[int(len(WORDS) * source.random() ** 3)] for _ in range(source.randint(least, most)))


def library(count: int) -> list[Document]:
    source = random.Random(1)
    return [Document(str(i), text(source, 0, 4), text(source, 3, 50), {"third": i % 3}) for i in range(count)]


def found(hits: list[Any]) -> list[str]:
    return [hit.document.id for hit in hits]


def test_the_settings_of_a_collection_come_back(place: Place, vectors: str) -> None:
    where = place()
    with pytest.raises(UsageError, match="no collection"):
        open_place(where)
    wanted = Settings(bm25=BM25(1.2, 0.75), encoder=encoder(vectors), width=32, average=17.5)
    create_place(where, wanted).close()
    with open_place(where) as opened:
        assert opened.settings == wanted
        assert len(opened) == 0
    with pytest.raises(UsageError, match="choose another"):
        create_place(where, settings())


def test_passages_are_added_changed_removed_and_found(place: Place, vectors: str) -> None:
    where = with_half_vectors(place())
    with create_place(where, Settings(encoder=encoder(vectors), width=32)) as made:
        assert made.add(LIBRARY).added == 4
        again = made.add([LIBRARY[0], CHANGED, CHANGED])
        assert (again.added, again.updated, again.unchanged) == (0, 1, 1)
        assert made.get("river") == CHANGED
        assert len(made) == 4
        assert found(made.search("engineer from Kelso", 1, mode="bm25")) == ["tolland"]
        assert found(made.search("mira tolland engineer", 1, mode="dense")) == ["tolland"]
        assert found(made.search("mira tolland engineer", 2))[0] == "tolland"
        assert set(found(made.search("Kelso", 4, where={"kind": ["place", "sea"]}))) == {"kelso", "river"}
        assert made.search("nosuchword", 3, mode="bm25") == []
        assert made.search_many([], 3) == []
        assert made.remove(["tolland", "nobody", "tolland"]) == 1
        assert made.get("tolland") is None
        assert "tolland" not in found(made.search("mira tolland engineer", 4))
        with pytest.raises(UsageError, match="at least 1"):
            made.search("x", 0)


def test_odd_passages_survive(place: Place) -> None:
    odd = [
        Document("nul\0", "a\0b", "zero \0 in the text", {"n": "x\0", "deep": {"a": [1, None]}}),
        Document("it's '; DROP TABLE documents; --", "quotes", 'o\'clock "quoted" %s {schema}'),
        Document("surrogate", "", "half \ud800 sign"),
        Document("empty", "", ""),
        Document("漢字", "東京", "東京は日本の首都です。"),
        Document("long" * 2000, "long id", "a passage with an id of eight thousand letters"),
    ]
    with create_place(place(), settings()) as made:
        assert made.add(odd).added == 6
        assert made.add(odd).unchanged == 6
        assert found(made.search("東京", 1)) == ["漢字"]
        assert found(made.search("quoted o'clock", 1)) == [odd[1].id]
        assert made.get("it's '; DROP TABLE documents; --") == odd[1]
        assert made.get("nul\0") == Document("nul\ufffd", "a\ufffdb", "zero \ufffd in the text", odd[0].meta)
        assert found(made.search("zero", 1, where={"n": "x\0"})) == ["nul\ufffd"]
        assert made.search(" ".join(WORDS * 40), 3) == []


def test_an_index_moves_there_and_back_and_a_killed_copy_goes_on(place: Place, vectors: str, tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    where = with_half_vectors(place())
    with Index.build(tmp_path / "here.sq", library(120)) as index:
        index.embed(f"hashed-words@{vectors}")
        with create_place(where, index.settings) as made:
            assert isinstance(made, Backend)
            made.BATCH = 50

            def until(entries: Iterator[Any]) -> Iterator[Any]:
                for number, entry in enumerate(entries):
                    if number == 70:
                        raise Killed
                    yield entry

            with pytest.raises(Killed):
                made.load(until(index.entries()))
            assert len(made) == 50
            resumed = copy(index, made)
            assert (resumed.added, resumed.unchanged) == (70, 50)
            queries = ["word1 word7 word100", "word250", "word3"]
            assert [found(row)[:1] for row in made.search_many(queries, 3)] == [
                found(row)[:1] for row in index.search_many(queries, 3)
            ]
            with Index.create(tmp_path / "back.sq", made.settings) as back:
                copy(made, back)
                assert {d.id: d for d in back.documents()} == {d.id: d for d in index.documents()}
                assert back.info().vectors == 120
                for query in queries:
                    theirs, ours = back.search(query, 5), index.search(query, 5)
                    assert sorted(hit.score for hit in theirs) == pytest.approx(sorted(hit.score for hit in ours))


def test_nearest_passages_are_those_of_our_own_index(place: Place, vectors: str, tmp_path: Path) -> None:
    where = with_half_vectors(place())
    here = Index.build(tmp_path / "here.sq", library(200), encoder=f"hashed-words@{vectors}")
    with here as index, create_place(where, index.settings) as made:
        copy(index, made)
        queries = [document.text for document in library(20)]
        ours, theirs = (one.search_many(queries, 5, mode="dense") for one in (index, made))
        for mine, yours in zip(ours, theirs, strict=True):
            assert [hit.score for hit in yours] == pytest.approx([hit.score for hit in mine], abs=2e-3)


@pytest.mark.parametrize("bm25", [BM25(), BM25(0.9, 0.4), BM25(2.0, 0.0)])
def test_postgres_computes_the_very_scores_of_our_own_index(server: str, tmp_path: Path, bm25: BM25) -> None:
    documents = library(400)
    where = f"{server}&collection=scores_{int(10 * bm25.k1)}"
    source = random.Random(2)
    with Index.build(tmp_path / "here.sq", documents, bm25=bm25) as index, create_place(where, index.settings) as made:
        copy(index, made)
        for change in (index, made):
            change.remove([str(i) for i in range(0, 400, 7)])
            change.add([Document(str(i), "changed", documents[i - 1].text) for i in range(1, 400, 50)])
        queries = [text(source, 1, 9) for _ in range(60)]
        for k, options in ((1, {}), (10, {}), (500, {}), (10, {"where": {"third": 1}})):
            for one, other in zip(
                index.search_many(queries, k, **options), made.search_many(queries, k, **options), strict=True
            ):
                assert [(hit.document.id, hit.score) for hit in other] == [(hit.document.id, hit.score) for hit in one]


def test_whatever_can_pass_the_threshold_has_an_essential_term_or_pair() -> None:
    source = random.Random(3)
    pruned = 0
    for _ in range(300):
        weights = {number: source.uniform(0.1, 8.0) for number in range(source.randint(1, 7))}
        threshold = source.uniform(-1, 20)
        singles, pairs = sql_bm25.essential(weights, threshold)
        for size in range(1, len(weights) + 1):
            for terms in itertools.combinations(weights, size):
                read = bool(set(terms) & set(singles)) or any(set(pair) <= set(terms) for pair in pairs)
                if sum(weights[number] for number in terms) > threshold:
                    assert read, (weights, threshold, terms)
                pruned += not read
    assert pruned > 1000  # and it does leave passages out
    assert sql_bm25.essential({1: 6.0, 2: 0.5, 3: 0.4}, 4.0) == ([1], [])
    many = dict.fromkeys(range(60), 1.0)
    assert sql_bm25.essential(many, 1.5) == (sorted(many), [])
    assert sql_bm25.has([4], [(1, 2)]) == "terms @> ARRAY[1, 2] OR terms && ARRAY[4]"


def test_postgres_vectors_get_a_graph_and_keep_their_answers(
    server: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = with_half_vectors(f"{server}&collection=graph")
    documents = library(300)
    with create_place(where, Settings(encoder=encoder(vectors), width=32)) as made:
        made.add(documents)
        queries = [document.text for document in documents[:10]]
        exact = made.search_many(queries, 3, mode="dense", where={"third": [0, 1]})
        monkeypatch.setattr(postgres, "ANN_ROWS", 100)
        made.add([Document("one more", "", "word1 word2")])
        with postgres_connection(server) as db:
            assert db.execute("SELECT 1 FROM pg_indexes WHERE indexname = 'documents_vector'").fetchone()
        again = made.search_many(queries, 3, mode="dense", where={"third": [0, 1]})
        assert [row[0].score for row in again] == pytest.approx([row[0].score for row in exact], abs=1e-3)


def test_lance_vectors_get_an_inverted_file_and_keep_their_answers(
    tmp_path: Path, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Approximate search may miss a neighbour now and then; of fifty it finds nearly all."""
    with create_place(f"lance:{tmp_path}/l", Settings(encoder=encoder(vectors), width=32)) as made:
        documents = library(400)
        made.add(documents)
        queries = [document.text for document in documents[:50]]
        exact = made.search_many(queries, 1, mode="dense")
        monkeypatch.setattr(lance, "ANN_ROWS", 200)
        made.add([Document("one more", "", "word1 word2")])
        again = made.search_many(queries, 1, mode="dense")
        kept = [a[0].score > e[0].score - 0.02 for a, e in zip(again, exact, strict=True)]
        assert sum(kept) >= 45


def test_lance_refuses_bm25_settings_that_it_does_not_have(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"k1 1\.2"):
        create_place(f"lance:{tmp_path}/l", Settings(bm25=BM25(0.9, 0.4)))


def test_a_table_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    import lancedb
    import pyarrow

    lancedb.connect(tmp_path / "l").create_table("passages", pyarrow.table({"a": [1]}))
    with pytest.raises(UsageError, match="not made by Subquest"):
        open_place(f"lance:{tmp_path}/l")
    with create_place(f"lance:{tmp_path}/l#mine", settings()) as made:
        made.add(LIBRARY)
        assert found(made.search("abbey café", 1)) == ["kelso"]


def test_a_lost_connection_is_made_again(server: str) -> None:
    with create_place(f"{server}&collection=lost", settings()) as made:
        made.add(LIBRARY)
        with postgres_connection(server) as db:
            db.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'subquest'")
        assert found(made.search("old café", 1)) == ["kelso"]


def test_a_database_that_is_not_there_is_a_search_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_server, "FIRST_WAIT", 0.0)
    with pytest.raises(SearchError) as caught:
        open_place("postgres://somebody:secret@127.0.0.1:9/nothing")
    assert "secret" not in str(caught.value)


def test_writers_take_turns_and_lose_nothing(server: str) -> None:
    where = f"{server}&collection=writers"
    create_place(where, settings()).close()
    documents = library(200)

    def write(part: int) -> None:
        with open_place(where) as opened:
            for i in range(part, 200, 4):
                opened.add([documents[i]])

    threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with open_place(where) as opened, postgres_connection(server) as db:
        assert len(opened) == 200
        wrong = db.execute(
            "SELECT count(*) FROM writers.terms AS t WHERE t.documents <> "
            "(SELECT count(*) FROM writers.documents AS d WHERE d.terms @> ARRAY[t.number])"
        ).fetchone()
        assert wrong == (0,)


async def test_backends_are_searches(place: Place) -> None:
    with create_place(place(), settings()) as made:
        made.add(LIBRARY)
        first, second = await made.retrieve(["old café", "engineer"], 1)
        assert (found(first), found(second)) == (["kelso"], ["tolland"])
        assert is_backend(made.name)


async def test_what_systems_search_may_be_a_backend(tmp_path: Path) -> None:
    place = f"lance:{tmp_path}/l"
    with create_place(place, settings()) as made:
        made.add(LIBRARY)
    for mode in (None, "bm25", "linked"):
        (hits,) = await open_search(place, mode=mode).retrieve(["old café"], 1)
        assert found(hits) == ["kelso"]


def test_facets_say_which_field_has_which_value() -> None:
    assert facet("year", 2023) == facet("year", 2023.0) == "year=2023"
    assert facet("long", True) == facet("long", 1)
    assert facet("kind", "2023") == 'kind="2023"' != facet("kind", 2023)
    assert facet("share", 0.5) == "share=0.5"
    assert filter_facets({"a": ["x", 1], "b": 2}) == [['a="x"', "a=1"], ["b=2"]]
    for wrong in ({}, {"": 1}, {"a": []}, {"a": None}, {"a": [{}]}):
        with pytest.raises(UsageError):
            filter_facets(wrong)


def test_keys_are_uuids_of_ids() -> None:
    assert key_of("a") == key_of("a") != key_of("b")
    assert len(key_of("x" * 10_000)) == 36


def postgres_connection(server: str) -> Any:
    import psycopg

    return psycopg.connect(server.replace("postgres://", "postgresql://"), autocommit=True)
