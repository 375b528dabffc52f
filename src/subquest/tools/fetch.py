"""Fetching from the web: every page, file and redirect goes through here, and only to public addresses.

`ssrfguard` resolves, checks and pins addresses: one lookup per connection, every result checked (loopback, private,
link-local, CGNAT, unique local, mapped, NAT64, odd spellings), and the socket opened to a checked address. This module
adds redirects, robots.txt, pauses between requests, and the limits on bytes and time.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import ipaddress
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from .._version import __version__
from ..errors import MissingDependency, ToolError, UsageError
from .sandbox.interface import Fetched

if TYPE_CHECKING:
    from ..cache import Cache

AGENT = f"subquest/{__version__}"
PORTS = frozenset({80, 443, 8080, 8443})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_BUSY = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class FetchLimits:
    bytes: int = 20 << 20
    """Bytes of one answer, as they come and decoded."""
    seconds: float = 30.0
    """In total: lookups, redirects, waiting for a busy server."""
    redirects: int = 5
    attempts: int = 3
    """Attempts with a server that says it is busy."""
    delay: float = 0.5
    """Seconds between two requests to one public host; robots.txt may ask for more."""


class FetchRefused(ToolError):
    """The guard, robots.txt or a limit refused; a retry will not help."""


class FetchFailed(ToolError):
    """The server could not be reached or failed."""

    retryable = True


class Fetcher:
    """Fetches public URLs, and URLs of hosts that the user has allowed by name.

    `allow` holds hosts of the user's own network: `wiki.intern`, `10.0.0.7:8080`, `10.1.0.0/16`. `resolver` replaces
    `socket.getaddrinfo`; `ca` is a PEM file with additional trusted certificates. With a `cache`, what was fetched
    within `max_age` seconds is not fetched again; failures and error pages are never cached.
    """

    def __init__(
        self,
        *,
        allow: Sequence[str] = (),
        robots: bool = True,
        limits: FetchLimits | None = None,
        resolver: Any = None,
        ca: str | None = None,
        cache: Cache | None = None,
        max_age: float | None = None,
    ) -> None:
        self.limits = limits or FetchLimits()
        self._ca = ca
        self._cache = cache
        self._max_age = max_age
        self._robots = robots
        self._resolver = resolver
        self._hosts = {entry.strip().lower() for entry in allow if entry.strip() and "/" not in entry}
        self._networks = [_network(entry) for entry in allow if "/" in entry]
        self._clients: dict[str, Any] = {}
        self._rules: dict[str, RobotFileParser | str] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._last: dict[str, float] = {}

    async def fetch(self, url: str) -> Fetched:
        """The answer at a URL, redirects followed. Raises FetchRefused or FetchFailed."""
        if self._cache is None:
            return await self._fetch(url)
        key = {
            "url": urldefrag(url)[0],
            "agent": AGENT,
            "allow": sorted([*self._hosts, *map(str, self._networks)]),
            "robots": self._robots,
            "limits": [self.limits.bytes, self.limits.redirects],
            "ca": self._ca,
        }
        found = await asyncio.to_thread(self._cache.get, "page", key, max_age=self._max_age)
        if found is not None:
            return Fetched(found["status"], found["url"], found["type"], base64.b64decode(found["content"]))
        answer = await self._fetch(url)
        if answer.status < 400:
            content = base64.b64encode(answer.content).decode()
            value = {"status": answer.status, "url": answer.url, "type": answer.content_type, "content": content}
            await asyncio.to_thread(self._cache.put, "page", key, value)
        return answer

    async def _fetch(self, url: str) -> Fetched:
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self._follow(url, robots=self._robots)
        except TimeoutError:
            raise FetchFailed(f"{url} took longer than {self.limits.seconds:g} seconds") from None
        except ValueError as error:  # an invalid address, given to us or by a redirect
            raise FetchRefused(f"{url[:200]} is not a valid address: {error}") from None

    async def close(self) -> None:
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()

    async def _follow(self, url: str, *, robots: bool) -> Fetched:
        first = url
        for _ in range(self.limits.redirects + 1):
            if robots:
                await self._check_robots(url)
            answer, location = await self._retry(url)
            if not location:
                return answer
            url = urljoin(url, location)
        raise FetchRefused(f"{first} redirects more than {self.limits.redirects} times")

    async def _retry(self, url: str) -> tuple[Fetched, str]:
        """One request; a busy server is asked again, after the time it names or growing waits."""
        for attempt in range(1, self.limits.attempts + 1):
            answer, location, wait = await self._once(url)
            if answer.status not in _BUSY:
                return answer, location
            if attempt < self.limits.attempts:
                await asyncio.sleep(wait if wait is not None else 0.5 * 2 ** (attempt - 1))
        raise FetchFailed(f"{url} is busy: status {answer.status} {self.limits.attempts} times")

    async def _once(self, url: str) -> tuple[Fetched, str, float | None]:
        client = self._client(url)
        await self._take_turn(url)
        import httpx
        import ssrfguard

        try:
            async with client.stream("GET", url, follow_redirects=False) as reply:
                location = reply.headers.get("location", "") if reply.status_code in _REDIRECTS else ""
                content = b"" if location else await self._content(url, reply)
                kind = reply.headers.get("content-type", "")
                answer = Fetched(reply.status_code, url, kind, content)
                return answer, location, _seconds(reply.headers.get("retry-after"))
        except ssrfguard.SSRFGuardError as error:
            raise FetchRefused(f"refused to open {url[:200]}: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL, zlib.error, OSError, UnicodeError) as error:
            raise FetchFailed(f"{url[:200]} cannot be fetched: {str(error) or type(error).__name__}") from None

    async def _content(self, url: str, reply: Any) -> bytes:
        """The body, decoded here so that a small compressed answer cannot become a large one."""
        encoding = reply.headers.get("content-encoding", "identity").strip().lower() or "identity"
        if encoding not in ("identity", "gzip", "deflate"):
            raise FetchRefused(f"{url} answers in the encoding {encoding[:40]!r}, which was not requested")
        decode = _Decoder() if encoding != "identity" else None
        content = bytearray()
        received = 0
        async for chunk in reply.aiter_raw():
            received += len(chunk)
            room = self.limits.bytes + 1 - len(content)
            content += decode.decode(chunk, room) if decode else chunk
            if max(received, len(content)) > self.limits.bytes:
                raise FetchRefused(f"{url} is larger than {self.limits.bytes:,} bytes")
        return bytes(content)

    def _client(self, url: str) -> Any:
        """The guarded client for a URL: the public one, or one that reaches a single allowed host and port."""
        place = self._allowed(url)
        if place not in self._clients:
            try:
                import ssrfguard
                import ssrfguard.httpx
            except ImportError:
                raise MissingDependency("the guard for web pages", "web-tools") from None
            if place:
                everywhere = ("0.0.0.0/0", "::/0")
                ports = frozenset({int(place.rpartition(":")[2])})
                policy = ssrfguard.Policy(allowed_networks=everywhere, allowed_ports=ports)  # type: ignore[arg-type]
            else:
                policy = ssrfguard.Policy(
                    denied_networks=_denied(), allowed_networks=tuple(self._networks), allowed_ports=PORTS
                )
            headers = {"user-agent": AGENT, "accept-encoding": "gzip, deflate"}
            self._clients[place] = ssrfguard.httpx.AsyncClient(
                policy=policy,
                resolver=self._resolver,
                trust_env=False,
                headers=headers,
                timeout=self.limits.seconds,
                verify=self._certificates(),
            )
        return self._clients[place]

    def _certificates(self) -> Any:
        """The certificates that servers are checked against; checks are never off."""
        if self._ca is None:
            return True
        import ssl

        import httpx

        context = httpx.create_ssl_context(trust_env=False)
        try:
            context.load_verify_locations(cafile=self._ca)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"the certificates in {self._ca} cannot be read: {error}") from None
        return context

    def _allowed(self, url: str) -> str:
        """`host:port` where the user has allowed it by name; empty for all others."""
        try:
            parts = urlsplit(url)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return ""
        port = port or {"http": 80, "https": 443}.get(parts.scheme, 0)
        known = host in self._hosts or f"{host}:{port}" in self._hosts
        return f"{host}:{port}" if known and parts.scheme in ("http", "https") and not parts.username else ""

    async def _take_turn(self, url: str) -> None:
        """One request after another to a public host, with a pause; the user's own hosts need none."""
        if self._allowed(url):
            return
        origin = _origin(url)
        async with self._turns.setdefault(origin, asyncio.Lock()):
            rules = self._rules.get(origin)
            asked = rules.crawl_delay(AGENT) if isinstance(rules, RobotFileParser) else None
            pause = max(self.limits.delay, float(min(int(asked or 0), 10)))  # it may be a huge number
            wait = self._last.get(origin, float("-inf")) + pause - time.monotonic()
            if wait > 0:
                await asyncio.sleep(wait)
            self._last[origin] = time.monotonic()

    async def _check_robots(self, url: str) -> None:
        origin = _origin(url)
        if origin not in self._rules:
            self._rules[origin] = await self._read_robots(origin)
        rules = self._rules[origin]
        if isinstance(rules, str):
            raise FetchRefused(rules)
        if not rules.can_fetch(AGENT, url):
            raise FetchRefused(f"{origin}/robots.txt does not allow {url}")

    async def _read_robots(self, origin: str) -> RobotFileParser | str:
        """Rules of a host (RFC 9309): none without a file; a failing server forbids everything."""
        rules = RobotFileParser()
        answer = await self._follow(f"{origin}/robots.txt", robots=False)
        if answer.status >= 500:
            return f"{origin}/robots.txt fails with status {answer.status}, so its pages are not fetched"
        text = answer.content[: 512 << 10].decode("utf-8", "replace") if answer.status == 200 else ""
        rules.parse(text.splitlines())
        return rules


class _Decoder:
    """gzip of one or more members, and deflate with or without its header, as browsers accept."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(47)
        self._begun = False

    def decode(self, chunk: bytes, room: int) -> bytes:
        """A decoded chunk, at most `room` bytes of it."""
        out = b""
        while chunk and len(out) < room:
            if self._inner.eof:
                if not chunk.startswith(b"\x1f"):
                    break  # padding after the last member
                self._inner = zlib.decompressobj(47)
            try:
                out += self._inner.decompress(chunk, room - len(out))
            except zlib.error:
                if self._begun:
                    raise
                self._inner = zlib.decompressobj(-15)
                out += self._inner.decompress(chunk, room - len(out))
            self._begun = True
            chunk = self._inner.unused_data
        return out


_ALSO_DENIED = {
    "::ffff:0:0:0/96": ("IPv4-translated addresses", "RFC2765"),
    "168.63.129.16/32": ("Cloud platform service (Azure)", "none"),
}
"""Special addresses that the guard's table does not have."""


@functools.cache
def _denied() -> Any:
    import ssrfguard

    more = (
        ssrfguard.Block(ipaddress.ip_network(network), name, rfc, ssrfguard.Reach.DENIED)
        for network, (name, rfc) in _ALSO_DENIED.items()
    )
    return ssrfguard.AddressTable((*ssrfguard.DEFAULT_DENIED.blocks, *more))


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _network(entry: str) -> Any:
    try:
        return ipaddress.ip_network(entry.strip())
    except ValueError as error:
        raise UsageError(f"the allow-list entry {entry!r} is neither a host nor a network: {error}") from None


def _seconds(header: str | None) -> float | None:
    return min(float(header), 10.0) if header and header.strip().isdecimal() else None
