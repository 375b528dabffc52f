"""A client for JSON servers: retries where that can help, and never hides a failure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..address import Address
from ..errors import SearchError, SearchRefused
from ..masking import mask, masked

ATTEMPTS = 4
FIRST_WAIT = 0.25
LONGEST_WAIT = 10.0

T = TypeVar("T")


def retry(work: Callable[[], T]) -> T:
    """Call `work`, again after a pause while it raises a `retryable` SearchError."""
    for number in range(ATTEMPTS):
        try:
            return work()
        except SearchError as error:
            if not error.retryable or number == ATTEMPTS - 1:
                raise
            time.sleep(min(LONGEST_WAIT, FIRST_WAIT * 4**number))
    raise AssertionError("unreachable")


class JsonServer:
    """A server with a JSON interface over HTTP."""

    def __init__(
        self,
        address: Address,
        *,
        headers: Mapping[str, str],
        auth: tuple[str, str] | None = None,
        timeout: float = 60.0,
    ) -> None:
        import httpx2

        self.url = address.url
        self._client = httpx2.Client(
            base_url=self.url,
            headers={**headers, **address.headers},
            params=address.query,
            auth=auth,
            timeout=timeout,
        )

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        lines: Sequence[Any] | None = None,
        query: Mapping[str, str] | None = None,
        absent: bool = False,
    ) -> Any:
        """The JSON of the reply. `lines` are sent as NDJSON; with `absent`, status 404 is None instead of an error."""
        content, kind = b"", "application/json"
        if lines is not None:
            kind = "application/x-ndjson"
            content = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        elif body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
        return retry(lambda: self._once(method, path, content, kind, dict(query or {}), absent))

    def _once(self, method: str, path: str, content: bytes, kind: str, query: dict[str, str], absent: bool) -> Any:
        import httpx2

        where = f"{method} {self.url}{path}"
        headers = {"Content-Type": kind} if content else {}
        try:
            reply = self._client.request(method, path, content=content, params=query, headers=headers)
        except httpx2.HTTPError as error:
            raise SearchError(f"{where} failed: {error!r}") from error
        if absent and reply.status_code == 404:
            return None
        text = "" if reply.status_code == 200 else mask(reply.text)
        if reply.status_code == 429 or reply.status_code >= 500:
            raise SearchError(f"{where} failed with status {reply.status_code}: {text[:300]}")
        if reply.status_code >= 300:
            raise SearchRefused(f"{where} was refused with status {reply.status_code}: {text[:300]}")
        try:
            return masked(reply.json())
        except (ValueError, RecursionError):
            raise SearchError(f"{where} did not answer with JSON: {mask(reply.text)[:100]!r}") from None

    def close(self) -> None:
        self._client.close()
