"""Search workers: many searches at once, the same results, and no harm when one dies."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest

from subquest import Index
from subquest.record import Document
from subquest.serve.worker import packed, rendered, serve, unpacked
from subquest.serve.workers import LOADED, Searcher

from .conftest import Start

DOCUMENTS = [Document(f"d{n}", f"Title {n}", f"word{n} shared text") for n in range(50)]


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.build(tmp_path / "docs.sq", DOCUMENTS) as found:
        yield found


def expected(index: Index, query: str) -> bytes:
    return rendered(index.search(query, 2))


async def until_started(searcher: Searcher) -> None:
    for _ in range(6000):
        if searcher._workers:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no worker came")


async def test_a_few_searches_need_no_worker(index: Index) -> None:
    searcher = Searcher(index)
    assert await searcher.search(["word3", "shared"], 2) == [expected(index, "word3"), expected(index, "shared")]
    assert searcher._starting is None
    await searcher.close()


async def test_under_load_workers_give_the_same_and_survive_a_kill(index: Index) -> None:
    searcher = Searcher(index)

    async def burst() -> None:
        words = [f"word{n % 50}" for n in range(LOADED * 4)]
        found = await asyncio.gather(*(searcher.search([word], 2) for word in words))
        assert found == [[expected(index, word)] for word in words]

    await burst()
    await until_started(searcher)
    await burst()
    worker = searcher._workers[0]
    worker._process.kill()
    await burst()
    assert not worker.alive
    index.add([Document("new", "New", "entirely fresh")])
    (fresh,) = await searcher.search(["entirely fresh"], 2)
    assert json.loads(fresh)[0]["document"]["id"] == "new"
    await searcher.close()


async def test_different_numbers_of_documents_do_not_mix(index: Index) -> None:
    searcher = Searcher(index)
    found = await asyncio.gather(*(searcher.search(["shared"], 1 + n % 3) for n in range(30)))
    assert [len(json.loads(hits[0])) for hits in found] == [1 + n % 3 for n in range(30)]
    await searcher.close()


async def test_a_failed_search_is_told_to_all_who_wait(index: Index) -> None:
    searcher = Searcher(index)
    index.close()
    found = await asyncio.gather(*(searcher.search(["a"], 2) for _ in range(3)), return_exceptions=True)
    assert ["is closed" in str(error) for error in found] == [True] * 3


def test_what_a_worker_says(index: Index) -> None:
    request = json.dumps({"queries": ["word1", "zzz"], "k": 2}).encode()
    wrong = json.dumps({"queries": ["word1"], "k": 0}).encode()
    out = io.BytesIO()
    serve(index, io.BytesIO(packed([request, wrong])), out)
    good, bad = unpacked(out.getvalue())
    assert unpacked(good) == [expected(index, "word1"), b"[]"]
    assert unpacked(bad)[0] == b""
    assert b"k is 0" in unpacked(bad)[1]


def test_the_short_way_keeps_the_rules(start: Start) -> None:
    with start(token="correct-horse-battery", max_body=500) as server, server.client() as client:
        body = {"queries": ["Orvane"], "return_scores": True}
        assert client.post("/retrieve", json=body).status_code == 401
        allowed = {"Authorization": "Bearer correct-horse-battery"}
        assert client.post("/retrieve", json=body, headers=allowed).json()["result"][0][0]["document"]["id"] == "d1"
        foreign = {**allowed, "Origin": "http://evil.example"}
        refused = client.post("/retrieve", json=body, headers=foreign)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "origin")
        assert "default-src 'none'" in refused.headers["content-security-policy"]
        large = client.post("/retrieve", json={"queries": ["x" * 600]}, headers=allowed)
        assert large.status_code == 413
        assert client.post("/retrieve", content=b"[]", headers=allowed).status_code == 400
        assert client.get("/retrieve", headers=allowed).status_code == 405
        counted = client.get("/metrics", headers=allowed).text
        assert 'subquest_requests_total{method="POST",route="/retrieve",status="200"} 1' in counted
        assert 'subquest_requests_total{method="POST",route="/retrieve",status="413"} 1' in counted
