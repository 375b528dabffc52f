"""Search workers: many searches at once, the same results, and no harm when one dies."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from subquest import Index
from subquest.errors import SearchError
from subquest.record import Document
from subquest.serve.batching import LOADED, BatchedIndex
from subquest.serve.search_worker import Worker, answer, hits_json

from .conftest import Start

DOCUMENTS = [Document(f"d{n}", f"Title {n}", f"word{n} shared text") for n in range(50)]


@pytest.fixture
def index(tmp_path: Path) -> Any:
    with Index.build(tmp_path / "docs.sq", DOCUMENTS) as found:
        yield found


def expected(index: Index, query: str) -> bytes:
    return hits_json(index.search(query, 2))


async def until_started(batched: BatchedIndex) -> None:
    for _ in range(6000):
        if batched.workers:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("no worker has started")


async def test_a_few_searches_need_no_worker(index: Index) -> None:
    batched = BatchedIndex(index)
    assert await batched.search_json(["word3", "shared"], 2) == [expected(index, "word3"), expected(index, "shared")]
    assert not batched.workers
    await batched.close()


async def test_under_load_workers_find_the_same_and_may_be_killed(index: Index) -> None:
    batched = BatchedIndex(index)

    async def burst() -> None:
        words = [f"word{n % 50}" for n in range(LOADED * 4)]
        found = await asyncio.gather(*(batched.search_json([word], 2) for word in words))
        assert found == [[expected(index, word)] for word in words]

    await burst()
    await until_started(batched)
    await burst()
    worker = batched.workers[-1]  # the one that is asked first, however many there are
    worker.process.kill()
    await burst()
    assert worker not in batched.workers
    assert worker.process.returncode is not None, "nothing is left of it"
    index.add([Document("new", "New", "entirely fresh")])
    (fresh,) = await batched.search_json(["entirely fresh"], 2)
    assert json.loads(fresh)[0]["document"]["id"] == "new"
    await batched.close()


async def test_different_numbers_of_documents_do_not_mix(index: Index) -> None:
    batched = BatchedIndex(index)
    found = await asyncio.gather(*(batched.search_json(["shared"], 1 + n % 3) for n in range(30)))
    assert [len(json.loads(hits[0])) for hits in found] == [1 + n % 3 for n in range(30)]
    await batched.close()


async def test_a_failed_search_is_reported_to_all_who_wait(index: Index) -> None:
    batched = BatchedIndex(index)
    index.close()
    found = await asyncio.gather(*(batched.search_json(["a"], 2) for _ in range(3)), return_exceptions=True)
    assert ["is closed" in str(error) for error in found] == [True] * 3


def test_what_a_worker_answers(index: Index) -> None:
    assert answer(index, ["word1", "zzz"], 2) == [expected(index, "word1"), b"[]"]
    assert "k is 0" in str(answer(index, ["word1"], 0))


def test_a_worker_reports_a_failed_search_and_goes_on(index: Index) -> None:
    worker = Worker(index)
    with pytest.raises(SearchError, match="k is 0"):
        worker.search(["word1"], 0)
    assert worker.search(["word1"], 2) == [expected(index, "word1")]
    worker.close()
    assert worker.process.returncode == 0


def test_searches_follow_the_rules_of_the_server(start: Start) -> None:
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
