"""Downloads over HTTP: ranges, patience with what passes, and what a server says about a file beforehand."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from io import BufferedRandom
from types import TracebackType
from typing import NamedTuple, TypeVar
from urllib.parse import urljoin

import httpx2

from .part_file import SourceFailed, end_of

T = TypeVar("T")
TRIES = 5
"""Tries in a row that bring no byte before a source is given up."""
PAUSE = 0.5
"""Seconds before the second of them; doubled each time."""
_HOPS = 10
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Facts(NamedTuple):
    """What a server says about a file; empty or None where it says nothing."""

    size: int | None
    sha256: str
    """The hub names the digest of large files."""
    version: str
    """Differs when the content does: the ETag, or the time of the last change."""
    commit: str
    """Of the repository, on the hub."""


class Transfer:
    """A client that downloads files. `headers` go to the addresses it is given; other hosts get no keys."""

    def __init__(self, headers: Mapping[str, str] | None = None) -> None:
        self._client = httpx2.Client(follow_redirects=True, timeout=30)
        self._headers = dict(headers or {})

    def __enter__(self) -> Transfer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def facts(self, url: str) -> Facts:
        """What the server says about a file without sending it."""
        return self._patiently(url, partial(self._facts, url))

    def _facts(self, url: str) -> Facts:
        headers = {"Accept-Encoding": "identity", **self._headers}
        commit, first = "", url
        for _ in range(_HOPS):
            reply = self._client.request("HEAD", url, headers=headers, follow_redirects=False)
            said = reply.headers
            commit = commit or said.get("x-repo-commit", "")
            linked = said.get("x-linked-size")
            if not reply.is_redirect or linked:
                if reply.status_code in (403, 405, 501) and url != first:  # a signed address, for one GET
                    return Facts(None, "", "", commit)
                check_status(reply.status_code, url)
                version = (said.get("x-linked-etag") or said.get("etag") or said.get("last-modified") or "").strip('"')
                size = linked or said.get("content-length")
                return Facts(int(size) if size else None, _digest(version), version, commit)
            target = urljoin(url, said["location"])
            if httpx2.URL(target).host != httpx2.URL(url).host:
                headers.pop("Authorization", None)
            url = target
        raise SourceFailed(f"{first} redirects without end", lasting=True)

    def text(self, url: str, accept: str) -> str:
        """A page."""
        return self._patiently(url, lambda: self._page(url, accept))

    def _page(self, url: str, accept: str) -> str:
        reply = self._client.get(url, headers={"Accept": accept, **self._headers})
        check_status(reply.status_code, url)
        return reply.text

    def load(self, url: str, into: BufferedRandom, size: int | None, progress: Callable[[int], None]) -> None:
        """Append what is missing of an address to a file, with ranges, as often as it is cut."""
        if size is not None and end_of(into) > size:
            into.truncate(0)
        while size is None or end_of(into) < size:
            size = self._patiently(url, partial(self._piece, url, into, size, progress), lambda: end_of(into))

    def _piece(self, url: str, into: BufferedRandom, size: int | None, progress: Callable[[int], None]) -> int:
        """One request; the size of the whole."""
        start = into.seek(0, os.SEEK_END)
        headers = {"Accept-Encoding": "identity", **self._headers} | ({"Range": f"bytes={start}-"} if start else {})
        with self._client.stream("GET", url, headers=headers) as reply:
            if reply.status_code == 416 and size is None:  # nothing is missing
                return start
            check_status(reply.status_code, url)
            if start and reply.status_code == 206:
                found = re.match(r"bytes (\d+)-\d+/(\d+)", reply.headers.get("content-range", ""))
                if found is None or int(found[1]) != start:
                    raise SourceFailed(f"{url} sent another range than was asked for", lasting=True)
                whole = int(found[2])
            else:
                into.truncate(0)
                into.seek(0)
                start = 0
                whole = int(reply.headers.get("content-length") or size or 0)
            if size is not None and whole != size:
                raise SourceFailed(f"{url} has {whole:,} bytes instead of {size:,}", lasting=True)
            for chunk in reply.iter_raw():
                start += len(chunk)
                if whole and start > whole:
                    raise SourceFailed(f"{url} sends more than the {whole:,} bytes it announced", lasting=True)
                into.write(chunk)
                progress(start)
            into.flush()
        return whole or start

    def _patiently(self, url: str, request: Callable[[], T], bytes_here: Callable[[], int] = lambda: 0) -> T:
        """Repeat a request while it fails for reasons that pass; bytes that arrived count as success."""
        tries, here = 0, bytes_here()
        while True:
            try:
                return request()
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                lasting = isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol)
                failure = SourceFailed(f"{url}: {error or type(error).__name__}", lasting=lasting)
            except SourceFailed as error:
                failure = error
            if failure.lasting:
                raise failure
            tries, here = (tries + 1, here) if bytes_here() == here else (1, bytes_here())
            if tries >= TRIES:
                raise failure
            time.sleep(PAUSE * 2 ** (tries - 1))


def check_status(status: int, url: str) -> None:
    if status >= 400:
        raise SourceFailed(
            f"{url} answered with status {status}", lasting=status < 500 and status not in (408, 425, 429)
        )


def _digest(version: str) -> str:
    """An ETag that is a SHA-256, as the hub's is for large files."""
    return version if _SHA256.fullmatch(version) else ""
