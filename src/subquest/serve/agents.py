"""The agents that a server offers: systems, models and indexes, each by name.

In OpenAI's protocol an agent is a model: `subquest-coda`, or `subquest-coda@small` where the server has several models.
A request names what the server has; it can never bring its own path, address or code.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any, cast

from ..assemble import (
    AgentSpec,
    EngineOptions,
    Resources,
    build_agent,
    open_engines,
    open_resources,
    open_search,
    preview_agent,
)
from ..assemble.search import close_search
from ..assemble.suitability import unsuited
from ..assemble.tools import open_tools
from ..cache import Cache, CachedEngine
from ..engine import Engine
from ..engine.openai import OpenAIEngine
from ..errors import OutsideError, UsageError, suggest
from ..retrieval.search import Search
from ..runtime.system import System
from ..systems.registry import get as system_named
from ..systems.registry import names as system_names
from ..systems.registry import needs_search
from ..tools.function_tool import FunctionTool
from . import model_settings
from .episode_view import Piece
from .indexes import Indexes
from .model_settings import ModelSettings
from .replay import ReplayLog
from .replies import Problem
from .settings import Settings

PREFIX = "subquest-"
PAGE = "page"
"""The name of the model that was set on the page. It comes first, so it is the default."""
NAME_WAIT = 1.0
"""Seconds in which an endpoint has to say what it serves; the page waits for it."""
log = logging.getLogger("subquest.serve")


class Agents:
    """Agents by the names of their parts, built when they are first asked for."""

    def __init__(
        self,
        spec: AgentSpec,
        systems: Sequence[str],
        models: Mapping[str, Mapping[str, Engine]],
        indexes: Indexes,
        cache: Cache | None = None,
        tools: Sequence[FunctionTool] = (),
        places: Mapping[str, str | Mapping[str, str]] | None = None,
    ) -> None:
        """The first system and the first model are the defaults. The spec's preset and settings are for its own system
        alone; the rest of it is for all systems. `places` are the models as `--model` has them, by name."""
        self._spec = spec
        self.systems = list(systems)
        self._own = models
        self._places = places or {}
        self._engines = models
        self.page_model: ModelSettings | None = None
        """What was set on the page."""
        self.changing, self.trying = asyncio.Lock(), asyncio.Lock()
        """Held while the model is being set, and while one is being tried."""
        self._opened: list[Engine] = []
        """Engines of models that were set on the page; episodes in progress may still use earlier ones."""
        self._cache = cache
        self._tools = tools
        self.indexes = indexes
        self.replay_log: ReplayLog | None = None
        """Where episodes record the replies they got; without it they cannot be resumed."""
        self._built: dict[tuple[str, str, str], System[Any]] = {}
        self._naming: dict[OpenAIEngine, asyncio.Task[None]] = {}
        """Endpoints that are being asked for their model's name."""

    @property
    def models(self) -> list[str]:
        return list(self._engines)

    def set_model(self, settings: ModelSettings | None) -> None:
        """Use the model that was set on the page, or without one the server's own. Episodes in progress go on."""
        if settings is None:
            self._engines = self._own
        else:
            engines = open_engines({"": settings.name}, settings.options(self._spec.engine))
            self._opened += engines.values()
            if self._cache is not None:
                engines = {role: CachedEngine(engine, self._cache) for role, engine in engines.items()}
            self._engines = {PAGE: engines, **self._own}
        self.page_model = settings
        self._built = {key: agent for key, agent in self._built.items() if key[1] != PAGE}

    async def close(self) -> None:
        for task in self._naming.values():
            task.cancel()
        await asyncio.gather(*self._naming.values(), return_exceptions=True)
        for engine in self._opened:
            await engine.close()
        self._opened.clear()

    async def describe_models(self) -> list[dict[str, Any]]:
        """Each model with its address, what it reads and acts by, and the systems that do not suit it."""
        await self._ask_names()
        out = []
        for name, engines in self._engines.items():
            bare = [getattr(engine, "engine", engine) for engine in engines.values()]
            addresses = [endpoint.base_url for one in bare if (endpoint := getattr(one, "endpoint", None)) is not None]
            reasons = {system: unsuited(system, bare[0]) for system in self.systems if bare}
            out.append(
                {
                    "name": name,
                    "model": ", ".join(dict.fromkeys(engine.name for engine in engines.values())),
                    "address": ", ".join(dict.fromkeys(addresses)),
                    "protocol": getattr(bare[0], "protocol", "tags") if bare else "tags",
                    "prompts": self._prompts(name) or "",
                    "unsuited": {system: reason for system, reason in reasons.items() if reason},
                }
            )
        return out

    async def _ask_names(self) -> None:
        """Have endpoints that serve one model say its name, where nobody gave one. Whoever waits does so for a moment
        only; a slow endpoint goes on being asked, and its name is there the next time."""
        for engine in (engine for engines in self._engines.values() for engine in engines.values()):
            bare = getattr(engine, "engine", engine)
            if isinstance(bare, OpenAIEngine) and bare.name == bare.endpoint.base_url and bare not in self._naming:
                self._naming[bare] = asyncio.create_task(_find_out(bare))
        if self._naming:
            await asyncio.wait(self._naming.values(), timeout=NAME_WAIT)
            self._naming = {engine: task for engine, task in self._naming.items() if not task.done()}

    def describe_systems(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "description": system_named(name).description, "searches": needs_search(name)}
            for name in self.systems
        ]

    def _prompts(self, model: str) -> str | None:
        """The set of prompts for a model, where one was chosen."""
        return self.page_model.prompts or None if model == PAGE and self.page_model else self._spec.prompts

    def get(self, system: str = "", model: str = "", index: str = "", *, replay: str = "") -> System[Any]:
        """An agent by the names of its parts; `replay` is the name under which it records replies and repeats them."""
        system = self._known("system", system, self.systems)
        model = self._known("model", model, self.models)
        search = self.indexes.get(index)
        if search is None and needs_search(system) and not (self._tools and system_named(system).tool_roles):
            raise Problem(
                400,
                f"{system} searches, and there is no index here: add documents, or ask direct, which answers "
                "from memory",
                code="no_index",
            )
        if replay and self.replay_log is not None:
            engines = self.replay_log.engines(replay, self._engines[model])
            return self._build(system, model, engines, self.replay_log.search(replay, search))
        key = (system, model, index)
        if key not in self._built or self._built[key].search is not search:
            self._built[key] = self._build(system, model, self._engines[model], search)
        return self._built[key]

    def _build(self, system: str, model: str, engines: Mapping[str, Engine], search: Search | None) -> System[Any]:
        place = self.page_model.name if model == PAGE and self.page_model else self._places.get(model, self._spec.model)
        spec = self._spec.replace(prompts=self._prompts(model), model=place)
        if system != spec.system:
            spec = spec.replace(system=system, preset="", settings={}, tools_optional=True)
        return build_agent(spec, Resources(engines, search, self._cache, self._tools))

    @property
    def engine_options(self) -> EngineOptions:
        return self._spec.engine

    @property
    def default_engine(self) -> Engine:
        engines = self._engines[self._known("model", "", self.models)]
        return engines.get("") or next(iter(engines.values()))

    def pieces(self, model: str) -> Piece | None:
        """The vocabulary of an engine of the server, by the name that episodes record; None where it has none."""
        for engines in self._engines.values():
            for engine in engines.values():
                vocabulary = getattr(engine, "vocabulary", None)
                piece = getattr(vocabulary, "piece", None)
                if engine.name == model and piece is not None:
                    return cast(Piece, piece)
        return None

    def names(self) -> list[str]:
        """Model names in OpenAI's protocol."""
        return [
            PREFIX + system + (f"@{model}" if number else "")
            for system in self.systems
            for number, model in enumerate(self.models)
        ]

    def named(self, name: str) -> tuple[str, str]:
        """System and model behind a name of OpenAI's protocol."""
        system, _, model = name.removeprefix(PREFIX).partition("@")
        if not name.startswith(PREFIX) or system not in self.systems or (model and model not in self.models):
            hint = suggest(name, self.names(), "GET /v1/models lists them", cutoff=0.3)
            raise Problem(404, f"there is no model {name!r}; {hint}", code="model_not_found")
        return system, model

    def _known(self, what: str, name: str, names: list[str]) -> str:
        if not names and self.systems:
            raise Problem(400, "no model is set yet: set one under Model, or start with --model", code="no_model")
        if not names:
            raise Problem(403, "this server shows stored runs; start `subquest serve` to ask", code="no_asking")
        if name and name not in names:
            raise Problem(400, f"there is no {what} {name!r} here; there are {', '.join(names)}")
        return name or names[0]


async def _find_out(engine: OpenAIEngine) -> None:
    with suppress(OutsideError, UsageError):  # said when a question is asked
        await engine.find_out()


@asynccontextmanager
async def open_agents(
    spec: AgentSpec,
    more_models: Mapping[str, str],
    indexes: Mapping[str, str],
    settings: Settings,
    *,
    model_optional: bool = False,
) -> AsyncIterator[Agents]:
    """All systems on the spec's model and on others by name, over indexes by name; closed afterwards.

    `model_optional`: nobody chose the spec's model; if it is not at hand, one can be set on the page.
    """
    preview_agent(spec)
    async with AsyncExitStack() as stack:
        searches: dict[str, Search] = {}
        for name, place in indexes.items():
            searches[name] = open_search(place, mode=spec.mode, tools=spec.tool_options)
            stack.callback(close_search, searches[name])
        models: dict[str, Mapping[str, Engine]] = {}
        cache: Cache | None = None
        missing = ""
        tools = await stack.enter_async_context(open_tools(spec.tools, spec.tool_options))
        places = {"default": spec.model, **more_models}
        for name, model in places.items():
            resources = open_resources(spec.replace(model=model, index=None, tools=()))
            try:
                opened = await stack.enter_async_context(resources)
            except UsageError as error:
                if name != "default" or not model_optional or settings.who_sets_model == "nobody":
                    raise
                missing = str(error)
                continue
            models[name], cache = opened.engines, opened.cache
        order = [spec.system, *(name for name in system_names() if name != spec.system)]
        offered = Indexes(searches, settings.indexes, read_only=settings.read_only)
        agents = Agents(spec, order, models, offered, cache, tools, places)
        if settings.who_sets_model != "nobody":
            try:
                agents.set_model(model_settings.load(settings.runs))
            except UsageError as error:
                log.warning("the model that was set on the page is not used: %s", error)
        if not agents.models:
            log.warning("no model yet: set your endpoint on the page, under Model. (%s)", missing)
        yield agents
