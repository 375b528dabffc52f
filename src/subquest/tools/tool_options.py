"""What tools may reach and use: `[tools]` in subquest.toml, or the environment.

web = "searxng:http://localhost:8888"      or serper, tavily, brave, with their keys in the environment; or none
record = "searches.jsonl"                  answers of the web search are stored there, and read from there
allow_hosts = ["wiki.intern", "10.0.0.7:8080", "10.1.0.0/16"]
ca = "intranet-ca.pem"                     certificates to trust beside the public ones
sandbox_url = "http://sandbox:8080"        a remote /execute server instead of the local sandbox
use = ["mcp:uvx mcp-server-time"]          tools of your own
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..codec import AboveZero, Count, NonNegative, Positive, Record
from ..errors import UsageError

if TYPE_CHECKING:
    from ..cache import Cache
    from ..retrieval.search import Search
    from .fetch import Fetcher, FetchLimits
    from .sandbox import SandboxLimits

CALLS = 50
CALL_SECONDS = 60.0
DAY = 86_400.0
"""Seconds for which web searches and pages are taken from the cache."""


class ToolOptions(Record):
    """What the tools of an agent may reach and use. None stands for the default, or for what the environment says."""

    web: str | None = None
    """searxng:URL, serper, tavily, brave or none; default: the one that the environment names."""
    record: str | None = None
    """File in which answers of the web search are stored; without a web search they are read from it."""
    allow_hosts: tuple[str, ...] | None = None
    """Hosts and networks of your own that pages may be fetched from; default: `SUBQUEST_ALLOW_HOSTS`."""
    ca: str | None = None
    """PEM file with certificates to trust beside the public ones."""
    egress: Literal["private", "public", "adaptive"] | None = None
    """What may leave the machine."""
    robots: bool | None = None
    """Whether robots.txt is respected."""
    page_mb: Positive | None = None
    page_seconds: NonNegative | None = None
    page_delay: NonNegative | None = None
    """Seconds between two requests to one public host."""
    use: tuple[str, ...] | None = None
    """Tools of your own: MCP servers as `mcp:COMMAND` or `mcp:URL`, and Python functions as `path.py:name`."""
    calls: Count | None = None
    """Calls of your own tools in one question; default: 50."""
    call_seconds: AboveZero | None = None
    """Time of one such call; default: 60."""
    sandbox_url: str | None = None
    """A remote /execute server instead of the local sandbox; default: `SUBQUEST_SANDBOX_URL`."""
    code_seconds: NonNegative | None = None
    code_memory_mb: Positive | None = None
    code_disk_mb: Positive | None = None
    code_processes: Positive | None = None
    code_fetches: Count | None = None
    """Pages and files that code of one question may fetch."""

    def checked(self) -> ToolOptions:
        """These options; a UsageError if a file that they name does not exist, or if limits contradict each other."""
        if self.ca and not Path(self.ca).is_file():
            raise UsageError(f"tools.ca: there is no file {self.ca}")
        limits = self.code_limits
        if self.code_disk_mb and limits.work_bytes < limits.disk:
            raise UsageError(
                f"tools.code_disk_mb = {self.code_disk_mb}: files of code are in memory, in at most a quarter of it; "
                f"set tools.code_memory_mb to {4 * self.code_disk_mb} or more"
            )
        return self

    def search(self, env: Mapping[str, str] | None = None) -> Search | None:
        """The web search; None where there is none."""
        from .websearch import BACKENDS, Recorded, SearXNG, from_environment

        env = os.environ if env is None else env
        kind, _, place = (self.web or "").partition(":")
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
        """What fetches pages, with these hosts and limits."""
        from .fetch import Fetcher

        hosts = self.allow_hosts
        if hosts is None:
            hosts = tuple(filter(None, map(str.strip, os.environ.get("SUBQUEST_ALLOW_HOSTS", "").split(","))))
        return Fetcher(
            allow=hosts, robots=robots, limits=self.page_limits, ca=self.ca or None, cache=cache, max_age=DAY
        )

    @property
    def remote_sandbox(self) -> str:
        """The address of the remote sandbox; empty for the local one."""
        return self.sandbox_url or os.environ.get("SUBQUEST_SANDBOX_URL", "")

    @property
    def most_calls(self) -> int:
        return CALLS if self.calls is None else self.calls

    @property
    def seconds_per_call(self) -> float:
        return self.call_seconds or CALL_SECONDS

    @property
    def page_limits(self) -> FetchLimits:
        from .fetch import FetchLimits

        given = {"bytes": _bytes(self.page_mb), "seconds": self.page_seconds, "delay": self.page_delay}
        return replace(FetchLimits(), **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]

    @property
    def code_limits(self) -> SandboxLimits:
        from .sandbox import SandboxLimits

        given = {
            "seconds": self.code_seconds,
            "memory": _bytes(self.code_memory_mb),
            "disk": _bytes(self.code_disk_mb),
            "processes": self.code_processes,
            "fetches": self.code_fetches,
        }
        return replace(SandboxLimits(), **{name: value for name, value in given.items() if value is not None})  # type: ignore[arg-type]


def _bytes(megabytes: int | None) -> int | None:
    return None if megabytes is None else megabytes << 20
