"""OpenSearch and Qdrant: every step of a backend against a recorded conversation, and their failures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from subquest.errors import SearchError, SearchRefused, UsageError
from subquest.retrieval import json_server
from subquest.retrieval.backends.backend import Backend, key_of
from subquest.retrieval.locations import backend_class, create_place, open_place

from .embeddings import embeddings_server
from .loopback import play, recorded
from .passages import CHANGED, LIBRARY, WIDTH, settings

PLACES = {"opensearch": "opensearch+{}/library", "qdrant": "qdrant+{}/library"}


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_server, "FIRST_WAIT", 0.0)


@pytest.fixture
def vectors() -> Iterator[str]:
    with embeddings_server(WIDTH) as (url, _):
        yield url


def ids(hits: list[Any]) -> list[str]:
    return [hit.document.id for hit in hits]


def whole_life(place: str, vectors: str) -> None:
    """Everything a backend can do, in one order; the recordings were made of exactly this."""
    with pytest.raises(UsageError, match="no collection"):
        open_place(place)
    with create_place(place, settings(vectors)) as made:
        assert isinstance(made, Backend)
        assert made.add(LIBRARY).added == 4
        assert made.add(LIBRARY[:2]).unchanged == 2
        assert len(made) == 4
        assert ids(made.search("bridges of the Tweed, bridges", 2, mode="bm25")) == ["bridge", "river"]
        assert made.search("...", 2, mode="bm25") == []
        first = made.search("mira tolland engineer", 3, mode="dense")
        assert first[0].document == LIBRARY[1]
        assert 0.5 < first[0].score <= 1.001
        found = made.search_many(["town on the river", "café"], 2, mode="hybrid")
        assert [ids(row)[0] for row in found] == ["kelso", "kelso"]
        assert ids(made.search("Kelso", 3, mode="bm25", where={"kind": ["place", "sea"]})) == ["kelso", "river"]
        assert ids(made.search("Kelso", 3, mode="dense", where={"long": True})) == ["river"]
        assert made.add([CHANGED]).updated == 1
        assert made.get("river") == CHANGED
        assert made.remove(["tolland", "nobody"]) == 1
        assert made.get("tolland") is None
    with open_place(place) as opened:
        assert opened.settings == settings(vectors)
        left = {entry.document.id: entry for entry in opened.entries()}
        assert {i: entry.document for i, entry in left.items()} == {
            "bridge": LIBRARY[0],
            "kelso": LIBRARY[2],
            "river": CHANGED,
        }
        assert all(entry.vector is not None and len(entry.vector) == WIDTH for entry in left.values())


@pytest.mark.parametrize("name", PLACES)
def test_every_request_is_the_recorded_one_and_every_reply_is_understood(
    name: str, vectors: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDRANT_API_KEY", "secret")
    monkeypatch.setenv("OPENSEARCH_USER", "reader")
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "secret")
    made_with = json.dumps(settings(vectors).to_record())
    with play(recorded(name, settings=made_with, embeddings=vectors)) as (url, _):
        whole_life(PLACES[name].format(url), vectors)


def opening(name: str) -> list[dict[str, Any]]:
    """How a collection without vectors is opened."""
    record = settings().to_record()
    if name == "opensearch":
        mapping = {"library-000001": {"mappings": {"_meta": {"subquest": record}}}}  # behind an alias
        return [exchange("GET", "/library/_mapping", None, mapping)]
    point = {"id": key_of("subquest settings"), "payload": {"settings": record}}
    asked = {"ids": [point["id"]], "with_payload": True, "with_vector": False}
    return [
        exchange("GET", "/collections/library", None, ok({"status": "green"})),
        exchange("POST", "/collections/library/points", asked, ok([point])),
    ]


def ok(result: Any) -> dict[str, Any]:
    return {"result": result, "status": "ok", "time": 0.001}


def exchange(method: str, path: str, body: Any, answer: Any, status: int = 200, **query: str) -> dict[str, Any]:
    request = {"method": method, "path": path, "body": body, "query": query}
    return {"request": request, "response": {"status": status, "body": answer}}


def count(name: str, answer: Any, status: int = 200) -> dict[str, Any]:
    if name == "opensearch":
        return exchange("GET", "/library/_count", None, answer, status)
    body = {"exact": True, "filter": {"must_not": [{"has_id": [key_of("subquest settings")]}]}}
    return exchange("POST", "/collections/library/points/count", body, answer, status)


@pytest.mark.parametrize("name", PLACES)
def test_a_busy_server_is_asked_again(name: str) -> None:
    good = {"count": 7} if name == "opensearch" else ok({"count": 7})
    busy = [count(name, "busy", 503), count(name, "slow down", 429), count(name, good)]
    with play(opening(name) + busy) as (url, _), open_place(PLACES[name].format(url)) as opened:
        assert len(opened) == 7


@pytest.mark.parametrize("name", PLACES)
def test_a_server_that_stays_broken_is_a_search_error_not_an_empty_list(name: str) -> None:
    broken = [count(name, "broken", 500)] * json_server.ATTEMPTS
    with (
        play(opening(name) + broken) as (url, _),
        open_place(PLACES[name].format(url)) as opened,
        pytest.raises(SearchError, match="status 500"),
    ):
        len(opened)


@pytest.mark.parametrize("name", PLACES)
def test_a_refusal_is_not_repeated(name: str) -> None:
    with (
        play([*opening(name), count(name, "no", 403)]) as (url, _),
        open_place(PLACES[name].format(url)) as opened,
        pytest.raises(SearchRefused, match="status 403") as caught,
    ):
        len(opened)
    assert not caught.value.retryable


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("answer", ["<html>", [], {"something": "else"}])
def test_a_reply_in_another_form_is_a_search_error(name: str, answer: Any) -> None:
    times = json_server.ATTEMPTS if answer == "<html>" else 1
    with (
        play([*opening(name), *[count(name, answer)] * times]) as (url, _),
        open_place(PLACES[name].format(url)) as opened,
        pytest.raises(SearchError),
    ):
        len(opened)


@pytest.mark.parametrize("name", PLACES)
def test_nobody_there_is_a_search_error(name: str) -> None:
    with pytest.raises(SearchError, match="failed"):
        open_place(PLACES[name].format("http://127.0.0.1:9"))


def test_a_collection_of_somebody_else_is_left_alone() -> None:
    foreign = exchange("GET", "/library/_mapping", None, {"library": {"mappings": {"properties": {}}}})
    with play([foreign]) as (url, _), pytest.raises(UsageError, match="not made by Subquest"):
        open_place(PLACES["opensearch"].format(url))
    asked = {"ids": [key_of("subquest settings")], "with_payload": True, "with_vector": False}
    empty = [
        exchange("GET", "/collections/library", None, ok({"status": "green"})),
        exchange("POST", "/collections/library/points", asked, ok([])),
    ]
    with play(empty) as (url, _), pytest.raises(UsageError, match="not made by Subquest"):
        create_place(PLACES["qdrant"].format(url), settings())


def test_passages_that_the_server_was_too_busy_for_are_sent_again() -> None:
    keys = [key_of("a"), key_of("b")]
    deletes = [{"delete": {"_id": key}} for key in keys]
    full = {"delete": {"_id": keys[1], "status": 429, "error": {"type": "rejected_execution_exception"}}}
    gone = [{"delete": {"_id": key, "status": 200, "result": "deleted"}} for key in keys]
    talk = [
        exchange("POST", "/library/_bulk", deletes, {"errors": True, "items": [gone[0], full]}),
        exchange("POST", "/library/_bulk", deletes[1:], {"errors": False, "items": gone[1:]}),
        exchange("POST", "/library/_refresh", None, {"_shards": {"failed": 0}}),
    ]
    with play(opening("opensearch") + talk) as (url, _), open_place(PLACES["opensearch"].format(url)) as opened:
        assert opened.remove(["a", "b"]) == 2


def test_a_search_that_fails_inside_a_batch_is_an_error() -> None:
    head = {"search_type": "dfs_query_then_fetch"}
    term = {"term": {"terms": {"value": "tweed", "boost": 1}}}
    query = {"bool": {"should": [term], "minimum_should_match": 1}}
    body = [head, {"size": 3, "query": query, "_source": False, "track_total_hits": False}]
    error = {"error": {"type": "search_phase_execution_exception"}, "status": 400}
    shards = {"timed_out": False, "_shards": {"failed": 1}, "hits": {"hits": []}, "status": 200}
    for answer, kind in ((error, SearchRefused), (shards, SearchError)):
        talk = exchange("POST", "/library/_msearch", body, {"responses": [answer]})
        with (
            play([*opening("opensearch"), talk]) as (url, _),
            open_place(PLACES["opensearch"].format(url)) as opened,
            pytest.raises(kind),
        ):
            opened.search("Tweed", 3, mode="bm25")


@pytest.mark.parametrize("place", ["opensearch+http://host:9200/", "opensearch+http://host/Upper", "qdrant+http:///x"])
def test_an_address_without_a_proper_collection_is_refused(place: str) -> None:
    with pytest.raises(UsageError, match="write"):
        backend_class(place).open(place)
