"""What is at a URL, fetched and read as a page."""

from __future__ import annotations

import asyncio
from urllib.parse import urldefrag

from ..errors import DataError, ToolError
from ..readers import MEDIA, sniff
from .fetch import Fetcher
from .files import from_bytes
from .html_pages import Page, from_html
from .sandbox.interface import Fetched

__all__ = ["Page", "PageReader", "as_page"]


class PageReader:
    """Fetches and reads pages; a page is fetched once per run, failures are retried."""

    def __init__(self, fetcher: Fetcher) -> None:
        self.fetcher = fetcher
        self._read: dict[str, Page] = {}

    async def read(self, url: str) -> Page:
        key = urldefrag(url)[0]
        if key not in self._read:
            answer = await self.fetcher.fetch(url)
            if answer.status >= 400:
                raise ToolError(f"{url} answers with status {answer.status}")
            self._read[key] = self._read[urldefrag(answer.url)[0]] = await asyncio.to_thread(as_page, answer)
        return self._read[key]


def as_page(answer: Fetched) -> Page:
    """A server's answer as a page, by its content rather than its declared type."""
    kind = sniff(answer.content, answer.url, answer.content_type)
    if kind == "html":
        try:
            return from_html(answer.content, answer.url, answer.content_type)
        except DataError as error:
            raise ToolError(f"{answer.url} cannot be read: {error}") from None
    if kind in MEDIA:
        name = answer.url.rsplit("/", 1)[-1]
        note = f"This is {'an' if kind[0] in 'aeiou' else 'a'} {kind} file of {len(answer.content):,} bytes."
        return Page(answer.url, name, note, kind=kind)
    text = from_bytes(answer.content, kind, answer.url)
    return Page(answer.url, text.title or answer.url.rsplit("/", 1)[-1], text.text, kind=kind)
