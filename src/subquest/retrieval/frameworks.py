"""Any search as a retriever of LangChain or LlamaIndex.

    index.as_langchain_retriever(k=5).invoke("who designed the bridge")
    index.as_llama_index_retriever(k=5).retrieve("who designed the bridge")

Both also work asynchronously (`ainvoke`, `aretrieve`). A failed search raises.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import MissingDependency
from ..record import Hit
from .search import Search

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever as LangChainRetriever
    from llama_index.core.retrievers import BaseRetriever as LlamaIndexRetriever

T = TypeVar("T")


class Retrievers:
    """A mixin for searches: the methods that turn them into retrievers of other libraries."""

    def as_langchain_retriever(self: Search, k: int = 4) -> LangChainRetriever:
        """This search as a LangChain retriever."""
        return as_langchain_retriever(self, k)

    def as_llama_index_retriever(self: Search, k: int = 4) -> LlamaIndexRetriever:
        """This search as a LlamaIndex retriever."""
        return as_llama_index_retriever(self, k)


def as_langchain_retriever(search: Search, k: int = 4) -> LangChainRetriever:
    """Any search as a LangChain retriever: documents carry id, title, score and metadata."""
    try:
        from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
        from langchain_core.documents import Document
        from langchain_core.retrievers import BaseRetriever
        from pydantic import ConfigDict
    except ImportError:
        raise MissingDependency("langchain-core", "langchain") from None

    class SubquestRetriever(BaseRetriever):
        """Asks a Subquest search."""

        model_config = ConfigDict(arbitrary_types_allowed=True)
        search: Any
        k: int

        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return documents(_wait(self.search.retrieve([query], self.k))[0])

        async def _aget_relevant_documents(
            self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
        ) -> list[Document]:
            return documents((await self.search.retrieve([query], self.k))[0])

    def documents(hits: list[Hit]) -> list[Document]:
        return [
            Document(
                page_content=hit.document.text,
                id=hit.document.id,
                metadata={**hit.document.meta, "title": hit.document.title, "score": hit.score},
            )
            for hit in hits
        ]

    return SubquestRetriever(search=search, k=k)


def as_llama_index_retriever(search: Search, k: int = 4) -> LlamaIndexRetriever:
    """Any search as a LlamaIndex retriever: nodes carry id, title and metadata."""
    try:
        from llama_index.core.retrievers import BaseRetriever
        from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
    except ImportError:
        raise MissingDependency("llama-index-core", "llama-index") from None

    class SubquestRetriever(BaseRetriever):
        """Asks a Subquest search."""

        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes(_wait(search.retrieve([query_bundle.query_str], k))[0])

        async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return nodes((await search.retrieve([query_bundle.query_str], k))[0])

    def nodes(hits: list[Hit]) -> list[NodeWithScore]:
        found = []
        for hit in hits:
            document = hit.document
            node = TextNode(id_=document.id, text=document.text, metadata={**document.meta, "title": document.title})
            found.append(NodeWithScore(node=node, score=hit.score))
        return found

    return SubquestRetriever()


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, even where an event loop is running in this thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
