"""Web search with the interface of every other search: queries in, hits out, the URL as the document's id.

    SEARXNG_URL       a SearXNG instance with the JSON format enabled
    SERPER_API_KEY    Serper (Google)
    TAVILY_API_KEY    Tavily
    BRAVE_API_KEY     Brave Search

`from_environment` takes the first that is set. A busy server (429) is retried and then fails: a failure is never an
empty result, and never recorded or cached.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from ..address import checked_address, checked_key
from ..codec import utf8
from ..errors import DataError, SearchError, SearchRefused, UsageError
from ..masking import mask, masked
from ..record import Document, Hit
from ..retrieval.search import Search

ATTEMPTS = 4
PAGE = 10
"""Results of one page of SearXNG."""


class SearchGivenUp(SearchError):
    """The search server failed on every attempt; more retries will not help."""

    retryable = False


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request to a search server."""

    method: str
    url: str
    params: Mapping[str, Any] | None = None
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] | None = None


class WebSearch:
    """A search server; subclasses define its requests and responses."""

    name = ""

    def __init__(self, url: str, key: str = "", *, per_second: float = 5.0, timeout: float = 20.0) -> None:
        self._address = checked_address(url, f"the address of {self.name}")
        self.url = self._address.url
        self._key = checked_key(key, f"the key of {self.name}")
        self._pause = 1 / per_second
        self._timeout = timeout
        self._turns: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = weakref.WeakKeyDictionary()
        """A lock belongs to one event loop; a search may be used from several, one after the other or in threads."""
        self._last = float("-inf")

    @property
    def identity(self) -> dict[str, str]:
        """Everything but the query that decides its results, for the cache; never the key."""
        return {"search": self.name, "url": self.url}

    def calls(self, query: str, k: int) -> list[Call]:
        """The requests that return k results."""
        raise NotImplementedError

    def results(self, answer: Any) -> Any:
        """The list of results in an answer."""
        return answer["results"]

    def result(self, entry: Any) -> tuple[str, str, str]:
        """URL, title and snippet of a result."""
        return entry["url"], entry.get("title", ""), entry.get("content", "")

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        return list(await asyncio.gather(*(self._one(query, k) for query in queries)))

    async def _one(self, query: str, k: int) -> list[Hit]:
        found: dict[str, tuple[str, str]] = {}
        for call in self.calls(query, k):
            fresh = self._read(await self._ask(call))
            before = len(found)
            for url, title, snippet in fresh:
                if url.startswith(("http://", "https://")):
                    found.setdefault(url, (title, snippet))
            if len(found) >= k or len(found) == before:
                break
        hits = [
            Hit(Document(url, title, snippet, {"url": url, "source": self.name}), 1 / rank)
            for rank, (url, (title, snippet)) in enumerate(found.items(), 1)
        ]
        return hits[:k]

    def _read(self, answer: Any) -> list[tuple[str, str, str]]:
        """The results of an answer; malformed entries are skipped, unless all are malformed."""
        try:
            entries = self.results(answer)
        except (KeyError, TypeError, AttributeError):
            entries = None
        found = []
        for entry in entries if isinstance(entries, list) else ():
            with suppress(KeyError, TypeError, AttributeError, ValueError):
                u, t, s = self.result(entry)
                found.append((urljoin(f"{self.url}/", utf8(u)), utf8(str(t or u)), utf8(str(s or ""))))
        if not isinstance(entries, list) or (entries and not found):
            raise SearchError(f"{self.name} did not answer with a list of results")
        return found

    async def _ask(self, call: Call) -> Any:
        import httpx2

        reason = ""
        for attempt in range(1, ATTEMPTS + 1):
            await self._take_turn()
            wait = 0.5 * 2 ** (attempt - 1)
            try:
                async with httpx2.AsyncClient(timeout=self._timeout, trust_env=False) as client:
                    reply = await client.request(
                        call.method,
                        call.url,
                        params={**self._address.query, **(call.params or {})},
                        json=call.body,
                        headers={**self._address.headers, **(call.headers or {})},
                    )
            except httpx2.HTTPError as error:
                reason = str(error) or type(error).__name__
            else:
                if reply.status_code == 200:
                    try:
                        return masked(reply.json())
                    except (ValueError, RecursionError):
                        raise SearchRefused(
                            f"{self.name} answered without JSON; for SearXNG, enable the json format in its settings"
                        ) from None
                reason = f"status {reply.status_code}"
                if reply.status_code != 429 and reply.status_code < 500:
                    raise SearchRefused(f"{self.name} refused the search: {reason}: {mask(reply.text)[:200]}")
                asked = reply.headers.get("retry-after", "")
                wait = min(float(asked), 30.0) if asked.isdecimal() and len(asked) < 7 else wait
            if attempt < ATTEMPTS:
                await asyncio.sleep(wait)
        raise SearchGivenUp(f"{self.name} failed {ATTEMPTS} times, the last time with {reason}")

    async def _take_turn(self) -> None:
        async with self._turns.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            wait = self._last + self._pause - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self._last = time.monotonic()


class SearXNG(WebSearch):
    name = "searxng"

    def calls(self, query: str, k: int) -> list[Call]:
        pages = range(1, -(-k // PAGE) + 1)
        return [Call("GET", f"{self.url}/search", {"q": query, "format": "json", "pageno": p}) for p in pages]


class Serper(WebSearch):
    name = "serper"

    def calls(self, query: str, k: int) -> list[Call]:
        return [Call("POST", f"{self.url}/search", body={"q": query, "num": k}, headers={"X-API-KEY": self._key})]

    def results(self, answer: Any) -> Any:
        return answer.get("organic", [])

    def result(self, entry: Any) -> tuple[str, str, str]:
        return entry["link"], entry.get("title", ""), entry.get("snippet", "")


class Tavily(WebSearch):
    name = "tavily"

    def calls(self, query: str, k: int) -> list[Call]:
        body = {"query": query, "max_results": min(k, 20)}
        return [Call("POST", f"{self.url}/search", body=body, headers={"Authorization": f"Bearer {self._key}"})]


class Brave(WebSearch):
    name = "brave"

    def calls(self, query: str, k: int) -> list[Call]:
        headers = {"X-Subscription-Token": self._key, "Accept": "application/json"}
        return [Call("GET", f"{self.url}/res/v1/web/search", {"q": query, "count": min(k, 20)}, headers=headers)]

    def results(self, answer: Any) -> Any:
        return (answer.get("web") or {}).get("results", [])

    def result(self, entry: Any) -> tuple[str, str, str]:
        return entry["url"], entry.get("title", ""), entry.get("description", "")


class Recorded:
    """A search whose results are recorded in a file, so that a run can be repeated offline.

    With `inner`, queries that are not in the file are asked there and recorded; without, they are an error. Failures
    are not recorded.
    """

    def __init__(self, path: str | Path, inner: Search | None = None) -> None:
        self.path = Path(path)
        self.name = f"recorded:{self.path.name}"
        self._inner = inner
        self._known: dict[tuple[str, int], list[Hit]] = {}
        try:
            self._read(self.path.read_bytes() if inner is None or self.path.exists() else b"")
        except FileNotFoundError:
            folder = f": there is no folder {self.path.parent}" if not self.path.parent.exists() else ""
            raise UsageError(f"there is no recording {self.path}{folder}") from None
        except OSError as error:
            raise UsageError(f"the recording {self.path} cannot be used: {error.strerror}") from None

    def _read(self, content: bytes) -> None:
        """Load the recording; a last line that a kill cut off is dropped."""
        *lines, torn = content.split(b"\n")
        for number, line in enumerate(lines, 1):
            self._load(line, number)
        whole = True
        try:
            if torn:
                self._load(torn, len(lines) + 1)
        except DataError:
            whole = False
        if self._inner is not None:
            with self.path.open("ab") as file:
                if torn and whole:
                    file.write(b"\n")
                elif torn:
                    file.truncate(len(content) - len(torn))

    async def retrieve(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        missing = [query for query in dict.fromkeys(queries) if (query, k) not in self._known]
        if missing:
            if self._inner is None:
                raise SearchRefused(f"the recording {self.path} holds no answer to {missing[0]!r} (k={k})")
            for query, hits in zip(missing, await self._inner.retrieve(missing, k), strict=True):
                self._keep(query, k, hits)
        return [self._known[query, k] for query in queries]

    def _keep(self, query: str, k: int, hits: list[Hit]) -> None:
        self._known[query, k] = hits
        rows = [[h.document.id, h.document.title, h.document.text, h.score, dict(h.document.meta)] for h in hits]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"query": query, "k": k, "hits": rows}, ensure_ascii=False) + "\n")

    def _load(self, line: bytes, number: int) -> None:
        try:
            row = json.loads(line)
            hits = [Hit(Document(i, title, text, meta), score) for i, title, text, score, meta in row["hits"]]
            self._known[row["query"], row["k"]] = hits
        except (ValueError, KeyError, TypeError, RecursionError):
            raise DataError(f"{self.path}:{number}: not a recorded search") from None


BACKENDS: Mapping[str, tuple[str, type[WebSearch], str]] = {
    "serper": ("SERPER_API_KEY", Serper, "https://google.serper.dev"),
    "tavily": ("TAVILY_API_KEY", Tavily, "https://api.tavily.com"),
    "brave": ("BRAVE_API_KEY", Brave, "https://api.search.brave.com"),
}
"""Hosted searches by name: the variable of their key, the class, the address."""


def is_web(search: Search) -> bool:
    """Whether a search asks the web rather than private documents; a cache keeps the name."""
    return search.name in {"searxng", *BACKENDS} or search.name.startswith("recorded:")


def from_environment(env: Mapping[str, str] | None = None) -> Search | None:
    """The web search that the environment names, or None.

    `SUBQUEST_RECORD_SEARCH` names a file that records its results, or, alone, replays them.
    """
    env = os.environ if env is None else env
    found: Search | None = None
    if env.get("SEARXNG_URL"):
        found = SearXNG(env["SEARXNG_URL"])
    else:
        found = next((kind(url, env[name]) for name, kind, url in BACKENDS.values() if env.get(name)), None)
    recording = env.get("SUBQUEST_RECORD_SEARCH")
    return Recorded(recording, found) if recording else found
