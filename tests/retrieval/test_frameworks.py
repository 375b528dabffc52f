"""Retrievers for the real LangChain and LlamaIndex."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from subquest.errors import SearchError
from subquest.record import Hit
from subquest.retrieval import Index
from subquest.retrieval.frameworks import as_langchain_retriever, as_llama_index_retriever

from .library import LIBRARY
from .servers import retrieval_server


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.build(tmp_path / "a.sq", LIBRARY) as index:
        yield index


class Broken:
    name = "broken"

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        raise SearchError("the server is down")


def test_a_langchain_chain_reads_from_an_index(index: Index) -> None:
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    retriever = index.as_langchain_retriever(k=2)
    assert isinstance(retriever, BaseRetriever)
    chain = retriever | RunnableLambda(lambda found: [document.id for document in found])
    assert chain.invoke("bridge over the Tweed") == ["river", "bridge"]
    assert chain.batch(["engineer", "abbey café"]) == [["tolland"], ["kelso", "river"]]
    (first, *_) = retriever.invoke("engineer")
    assert first.page_content == LIBRARY[1].text
    assert first.metadata["title"] == "Mira Tolland"
    assert first.metadata["kind"] == "person"
    assert first.metadata["score"] == index.search("engineer", 1)[0].score


async def test_langchain_asks_without_blocking(index: Index) -> None:
    found = await index.as_langchain_retriever(k=1).ainvoke("engineer")
    assert [document.id for document in found] == ["tolland"]
    (same,) = index.as_langchain_retriever(k=1).invoke("engineer")  # called in a running loop, as in a notebook
    assert same.id == "tolland"


@pytest.mark.slow
def test_a_llama_index_query_engine_reads_from_an_index(index: Index) -> None:
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import QueryBundle

    retriever = index.as_llama_index_retriever(k=2)
    assert isinstance(retriever, BaseRetriever)
    found = retriever.retrieve("engineer")
    assert [node.node.node_id for node in found] == ["tolland"]
    assert found[0].score == pytest.approx(index.search("engineer", 1)[0].score)
    assert found[0].node.metadata == {"year": 1871, "kind": "person", "title": "Mira Tolland"}
    again = asyncio.run(retriever.aretrieve(QueryBundle("engineer")))
    assert [node.text for node in again] == [LIBRARY[1].text]


def test_any_search_will_do() -> None:
    from subquest.retrieval import RemoteSearch

    with retrieval_server() as (url, _):
        (first, *_) = RemoteSearch(url).as_langchain_retriever(k=1).invoke("rivers")
        assert (first.id, first.metadata["title"]) == ("d1", "Title of rivers")


def test_a_failed_search_is_not_an_empty_result() -> None:
    with pytest.raises(SearchError, match="down"):
        as_langchain_retriever(Broken()).invoke("x")
    with pytest.raises(SearchError, match="down"):
        as_llama_index_retriever(Broken()).retrieve("x")


def test_the_documentation_shows_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs" / "integrations.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "as_langchain" in block]
    monkeypatch.chdir(tmp_path)
    Index.build("docs.sq", LIBRARY).close()
    names: dict[str, list[object]] = {}
    exec(compile(code, "integrations.md", "exec"), names)
    assert len(names["documents"]) == len(names["nodes"]) > 0
