"""Clients of a server under load: they ask, follow, search, upload and delete, and retry when the server is away."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

PATIENCE = 120.0
"""Seconds for which a client retries."""
AWAY = (429, 503, 507)
"""Statuses that ask for a retry."""


class Failed(Exception):
    """A client saw more than a retry can explain."""


@dataclass
class Clients:
    """What all clients share: one connection pool, the end of the load, and the books."""

    http: httpx2.AsyncClient
    end: float
    done: Counter[str] = field(default_factory=Counter)
    retries: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)
    """How each question that got 202 ended, as far as its client knows."""

    async def work(self, askers: int, others: int = 2) -> None:
        """`askers` questions at a time; of searches, uploads, deletes and followers `others` each."""
        actions = [self.ask] * askers + [self.search, self.upload, self.delete, self.follow, self.look] * others
        await asyncio.gather(*(self._repeat(action, random.Random(n)) for n, action in enumerate(actions)))

    async def _repeat(self, action: Callable[[random.Random], Awaitable[str]], generator: random.Random) -> None:
        while time.monotonic() < self.end:
            try:
                self.done[await action(generator)] += 1
            except (Failed, httpx2.HTTPError, KeyError, ValueError) as error:
                self.failures.append(f"{action.__name__}: {type(error).__name__}: {error}"[:300])
                await asyncio.sleep(1.0)

    async def send(self, method: str, place: str, **more: Any) -> httpx2.Response:
        """Send a request until the server has answered it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                reply = await self.http.request(method, place, **more)
                if reply.status_code not in AWAY:
                    break
                why = str(reply.status_code)
            except httpx2.TransportError as error:
                why = type(error).__name__
            if time.monotonic() > deadline:
                raise Failed(f"{method} {place}: {why} for {PATIENCE:g} s")
            self.retries[why] += 1
            await asyncio.sleep(0.25)
        if reply.status_code >= 400:
            raise Failed(f"{method} {place}: {reply.status_code} {reply.text}")
        return reply

    async def ask(self, generator: random.Random) -> str:
        """A question from the reply 202 to its end; one in ten is cancelled, one in ten is a chat."""
        chosen = generator.random()
        if chosen < 0.1:
            body = {"model": "subquest-coda", "messages": [{"role": "user", "content": "Which?"}]}
            await self._chat(body)
            return "chat"
        job = (await self.send("POST", "/api/ask", json={"question": f"Question {generator.randrange(500)}?"})).json()
        self.accepted[job["id"]] = "accepted"
        if chosen < 0.2:
            await self.send("GET", f"/api/episodes/{job['id']}")
            with_cancel = await self.http_or_gone("POST", f"/api/episodes/{job['id']}/cancel")
            self.accepted[job["id"]] = "cancelled" if with_cancel else "accepted"
            if with_cancel:
                return "cancel"
        await self.to_the_end(job["id"])
        return "ask"

    async def _chat(self, body: dict[str, Any]) -> None:
        """A chat that a restart interrupts (502) is asked again."""
        for _ in range(20):
            try:
                await self.send("POST", "/v1/chat/completions", json=body)
                return
            except Failed as error:
                if "interrupted" not in str(error):
                    raise
                self.retries["chat interrupted"] += 1
        raise Failed("a chat was interrupted 20 times")

    async def http_or_gone(self, method: str, place: str) -> bool:
        """Send a request about a job; False if the server has restarted and no longer has it in memory."""
        try:
            await self.send(method, place)
        except Failed as error:
            if ": 404 " not in str(error):
                raise
            return False
        return True

    async def to_the_end(self, identifier: str) -> None:
        """Follow a question to its end, and resume it if the server stopped in between."""
        asked, status = identifier, ""
        deadline = time.monotonic() + PATIENCE
        while status not in ("finished", "cancelled"):
            status = await self.status(identifier)
            if status == "interrupted":
                self.retries["resumed"] += 1
                identifier = (await self.send("POST", f"/api/episodes/{identifier}/resume")).json()["id"]
            elif status == "failed" or time.monotonic() > deadline:
                raise Failed(f"the question {asked} ended as {status!r}")
        self.accepted[asked] = status

    async def status(self, identifier: str) -> str:
        """Read the events of an episode to their end; how it ended, empty if the connection was lost."""
        try:
            async with self.http.stream("GET", f"/api/episodes/{identifier}/events") as reply:
                if reply.status_code != 200:
                    raise Failed(f"the events of {identifier}: {reply.status_code}")
                over = False
                async for line in reply.aiter_lines():
                    if over and line.startswith("data: "):
                        return str(json.loads(line[6:])["status"])
                    over = line == "event: done"
        except httpx2.TransportError as error:
            self.retries[type(error).__name__] += 1
            await asyncio.sleep(0.25)
        return ""

    async def search(self, generator: random.Random) -> str:
        queries = [f"passage word {generator.randrange(100)}" for _ in range(8)]
        body = {"queries": queries, "topk": 3, "return_scores": True}
        replies = await asyncio.gather(*(self.send("POST", "/retrieve", json=body) for _ in range(4)))
        for reply in replies:
            if [len(found) for found in reply.json()["result"]] != [3] * 8:
                raise Failed(f"a search found too little: {reply.text[:200]}")
        await asyncio.sleep(0.5)
        return "4 searches"

    async def upload(self, generator: random.Random) -> str:
        number = generator.randrange(40)
        file = {"name": f"file{number}.txt", "text": f"passage word {generator.randrange(5000)}"}
        await self.send("POST", "/api/indexes/grown/documents", json={"files": [file]})
        await asyncio.sleep(1.0)
        return "upload"

    async def delete(self, generator: random.Random) -> str:
        document = {"id": f"d{generator.getrandbits(64):x}", "title": "", "text": f"word {generator.randrange(5000)}"}
        await self.send("POST", "/api/indexes/grown/documents", json={"documents": [document]})
        await self.http_or_gone("DELETE", f"/api/indexes/grown/document?id={document['id']}")
        await asyncio.sleep(1.0)
        return "delete"

    async def follow(self, generator: random.Random) -> str:
        """The events of somebody else's question."""
        live = (await self.send("GET", "/api/episodes?limit=1")).json()["live"]
        if live:
            await self.status(generator.choice(live)["id"])
        return "stream"

    async def look(self, generator: random.Random) -> str:
        for place in ("/api/episodes?limit=12", "/metrics", "/api/indexes", "/", "/health"):
            await self.send("GET", place)
        await asyncio.sleep(2.0)
        return "look"

    async def lost(self) -> list[str]:
        """Questions that were accepted, whose client saw no end, and that the server does not know either."""
        left = [identifier for identifier, status in self.accepted.items() if status == "accepted"]
        ends = await asyncio.gather(*map(self.to_the_end, left), return_exceptions=True)
        return [identifier for identifier, end in zip(left, ends, strict=True) if end is not None]
