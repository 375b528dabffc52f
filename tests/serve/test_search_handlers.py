"""Search over HTTP: the forms that Search-R1 and ReCall speak, and our own."""

import asyncio
import base64
from typing import Any

import pytest

from subquest import Index
from subquest.engine.scripted import ScriptedEngine
from subquest.record import Document
from subquest.retrieval.remote import RemoteSearch
from subquest.serve.batching import BatchedIndex
from subquest.serve.settings import Settings

from ..readers.made import pdf
from ..systems.fakes import DOCUMENTS
from .conftest import Running, Start

BRIDGE = {"id": "d1", "contents": f'"Orvane Bridge"\n{DOCUMENTS[0].text}'}


def test_search_r1(server: Running) -> None:
    with server.client() as client:
        scored = client.post("/retrieve", json={"queries": ["Orvane"], "topk": 1, "return_scores": True}).json()
        assert scored["result"][0][0]["document"] == BRIDGE
        assert scored["result"][0][0]["score"] > 0
        plain = client.post("/retrieve", json={"queries": ["Orvane", "nothing at all"]}).json()
        assert plain == {"result": [[BRIDGE], []]}


async def test_our_own_client_reads_it(server: Running) -> None:
    found = await RemoteSearch(server.url).retrieve(["Orvane", "Kestel"], 3)
    assert [[hit.document.id for hit in hits] for hits in found] == [["d1"], ["d2"]]
    assert found[0][0].document.title == "Orvane Bridge"


def test_recall(server: Running) -> None:
    with server.client() as client:
        assert client.post("/search", json={"query": "Orvane", "top_n": 2}).json() == [BRIDGE]
        documents, scores = client.post("/search", json={"query": "Orvane", "top_n": 2, "return_score": True}).json()
        assert (documents, len(scores)) == ([BRIDGE], 1)
        assert client.post("/batch_search", json={"query": ["Orvane", "zzz"], "top_n": 2}).json() == [[BRIDGE], []]


def test_rerank_puts_what_the_model_likes_first(start: Start) -> None:
    script = ScriptedEngine(lambda context: "yes" if "engineer" in context.text.lower() else "no")
    documents = [[{"document": {"contents": f'"{d.title}"\n{d.text}'}} for d in DOCUMENTS]]
    with start(models={"default": script}) as server, server.client() as client:
        asked = {"queries": ["Who was she?"], "documents": documents, "rerank_topk": 1, "return_scores": True}
        (best,) = client.post("/rerank", json=asked).json()["result"][0]
    assert best["document"]["contents"].startswith('"Mila Torrun"')
    assert best["score"] > 0.5


def test_our_own_form_marks_the_sentence(server: Running) -> None:
    with server.client() as client:
        (hit,) = client.post("/api/indexes/docs/search", json={"query": "opened 1931", "mode": "bm25"}).json()["hits"]
        span = hit["highlight"]
        assert hit["text"][span["start"] : span["end"]] == "It opened in 1931."
        missing = client.post("/api/indexes/docs/search", json={"query": "x", "mode": "dense"})
        assert (missing.status_code, "no vectors" in missing.text) == (400, True)
        assert client.get("/api/indexes/docs/document", params={"id": "d2"}).json()["title"] == "Mila Torrun"
        assert client.get("/api/indexes/docs/document", params={"id": "d3"}).status_code == 404


def test_documents_make_an_index_that_can_be_searched_and_stays(start: Start) -> None:
    files = [{"name": "C:\\notes\\trip.md", "text": "# Harbour\nThe ferry to Nesvik leaves at noon."}]
    records = [{"id": "r1", "title": "Nesvik", "text": "Nesvik has one inn."}]
    with start() as server, server.client() as client:
        made = client.post("/api/indexes/trip/documents", json={"files": files, "documents": records})
        assert (made.status_code, made.json()["added"]) == (201, 2)
        more = {"documents": [{"id": "r2", "title": "", "text": "A second inn opened."}]}
        assert client.post("/api/indexes/trip/documents", json=more).json()["added"] == 1
        found = client.post("/retrieve", json={"queries": ["inn"], "index": "trip"}).json()["result"][0]
        assert {hit["id"] for hit in found} == {"r1", "r2"}
    with start() as server, server.client() as client:
        listed = {index["name"]: index for index in client.get("/api/indexes").json()["indexes"]}
        assert listed["trip"]["documents"] == 3
        ids = [h["id"] for h in client.post("/search", json={"query": "ferry", "index": "trip"}).json()]
        assert ids == ["trip/trip.md#1"]


@pytest.mark.parametrize("name", ["..", ".hidden", "a b", "x" * 65, "%2e%2e%2fetc"])
def test_names_that_could_leave_the_folder_are_refused(server: Running, name: str) -> None:
    with server.client() as client:
        reply = client.post(f"/api/indexes/{name}/documents", json={"documents": [{"id": "a", "text": "b"}]})
    assert reply.status_code in (400, 404, 405)
    assert not list(server.state.settings.indexes.parent.glob("*etc*"))
    assert not server.state.settings.indexes.exists()


def test_a_read_only_server_takes_nothing(start: Start) -> None:
    with start(read_only=True) as server, server.client() as client:
        reply = client.post("/api/indexes/x/documents", json={"documents": [{"id": "a", "text": "b"}]})
    assert reply.status_code == 403


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/retrieve", {"queries": "Orvane"}, "queries must be a list of at most 2,048, not 'Orvane'"),
        ("/retrieve", {"queries": ["x"], "topk": 0}, "topk must be a whole number from 1 to 1,000, not 0"),
        ("/retrieve", {"queries": ["x"], "topk": True}, "topk must be a whole number from 1 to 1,000, not True"),
        ("/retrieve", {"queries": ["x"], "index": "no"}, "no index 'no'"),
        ("/retrieve", {"queries": ["x"] * 101, "topk": 1000}, "100,000 documents of one reply; send several requests"),
        ("/retrieve", {"queries": ["x"] * 101, "topk": 1000, "return_scores": True}, "send several requests"),
        ("/batch_search", {"query": ["x"] * 101, "top_n": 1000}, "send several requests"),
        ("/search", {}, "missing key 'query'"),
        ("/rerank", {"queries": ["a"], "documents": []}, "one list of documents per query"),
        ("/api/indexes/docs/documents", {"files": [{"name": "a.jsonl", "text": "{"}]}, "docs/a.jsonl: line 1"),
        ("/api/indexes/docs/documents", {"files": [{"name": "a.pdf", "data": "?"}]}, "not base64"),
        ("/api/indexes/docs/documents", {"files": [{"name": "a.exe", "text": "x"}]}, "kind .exe are not read"),
        ("/api/indexes/docs/documents", {"documents": [{"text": "x"}]}, "document 1"),
        ("/api/indexes/docs/documents", {}, "nothing to add"),
    ],
)
def test_wrong_requests_are_named(server: Running, path: str, body: dict[str, Any], message: str) -> None:
    with server.client() as client:
        reply = client.post(path, json=body)
    assert 400 <= reply.status_code < 500
    assert message in reply.json()["error"]["message"]


async def test_requests_of_one_moment_share_a_search(tmp_path: Any) -> None:
    calls = []

    class Counted(Index):
        def search_many(self, queries: Any, *args: Any, **more: Any) -> Any:
            calls.append(list(queries))
            return super().search_many(queries, *args, **more)

    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    with Counted(tmp_path / "docs.sq") as index:
        batched = BatchedIndex(index)
        words = ["Orvane", "Kestel"] * 20
        found = await asyncio.gather(*(batched.retrieve([word], 1) for word in words))
        assert [hits[0][0].document.id for hits in found] == ["d1", "d2"] * 20
        assert len(calls) <= 2
        mixed = await asyncio.gather(
            batched.search(["Orvane"], 1), batched.search(["Orvane"], 1, "dense"), return_exceptions=True
        )
        assert isinstance(mixed[0], list)
        assert "no vectors" in str(mixed[1])


def test_a_pdf_is_read_page_by_page_and_cited_by_its_page(start: Start) -> None:
    files = [
        {"name": "../guide.pdf", "data": base64.b64encode(pdf("Nothing here.", "The ferry to Nesvik leaves at noon."))},
        {"name": "guide.pdf", "data": base64.b64encode(pdf("Another file of the same name about trains."))},
        {"name": "broken.pdf", "data": base64.b64encode(b"%PDF-1.4 and no more")},
    ]
    told = [{**file, "data": bytes(file["data"]).decode()} for file in files]  # type: ignore[arg-type]
    with start() as server, server.client() as client:
        made = client.post("/api/indexes/trip/documents", json={"files": told})
        assert made.status_code == 201, made.text
        assert made.json()["added"] == 3
        assert ["broken.pdf" in problem for problem in made.json()["problems"]] == [True]
        (hit,) = client.post("/api/indexes/trip/search", json={"query": "ferry"}).json()["hits"]
        assert (hit["meta"]["file"], hit["meta"]["page"]) == ("trip/guide.pdf", 2)
        (other,) = client.post("/api/indexes/trip/search", json={"query": "trains"}).json()["hits"]
        assert other["meta"]["file"] == "trip/guide (2).pdf"
    assert sorted(path.name for path in server.state.settings.indexes.parent.iterdir()) == [
        "docs.sq",
        "indexes",
        "runs",
    ]


@pytest.mark.slow
def test_many_add_to_one_index_at_once(start: Start) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with start() as server:

        def add(number: int) -> str:
            body: dict[str, Any] = {"documents": [{"id": f"d{number}", "title": "", "text": f"ferry {number}"}]}
            if number % 3 == 0:
                body = {"files": [{"name": f"f{number}.md", "text": f"The ferry has number {number}."}]}
            with server.client() as client:
                return client.post("/api/indexes/grown/documents", json=body).text

        with ThreadPoolExecutor(6) as pool:
            assert ['"added":1' in text for text in pool.map(add, range(18))] == [True] * 18
        with server.client() as client:
            found = client.post("/search", json={"query": "ferry", "top_n": 50, "index": "grown"}).json()
    assert len(found) == 18


def test_files_whose_names_meet_are_all_kept(start: Start) -> None:
    names = ["b.txt", "b.txt", "b (2).txt", "x/b.txt", "\U0001f600" * 150 + ".txt", "é" * 300 + ".txt"]
    files = [{"name": name, "text": f"harbour number {at}"} for at, name in enumerate(names)]
    with start() as server, server.client() as client:
        added = client.post("/api/indexes/met/documents", json={"files": files})
        assert (added.status_code, added.json()["added"]) == (201, len(names))
        hits = client.post("/api/indexes/met/search", json={"query": "harbour", "k": 10}).json()["hits"]
        assert sorted(hit["text"] for hit in hits) == [f"harbour number {at}" for at in range(len(names))]
        places = {hit["text"][-1]: hit["id"] for hit in hits}
        assert [places[n] for n in "0123"] == [f"met/{name}#1" for name in _NUMBERED]


_NUMBERED = ("b.txt", "b (3).txt", "b (2).txt", "b (4).txt")


def test_a_damaged_index_keeps_nobody_from_the_others(start: Start, settings: Settings) -> None:
    for name in ("good", "bad"):
        Index.build(settings.indexes / f"{name}.sq", [Document("a", "Kestel", "Kestel is a town.")]).close()
    (settings.indexes / "bad.sq" / "store.db").write_bytes(b"junk" * 100)
    with start() as server, server.client() as client:
        assert set(client.get("/api/about").json()["indexes"]) == {"docs", "good"}
        refused = client.post("/retrieve", json={"queries": ["Kestel"], "index": "bad"})
        assert refused.status_code == 409
        assert "cannot be opened" in refused.json()["error"]["message"]
        files = {"files": [{"name": "a.txt", "text": "A harbour."}]}
        assert client.post("/api/indexes/bad/documents", json=files).status_code == 409
        assert client.post("/api/indexes/new/documents", json=files).status_code == 201
        assert client.post("/retrieve", json={"queries": ["Kestel"], "index": "nowhere"}).status_code == 404
    assert (settings.indexes / "bad.sq" / "store.db").read_bytes() == b"junk" * 100


def test_a_document_is_removed(start: Start) -> None:
    with start() as server, server.client() as client:
        documents = [{"id": "a/b?c", "title": "A", "text": "One."}, {"id": "d", "title": "D", "text": "Two."}]
        client.post("/api/indexes/mine/documents", json={"documents": documents})
        place, one = "/api/indexes/mine/document", {"id": "a/b?c"}
        assert client.delete(place, params=one).json() == {"index": "mine", "removed": 1}
        assert [client.get(place, params=one).status_code, client.delete(place, params=one).status_code] == [404, 404]
        assert client.post("/api/indexes/mine/search", json={"query": "one"}).json()["hits"] == []
        assert client.delete("/api/indexes/nothing/document", params=one).status_code == 404
    with start(read_only=True) as server, server.client() as client:
        assert client.delete("/api/indexes/mine/document", params={"id": "d"}).status_code == 403
