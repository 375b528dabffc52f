"""Addresses and keys of servers, as people write them, checked before a request is sent."""

from __future__ import annotations

from urllib.parse import urlsplit

from .errors import UsageError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that are reached without the environment's proxies."""


def checked_url(url: str, what: str) -> str:
    """The URL without surrounding blanks and trailing slashes; a UsageError about `what` where it is not a URL."""
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
    return url.rstrip("/")


def is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in LOOPBACK


def checked_key(key: str, what: str) -> str:
    """The key without surrounding blanks (a newline is easily copied along); a UsageError where it fits no header."""
    key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UsageError(f"{what} contains characters that no key has: copy it again")
    return key
