"""The server put together, and run.

async with serving(settings, agents) as app:     a Starlette app with its job board and its store
    await serve(app)                             uvicorn, until it is told to stop
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import OutsideError, UsageError
from ..runs import RunStore
from .agents import Agents
from .bodies import Problem, as_problem, problem_reply
from .guard import Guard
from .jobs import Board
from .journal import Journal
from .metrics import Metrics
from .routes import routes
from .settings import STATIC, Settings
from .shelf import ASKED, Shelf
from .state import State

log = logging.getLogger("subquest.serve")


@asynccontextmanager
async def serving(settings: Settings, agents: Agents) -> AsyncIterator[Starlette]:
    """The app; at the end running episodes are finished or recorded as interrupted, and files are closed."""
    counters = Metrics()
    with ExitStack() as stack:
        store = None
        if settings.asks:
            settings.runs.mkdir(parents=True, exist_ok=True)
            store = RunStore.resume(settings.runs / f"{ASKED}.sqlite", settings={"kind": "server"})
            stack.enter_context(store)
            agents.journal = Journal(settings.runs / f"{ASKED}.journal")
            stack.callback(agents.journal.close)
        board = Board(store, counters, agents.journal, running=settings.running, queued=settings.queued)
        app = Starlette(
            routes=[*routes(), *_page()],
            middleware=[Middleware(Guard, settings=settings)],
            exception_handlers={
                Problem: _on_problem,
                UsageError: _on_problem,
                OutsideError: _on_problem,
                HTTPException: _on_http,
                Exception: _on_defect,
            },
        )
        app.state.subquest = State(settings, agents, board, Shelf(settings.runs), counters)
        try:
            yield app
        finally:
            await board.close(settings.grace)
            await agents.indexes.close()


def _page() -> list[Route | Mount]:
    if not (STATIC / "index.html").is_file():
        return []

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def icon(request: Request) -> Response:
        return FileResponse(STATIC / "favicon.svg")

    return [Route("/", page), Route("/favicon.svg", icon), Mount("/assets", StaticFiles(directory=STATIC / "assets"))]


class Server(uvicorn.Server):
    """Uvicorn that lets running episodes finish while it closes its doors."""

    def __init__(self, app: Starlette, *, quiet: bool = True) -> None:
        state: State = app.state.subquest
        self._board, self._grace = state.board, state.settings.grace
        super().__init__(
            uvicorn.Config(
                app,
                http=connections(app),
                host=state.settings.host,
                port=state.settings.port,
                log_level="warning" if quiet else "info",
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=int(self._grace) + 5,
                timeout_keep_alive=30,
                lifespan="off",
            )
        )

    def handle_exit(self, sig: int, frame: object) -> None:
        """The first signal stops in peace, the second at once. Never raised again: our caller has files to close."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        closing = asyncio.create_task(self._board.close(self._grace))
        await super().shutdown(sockets)
        await closing


def connections(app: Starlette) -> Any:
    """What makes connections: the short way to searches, or uvicorn alone where it is not as that way expects it."""
    try:
        from .fast import Door

        door = Door(app)
        door.rehearse()
    except Exception as error:  # whatever it is that has changed
        version = uvicorn.__version__
        log.warning("uvicorn %s is new to Subquest (%r): /retrieve is slower than it could be", version, error)
        return "auto"
    return door.connection


def bind(settings: Settings) -> socket.socket:
    """A listening socket, made before anything is loaded, so that a taken port is told at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # named as TCP: of others asyncio does not take away the delay, and each reply waits 40 ms for its client's receipt
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        found.close()
        why = error.strerror if isinstance(error, OSError) else "ports go from 0 to 65535"
        raise UsageError(f"cannot serve on {settings.host}:{settings.port}: {why}; try --port") from None
    found.set_inheritable(True)
    return found


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _on_problem(request: Request, error: Exception) -> Response:
    return problem_reply(as_problem(error))


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers, path = dict(error.headers or {}), request.url.path
    told = {
        404: f"there is nothing at {path}; GET /openapi.json says what there is",
        405: f"{path} does not take {request.method}, but {headers.get('Allow', 'other methods')}",
    }
    return problem_reply(Problem(error.status_code, told.get(error.status_code, str(error.detail)), headers=headers))


async def _on_defect(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_reply(as_problem(error))
