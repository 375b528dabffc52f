"""Addresses and keys of servers, as people write them, checked before a request is sent."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from .errors import UsageError
from .masking import basic, is_key_like, log_masked, remember, remember_url

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that are reached without the environment's proxies."""


class Address(NamedTuple):
    """The address of a server in two parts: what may be seen, and what opens it."""

    url: str
    """Without user info and parameters: may be stored, shown and logged."""
    headers: dict[str, str]
    """The user info, as a header."""
    query: dict[str, str]
    """The parameters of every request, keys among them."""

    @property
    def identity(self) -> str:
        """The URL with the parameters that are no secret: what decides which server answers."""
        shown = "&".join(f"{name}={value}" for name, value in self.query.items() if not is_key_like(name))
        return f"{self.url}?{shown}" if shown else self.url


def checked_address(url: str, what: str) -> Address:
    """The address without surrounding blanks and trailing slashes; a UsageError about `what` where it is not a URL."""
    url = url.strip()
    if not url.startswith(("http://", "https://")):
        raise UsageError(f"{what} begins with http:// or https://, not {url!r}")
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise UsageError(f"{what} {url!r} cannot be right: {error}") from None
    if not named or any(letter.isspace() or not letter.isprintable() for letter in url):
        raise UsageError(f"{what} {url!r} cannot be right: write http://HOST:PORT/PATH")
    remember_url(url)
    info, at, host = parts.netloc.rpartition("@")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    if query:
        log_masked("httpx2")  # it logs the URL of each request
    bare = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    user, _, password = info.partition(":")
    return Address(bare, {"Authorization": f"Basic {basic(user, password)}"} if at else {}, query)


def checked_url(url: str, what: str) -> str:
    """The part of an address that may be seen."""
    return checked_address(url, what).url


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


def checked_key(key: str, what: str) -> str:
    """The key without surrounding blanks (a newline is easily copied along); a UsageError where it fits no header.
    From now on it is masked wherever a server sends it back."""
    key = key.strip()
    remember(key)
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{what} contains characters that no key has: copy it again")
    return key
