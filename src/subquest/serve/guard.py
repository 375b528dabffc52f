"""The door: who may come in, under which name, how often.

*DNS rebinding* (a page of another site that reaches this server under a name of its own) is stopped by the Host check,
requests that another site's page makes are stopped by the Origin check, strangers on a network by the token.
"""

from __future__ import annotations

import hmac
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .bodies import Problem, problem_reply
from .settings import Settings

OPEN = frozenset({"/", "/health", "/favicon.svg"})
"""Paths that need no token: they hold nothing of anybody's."""
OPEN_FOLDER = "/assets/"
ASKING = frozenset({"/v1/chat/completions", "/api/ask"})
_AGAIN = re.compile(r"/api/episodes/[^/]+/(again|resume)")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST = re.compile(r"(?:\[([^]]+)\]|([^]\[:@]+))(?::[0-9]*)?")
_CLIENTS = 10_000


class Guard:
    """Lets a request through to the app, or turns it away."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = settings.hosts
        self._token = settings.token.encode()
        self._rate = Rate(settings.asks_per_minute)
        self._seen: bytes | None = None
        """The last Host header that was let through."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        try:
            self.check(scope)
        except Problem as problem:
            await self.refuse(problem_reply(problem), scope, receive, send)
            return
        await self._app(scope, receive, _guarded(send))

    async def refuse(self, reply: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        await reply(scope, receive, _guarded(send))

    def knows(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether `check` would let a request of a program through, told quickly; where it says no, `check` may not."""
        host = headers.get(b"host", b"")
        if host != self._seen:
            if self._hosts and _name(host.decode("latin-1")) not in self._hosts:
                return False
            self._seen = host
        if b"origin" in headers:
            return False
        return not self._token or hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self._token)

    def check(self, scope: Scope) -> None:
        """Raises Problem where a request may not come in."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            raise Problem(421, f"this server is not {_name(host)!r}; allow the name with --allow-host", code="host")
        origin = headers.get("origin")
        if origin is not None and _place(origin) != host.lower():
            raise Problem(403, "requests of pages of other sites are refused", code="origin")
        path = scope["path"]
        if self._token and path not in OPEN and not path.startswith(OPEN_FOLDER):
            scheme, _, shown = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(shown.strip().encode(), self._token):
                raise Problem(
                    401,
                    "a token is needed: Authorization: Bearer TOKEN",
                    code="unauthorized",
                    headers={"WWW-Authenticate": "Bearer"},
                )
        if scope["method"] == "POST" and (path in ASKING or _AGAIN.fullmatch(path)):
            client = scope.get("client") or ("", 0)
            if wait := self._rate.take(client[0]):
                raise Problem(
                    429,
                    f"more than {self._settings.asks_per_minute} questions a minute; try again in {wait:.0f} s",
                    code="rate_limit",
                    headers={"Retry-After": f"{wait:.0f}"},
                )


def _guarded(send: Send) -> Send:
    """What a reply needs to be safe in a browser, added where it is not there."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return guarded


class Rate:
    """A *token bucket* a client: a minute's worth at once, refilled evenly."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """0 where the client may go on, else the seconds to wait."""
        now = time.monotonic()
        left, seen = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - seen) * self._most / 60)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else max(1.0, (1 - left) * 60 / self._most)


def _name(host: str) -> str:
    """The host name of a Host header, without its port; of one that is none, the header as it is."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else host


def _place(origin: str) -> str:
    """Host and port of an Origin header; empty where it is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
