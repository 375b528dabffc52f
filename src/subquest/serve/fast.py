"""`POST /retrieve` by the shortest way: training asks it thousands of times a second.

The same checks and the same reply as by the routes, without a framework's request and response objects in between.
Everything else goes to the app.
"""

from __future__ import annotations

import time

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from .bodies import Problem, as_problem, parsed, problem_reply
from .guard import Guard
from .searching import retrieved
from .state import State

PATH = "/retrieve"
_HEADERS = [(b"content-type", b"application/json"), (b"x-content-type-options", b"nosniff")]


class Fast:
    """The app as the server calls it."""

    def __init__(self, app: Starlette, otherwise: ASGIApp) -> None:
        """`otherwise` takes all requests but those for the short way."""
        self._app = otherwise
        self._state: State = app.state.subquest
        self._guard = Guard(app, self._state.settings)
        self._metrics = self._state.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("path") != PATH or scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), 200
        try:
            self._guard.check(scope)
            body = await retrieved(self._state, parsed(await self._read(receive)))
            headers = [(b"content-length", str(len(body)).encode()), *_HEADERS]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": body})
        except ConnectionResetError:
            status = 499
        except Exception as error:
            problem = as_problem(error)
            status = problem.status
            if status == 500:
                raise
            await self._guard.refuse(problem_reply(problem), scope, receive, send)
        finally:
            self._metrics.add("subquest_requests_total", route=PATH, method="POST", status=str(status))
            self._metrics.add("subquest_request_seconds_total", time.monotonic() - begun, route=PATH)

    async def _read(self, receive: Receive) -> bytes:
        limit = self._state.settings.max_body
        body: bytes = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionResetError
            body += message.get("body", b"")
            if len(body) > limit:
                raise Problem(413, f"the request has more than {limit:,} bytes")
            if not message.get("more_body"):
                return body
