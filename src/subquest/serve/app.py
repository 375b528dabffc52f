"""Assembles the server and runs it.

async with serving(settings, agents) as app:    a Starlette app with its job queue and its run store
    await Server(app).serve([bind(settings)])   uvicorn, until it is told to stop
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..errors import OutsideError, UsageError
from ..masking import LOG_FILTER
from ..runs import RunStore
from ..runs.prune import prune_run
from .access import AccessControl
from .agents import Agents
from .connection import Connection
from .counters import Counters
from .jobs import JobQueue
from .loop_watch import MARGIN, LoopWatch, ended_in_time
from .replay import ReplayLog
from .replies import Problem, as_problem, problem_reply
from .routes import routes
from .run_library import ASKED, RunLibrary
from .settings import STATIC, Settings
from .state import State

log = logging.getLogger("subquest.serve")


@asynccontextmanager
async def serving(settings: Settings, agents: Agents) -> AsyncIterator[Starlette]:
    """The app. On exit, running episodes finish or are recorded as interrupted, and files are closed."""
    counters = Counters()
    with ExitStack() as stack:
        store = None
        if settings.asks:
            settings.runs.mkdir(parents=True, exist_ok=True)
            asked = settings.runs / f"{ASKED}.sqlite"
            if settings.keep_days is not None and asked.exists():
                done = prune_run(asked, time.time() - settings.keep_days * 86_400)
                log.info("%d old questions removed, %d kept", done.removed, done.kept)
            store = RunStore.resume(asked, settings={"kind": "server"})
            stack.callback(_close, store)
            agents.replay_log = ReplayLog(settings.runs / f"{ASKED}.journal")
            stack.callback(agents.replay_log.close)
        jobs = JobQueue(store, counters, agents.replay_log, running=settings.running, queued=settings.queued)
        app = Starlette(
            routes=[*routes(), *_page_routes()],
            middleware=[Middleware(AccessControl, settings=settings)],
            exception_handlers={
                Problem: _on_problem,
                UsageError: _on_problem,
                OutsideError: _on_problem,
                HTTPException: _on_http,
                ClientDisconnect: _on_disconnect,
                Exception: _on_defect,
            },
        )
        app.state.subquest = State(
            settings,
            agents,
            jobs,
            RunLibrary(settings.runs, settings.calibrations),
            counters,
            LoopWatch(settings.stall),
        )
        try:
            yield app
        finally:
            await jobs.close(settings.grace)
            await agents.indexes.close()
            await agents.close()


def _close(store: RunStore) -> None:
    try:
        store.close()
    except OutsideError as error:  # live events: they were written with their episode, or it can be resumed
        log.warning("not all events were stored as they happened: %s", error)


def _page_routes() -> list[Route | Mount]:
    if not (STATIC / "index.html").is_file():
        return []

    async def page(request: Request) -> Response:
        return FileResponse(STATIC / "index.html", headers={"Cache-Control": "no-cache"})

    async def icon(request: Request) -> Response:
        return FileResponse(STATIC / "favicon.svg")

    return [Route("/", page), Route("/favicon.svg", icon), Mount("/assets", StaticFiles(directory=STATIC / "assets"))]


class Server(uvicorn.Server):
    """Uvicorn that lets running episodes finish while it shuts down."""

    def __init__(self, app: Starlette, *, quiet: bool = True) -> None:
        state: State = app.state.subquest
        self._jobs, self._grace = state.jobs, state.settings.grace
        super().__init__(
            uvicorn.Config(
                app,
                http=Connection,
                host=state.settings.host,
                port=state.settings.port,
                log_level="warning" if quiet else "info",
                access_log=False,
                server_header=False,
                proxy_headers=bool(state.settings.proxies),
                forwarded_allow_ips=list(state.settings.proxies),
                timeout_graceful_shutdown=int(self._grace) + 1,
                timeout_keep_alive=30,
                lifespan="off",
            )
        )
        for handler in logging.getLogger("uvicorn").handlers:
            handler.addFilter(LOG_FILTER)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        with super().capture_signals():
            if threading.current_thread() is not threading.main_thread():  # it gets no signals
                yield
                return
            with ended_in_time(self._grace + MARGIN):
                yield

    def handle_exit(self, sig: int, frame: object) -> None:
        """The first signal stops gracefully, the second at once. Not raised again: our caller has files to close."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if running := sum(job.status == "running" for job in self._jobs.live()):
            print(
                f"stopping: {running} answer{'s' * (running > 1)} being written may take {self._grace:g} s more; "
                "Ctrl-C again stops at once, and they can be resumed",
                file=sys.stderr,
                flush=True,
            )
        closing = asyncio.create_task(self._jobs.close(self._grace))
        await super().shutdown(sockets)
        while not closing.done():
            if self.force_exit:
                await self._jobs.interrupt()
            await asyncio.wait([closing], timeout=0.1)
        await closing


def bind(settings: Settings) -> socket.socket:
    """Bind the socket before anything is loaded, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on a socket created as TCP; without it each reply would be delayed by 40 ms
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((settings.host, settings.port))
    except (OSError, OverflowError) as error:
        found.close()
        why = error.strerror if isinstance(error, OSError) else "ports are numbers from 0 to 65535"
        raise UsageError(f"cannot serve on {settings.host}:{settings.port}: {why}; try --port") from None
    found.set_inheritable(True)
    return found


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


async def _on_problem(request: Request, error: Exception) -> Response:
    return problem_reply(as_problem(error))


async def _on_disconnect(request: Request, error: Exception) -> Response:
    """The client left before its request was complete: nobody reads this reply."""
    return Response(status_code=400)


async def _on_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers, path = dict(error.headers or {}), request.url.path
    messages = {
        404: f"there is nothing at {path}; GET /openapi.json lists what there is",
        405: f"{path} does not support {request.method}, only {headers.get('Allow', 'other methods')}",
    }
    return problem_reply(
        Problem(error.status_code, messages.get(error.status_code, str(error.detail)), headers=headers)
    )


async def _on_defect(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return problem_reply(as_problem(error))
