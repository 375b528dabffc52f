"""A real server on loopback, on scripted engines and a real index."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from subquest import AgentSpec, Index
from subquest.assemble.tools import open_tools
from subquest.engine.scripted import ScriptedEngine
from subquest.record import Document
from subquest.serve.agents import Agents
from subquest.serve.app import Server, address, bind, serving
from subquest.serve.indexes import Indexes
from subquest.serve.settings import Settings
from subquest.serve.state import State
from subquest.tools.function_tool import FunctionTool
from subquest.tools.tool_options import ToolOptions

from ..systems.fakes import DOCUMENTS

QUESTION = "Where was the designer of the Orvane Bridge born?"


def reply(context: Any) -> str:
    """A model that answers the two-hop question however often it is asked."""
    if context.role == "planner":
        tasks = ["Who designed the Orvane Bridge?", "Where was Mila Torrun born?"]
        return f"<task>{tasks[context.turn]}</task>" if context.turn < 2 else "<answer>Kestel</answer>"
    first = "Orvane Bridge?" in context.text
    if context.turn == 0:
        return f"<search>{'Orvane Bridge designer' if first else 'Mila Torrun born'}</search>"
    return f"<refine>Found.</refine><result>{'Mila Torrun' if first else 'Kestel'}</result>"


class Running:
    """A server in a thread of its own."""

    def __init__(self, url: str, server: Server, state: State, loop: asyncio.AbstractEventLoop) -> None:
        self.url, self.server, self.state, self.loop = url, server, state, loop

    def client(self, **more: Any) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, timeout=120, **more)

    def stop(self) -> None:
        self.server.should_exit = True


Start = Callable[..., Any]


@contextmanager
def running(
    settings: Settings,
    engines: Mapping[str, Any],
    documents: tuple[Document, ...],
    systems: Sequence[str] = ("coda", "direct"),
    tools: Sequence[str] = (),
) -> Iterator[Running]:
    place = settings.indexes.parent / "docs.sq"
    listening = bind(settings)
    ready: list[Running] = []
    began, failed = threading.Event(), []

    async def main() -> None:
        async with open_tools(tools, ToolOptions(call_seconds=0.5)) as own_tools:
            with Index.open(place) if place.exists() else Index.build(place, documents) as index:
                await serve(index, own_tools)

    async def serve(index: Index, own_tools: Sequence[FunctionTool]) -> None:
        indexes = Indexes({"docs": index}, settings.indexes, read_only=settings.read_only)
        agents = Agents(
            AgentSpec(),
            list(systems),
            {name: {"": engine} for name, engine in engines.items()},
            indexes,
            tools=own_tools,
        )
        async with serving(settings, agents) as app:
            listening.listen(256)
            server = Server(app)
            ready.append(Running(address(listening), server, app.state.subquest, asyncio.get_running_loop()))
            began.set()
            await server.serve([listening])

    def run() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            failed.append(error)
            began.set()

    thread = threading.Thread(target=run)
    thread.start()
    began.wait(120)
    if failed:
        raise failed[0]
    try:
        yield ready[0]
    finally:
        ready[0].stop()
        thread.join(120)
        listening.close()
        assert not thread.is_alive()
        if failed:
            raise failed[0]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(runs=tmp_path / "runs", indexes=tmp_path / "indexes", port=0, grace=2.0)


@pytest.fixture
def start(settings: Settings) -> Start:
    """Start a server: `with start(running=1) as server`."""

    def begin(
        script: Any = reply,
        *,
        documents: tuple[Document, ...] = DOCUMENTS,
        models: Any = None,
        systems: Sequence[str] = ("coda", "direct"),
        tools: Sequence[str] = (),
        **changed: Any,
    ) -> Any:
        engines = {"default": ScriptedEngine(script)} if models is None else models
        return running(replace(settings, **changed), engines, documents, systems, tools)

    return begin


@pytest.fixture
def server(start: Start) -> Iterator[Running]:
    with start() as found:
        yield found


class Gate:
    """A model that waits until it is let through."""

    def __init__(self) -> None:
        self.waiting = 0
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    async def __call__(self, context: Any) -> str:
        if context.role == "planner" and context.turn == 1:
            self.waiting += 1
            while not self._open.is_set():  # noqa: ASYNC110 (opened by another thread)
                await asyncio.sleep(0.01)
        return reply(context)


@pytest.fixture
def gate() -> Iterator[Gate]:
    found = Gate()
    yield found
    found.open()
