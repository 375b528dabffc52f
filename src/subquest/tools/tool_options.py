"""What tools may use and how they reach the web: `[tools]` in subquest.toml, or the environment.

web = "searxng:http://localhost:8888"      or serper, tavily, brave, with their keys in the environment; or none
record = "searches.jsonl"                  results of the web search are recorded there, and replayed
allow_hosts = ["wiki.intern", "10.0.0.7:8080", "10.1.0.0/16"]
ca = "intranet-ca.pem"                     additional trusted certificates
sandbox_url = "http://sandbox:8080"        a remote /execute server instead of the local sandbox
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import UsageError
from .fetch import Fetcher, FetchLimits
from .sandbox import SandboxLimits
from .websearch import BACKENDS, Recorded, SearXNG, from_environment

if TYPE_CHECKING:
    from ..cache import Cache
    from ..retrieval.search import Search

DAY = 86_400.0
"""Seconds for which web searches and pages are taken from the cache."""


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """The options of the tools, the same for every run."""

    web: str = ""
    """searxng:URL, serper, tavily, brave or none; empty for the one that the environment names."""
    record: str = ""
    """File that records the results of the web search; without a web search they are replayed from it."""
    allow_hosts: tuple[str, ...] = ()
    """The user's own hosts and networks that pages may be fetched from."""
    ca: str = ""
    """PEM file with additional trusted certificates."""
    pages: FetchLimits = field(default_factory=FetchLimits)
    code: SandboxLimits = field(default_factory=SandboxLimits)
    sandbox_url: str = ""
    """A remote `/execute` server instead of the local sandbox."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str] | None = None) -> ToolOptions:
        """The defaults, with `SUBQUEST_ALLOW_HOSTS` and `SUBQUEST_SANDBOX_URL`."""
        env = os.environ if env is None else env
        return cls(
            allow_hosts=tuple(host.strip() for host in env.get("SUBQUEST_ALLOW_HOSTS", "").split(",") if host.strip()),
            sandbox_url=env.get("SUBQUEST_SANDBOX_URL", ""),
        )

    def search(self, env: Mapping[str, str] | None = None) -> Search | None:
        """The web search; None where there is none."""
        env = os.environ if env is None else env
        kind, _, place = self.web.partition(":")
        found: Search | None = None
        if not self.web:
            found = from_environment(env)
        elif kind == "searxng":
            if not place.startswith(("http://", "https://")):
                raise UsageError(f"tools.web = {self.web!r}: write searxng:URL, as in searxng:http://localhost:8888")
            found = SearXNG(place)
        elif kind in BACKENDS and not place:
            variable, backend, url = BACKENDS[kind]
            if not env.get(variable):
                raise UsageError(f"tools.web = {kind!r} needs its key in {variable}")
            found = backend(url, env[variable])
        elif self.web != "none":
            raise UsageError(f"tools.web = {self.web!r}: choose searxng:URL, {', '.join(BACKENDS)} or none")
        record = self.record or (env.get("SUBQUEST_RECORD_SEARCH") if self.web else None)
        return Recorded(record, found) if record else found

    def fetcher(self, *, robots: bool = True, cache: Cache | None = None) -> Fetcher:
        return Fetcher(
            allow=self.allow_hosts, robots=robots, limits=self.pages, ca=self.ca or None, cache=cache, max_age=DAY
        )
