"""A Search-R1 retrieval server as a search: `POST /retrieve`, the protocol of Search-R1, CoDA and related systems.

    request   {"queries": [str], "topk": int, "return_scores": true}
    response  {"result": [[{"document": {"id", "contents"}, "score"}, ...], ...]}

Existing servers answer a batch of exactly two queries with wrong documents and fail without scores, so scores are
always requested and two queries are sent as two requests.
"""

from __future__ import annotations

import asyncio
import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..address import checked_address, is_loopback
from ..codec import utf8
from ..english import counted
from ..errors import SearchError, UsageError
from ..masking import mask, masked
from ..record import Hit
from .corpus import from_object
from .frameworks import Retrievers
from .search import check_request
from .stored_document import cleaned

if TYPE_CHECKING:
    import httpx2

ATTEMPTS = 3
_FIRST_WAIT = 0.5


class RemoteSearch(Retrievers):
    """Searches by asking a server; failures are retried, then raised as SearchError.

    Connections stay open between searches, separately for each event loop, so several loops may share it.
    """

    def __init__(self, url: str, *, timeout: float = 60.0) -> None:
        self._address = checked_address(url, "a retrieval server's address")
        base = self._address.url
        self.url = base if base.endswith("/retrieve") else f"{base}/retrieve"
        self._timeout = timeout
        self._clients: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient]
        self._clients = weakref.WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self.url

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        check_request(queries, k)
        if not queries:
            return []
        if len(queries) == 2:
            first, second = await asyncio.gather(self._ask(queries[:1], k), self._ask(queries[1:], k))
            return first + second
        return await self._ask(queries, k)

    async def _ask(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        import httpx2

        body = {"queries": [utf8(query) for query in queries], "topk": k, "return_scores": True}
        for attempt in range(1, ATTEMPTS + 1):
            try:
                reply = await self._client().post(self.url, json=body, params=self._address.query)
                if reply.status_code < 500 and reply.status_code != 429:
                    break
                reason = f"status {reply.status_code}"
            except httpx2.ConnectError as error:
                reason = f"{error} (is the server up?)"
            except httpx2.HTTPError as error:
                reason = repr(error)
            if attempt == ATTEMPTS:
                raise SearchError(f"{self.url} failed {ATTEMPTS} times, the last time with {reason}")
            await asyncio.sleep(_FIRST_WAIT * 2 ** (attempt - 1))
        if reply.status_code != 200:
            raise SearchError(f"{self.url} answered with status {reply.status_code}: {mask(reply.text)[:200]}")
        try:
            result = masked(reply.json())["result"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise SearchError(f"{self.url} answered without a `result`: {mask(reply.text)[:200]}") from None
        if not isinstance(result, list) or len(result) != len(queries):
            raise SearchError(
                f"{self.url} answered {counted(len(queries), 'query')} with a `result` of a different length"
            )
        return [self._hits(found, k) for found in result]

    def _client(self) -> httpx2.AsyncClient:
        import httpx2

        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(
                headers=self._address.headers,
                timeout=httpx2.Timeout(self._timeout, pool=None),
                trust_env=not is_loopback(self.url),
            )
        return self._clients[loop]

    def _hits(self, found: Any, k: int) -> list[Hit]:
        if not isinstance(found, list):
            raise SearchError(f"{self.url}: expected a list of documents, got {type(found).__name__}")
        hits = []
        for rank, item in enumerate(found[:k], start=1):
            inner = item.get("document", item) if isinstance(item, dict) else item
            score = item.get("score") if isinstance(item, dict) else None
            if isinstance(inner, dict) and "id" not in inner:
                inner = {"id": inner.get("title") or f"rank {rank}", **inner}
            try:
                document = cleaned(from_object(inner, self.url))
            except UsageError as error:
                raise SearchError(str(error)) from None
            hits.append(Hit(document, _score(score, rank)))
        return hits


def _score(given: Any, rank: int) -> float:
    """The score that a server gives; one over the rank where it gives no usable one."""
    try:
        return float(given) if isinstance(given, int | float) and math.isfinite(given) else 1 / rank
    except OverflowError:  # an integer beyond all floats
        return 1 / rank
