"""Egress scopes: what may leave the machine during a run.

    private    nothing: the local index and attached files only
    public     pages and searches, guarded
    adaptive   public, but private in a run over private documents (default)

A private document is one of a local index or an attached file; files of a published question set are not private.
Whatever the scope, a run that has read one never fetches a URL that a model composed, because such a URL can carry what
was read: it can only open URLs that were offered to it by its question, a search result or a link on a page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal, get_args
from urllib.parse import urldefrag, urlsplit

from ..errors import ToolError, UsageError
from ..retrieval.search import Search

Scope = Literal["private", "public", "adaptive"]
_URL = re.compile(r"https?://[^\s<>\"'\]|]+", re.IGNORECASE)


class EgressRefused(ToolError):
    """The run's scope does not allow this call."""


class Egress:
    """What one run may reach."""

    def __init__(self, scope: str = "adaptive", question: str = "", *, private_documents: bool = False) -> None:
        if scope not in get_args(Scope):
            raise UsageError(f"egress must be one of {', '.join(get_args(Scope))}, not {scope!r}")
        self.scope = scope
        self.read_private = private_documents
        """Whether the run uses private documents."""
        self._offered: set[str] = set()
        self.offer(urls_in(question))

    def offer(self, urls: Iterable[str]) -> None:
        """Record URLs that did not come from a model."""
        self._offered.update(_plain(url) for url in urls)

    @property
    def closed(self) -> bool:
        """Whether nothing may leave the machine."""
        return self.scope == "private" or (self.scope == "adaptive" and self.read_private)

    def check_search(self) -> None:
        if self.closed:
            raise EgressRefused(f"web searches cannot leave this run: its egress scope is {self._reason}")

    def check_url(self, url: str) -> None:
        if self.closed:
            raise EgressRefused(f"pages cannot be fetched in this run: its egress scope is {self._reason}")
        if self.read_private and _plain(url) not in self._offered:
            raise EgressRefused(
                f"{url} was not offered by the question, a search or a page; a run over private documents "
                "opens no other URLs"
            )

    @property
    def _reason(self) -> str:
        return self.scope if self.scope == "private" else "adaptive and it uses private documents"


def outside(search: Search) -> str:
    """The address on another machine that a search sends queries to, its own or that of its encoder; or empty."""
    places = (search.name, str(getattr(search, "encoder_url", "")))
    return next((place for place in places if _elsewhere(place)), "")


def _elsewhere(place: str) -> bool:
    host = urlsplit(place).hostname if "://" in place else None
    return host is not None and host != "localhost" and not host.startswith("127.") and host != "::1"


def urls_in(text: str) -> list[str]:
    """The URLs in a text, without trailing punctuation."""
    return [match.rstrip(".,;:!?)") for match in _URL.findall(text)]


def _plain(url: str) -> str:
    return urldefrag(url.strip())[0].rstrip("/")
