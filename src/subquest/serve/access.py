"""Access control: which clients may send requests, under which host name, how often.

The Host check stops *DNS rebinding* (a page of another site that reaches this server under its own name), the Origin
check stops requests from pages of other sites, and the token stops strangers on the network.
"""

from __future__ import annotations

import hmac
import re
import time
from collections import OrderedDict
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..english import counted
from .replies import Problem, problem_reply
from .settings import Settings

OPEN = frozenset({"/", "/health", "/favicon.svg"})
"""Paths that need no token: they contain nothing private."""
OPEN_FOLDER = "/assets/"
ASKING = frozenset({"/v1/chat/completions", "/api/ask", "/api/model/try"})
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
_WRONG = frozenset({400, 404, 409, 413, 422})
"""Statuses of requests that were wrong, and for which no model was called."""
_REFUSED = 5
"""So many wrong requests for each question of the limit are not counted as questions."""


class AccessControl:
    """Middleware that passes a request on to the app, or refuses it."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._hosts = settings.hosts
        self._rate = Rate(settings.asks_per_minute)
        self._refused = Rate(_REFUSED * settings.asks_per_minute)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        reply, send = self._app, _with_security_headers(send)
        try:
            self._check(scope)
            if _asks(scope):
                send = self._counted(scope, send)
        except Problem as problem:
            reply = problem_reply(problem)
        await reply(scope, receive, send)

    def _counted(self, scope: Scope, send: Send) -> Send:
        """Counts a question of a client, and no longer if it is refused as wrong. Raises Problem at the limit."""
        client = (scope.get("client") or ("", 0))[0]
        if wait := self._rate.take(client):
            most = counted(self._settings.asks_per_minute, "question")
            raise Problem(
                429,
                f"more than {most} a minute; try again in {wait:.0f} s",
                code="rate_limit",
                headers={"Retry-After": f"{wait:.0f}"},
            )

        async def counting(message: Message) -> None:
            wrong = message["type"] == "http.response.start" and message["status"] in _WRONG
            if wrong and not self._refused.take(client):
                self._rate.give_back(client)
            await send(message)

        return counting

    def _check(self, scope: Scope) -> None:
        """Raises Problem if a request is not allowed."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self._hosts and _name(host) not in self._hosts:
            raise Problem(421, f"this server is not {_name(host)!r}; allow the name with --allow-host", code="host")
        origin = headers.get("origin")
        if origin is not None and _host_and_port(origin) != host.lower():
            raise Problem(403, "requests from pages of other sites are refused", code="origin")
        path = scope["path"]
        closed = self._settings.token and path not in OPEN and not path.startswith(OPEN_FOLDER)
        if closed and not shows_token(headers, self._settings.token, self._settings.admin_token):
            raise Problem(
                401,
                "a token is needed: Authorization: Bearer TOKEN",
                code="unauthorized",
                headers={"WWW-Authenticate": "Bearer"},
            )


def _asks(scope: Scope) -> bool:
    return scope["method"] == "POST" and bool(scope["path"] in ASKING or _AGAIN.fullmatch(scope["path"]))


def shows_token(headers: Headers, *tokens: str) -> bool:
    """Whether a request shows one of the tokens."""
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    known = [hmac.compare_digest(shown.strip().encode(), token.encode()) for token in tokens if token]
    return scheme.lower() == "bearer" and any(known)


def _with_security_headers(send: Send) -> Send:
    """Adds the headers that make a reply safe in a browser, unless it has them."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


class Rate:
    """A *token bucket* per client: up to a minute's worth at once, refilled evenly."""

    def __init__(self, per_minute: int) -> None:
        self._most = float(per_minute)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> float:
        """0 if the client may go on, otherwise the seconds to wait."""
        now = time.monotonic()
        left, seen = self._left.pop(client, (self._most, now))
        left = min(self._most, left + (now - seen) * self._most / 60)
        allowed = left >= 1
        self._left[client] = (left - 1 if allowed else left, now)
        if len(self._left) > _CLIENTS:
            self._left.popitem(last=False)
        return 0.0 if allowed else max(1.0, (1 - left) * 60 / self._most)

    def give_back(self, client: str) -> None:
        """Undo the last `take` of a client."""
        if client in self._left:
            left, seen = self._left[client]
            self._left[client] = (min(self._most, left + 1), seen)


def _name(host: str) -> str:
    """The host name of a Host header without the port; an invalid header is returned as it is."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else host


def _host_and_port(origin: str) -> str:
    """Host and port of an Origin header; empty if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
