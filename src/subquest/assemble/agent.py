"""From a spec to an agent: a system on its engines, its search and its tools."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import field
from msgspec.structs import asdict
from msgspec.structs import replace as replace_fields

from ..codec import Record, changed
from ..config import Config
from ..engine.interface import Sampling
from ..errors import ToolError, UsageError
from ..limits import Limits
from ..models.memory import default_model
from ..record import Style
from ..retrieval.search import Mode
from ..tools.function_tool import FunctionTool
from ..tools.mcp_server import McpPlace
from ..tools.tool_options import DAY, ToolOptions
from .engines import EngineOptions, open_engines
from .fairness import split_shared
from .search import close_search, open_search
from .suitability import fitting, untaught
from .tools import check_reach, open_tools, read_tools

if TYPE_CHECKING:
    from ..cache import Cache
    from ..engine import Engine
    from ..retrieval.search import Search
    from ..runtime.system import System


class RoleSpec(Record, kw_only=True):
    """What one role has of its own, in place of what all roles have."""

    sampling: Mapping[str, Any] = {}
    """Values of `Sampling`, by name."""
    limits: Limits = Limits()


def model_of(config: Config) -> str:
    """The model that the settings name, or the base of the adapter that they name, or what runs where neither is."""
    if config.model:
        return config.model
    adapter = Path(config.engine.adapter or "none").expanduser()
    if not adapter.exists():  # the engine says so, unless it is "none"
        return default_model()
    from ..engine.adapter_base import known_base

    base = known_base(adapter)
    return base.name if base and base.name != "smollm2" else "embedded"


class AgentSpec(Record, kw_only=True):
    """All that an agent is made of, as a user writes it. What is not given is the system's or the model's default."""

    system: str = "coda"
    """Name of a system, or `path.py:Class`."""
    preset: str = ""
    """A named variant of the system."""
    settings: Mapping[str, Any] = {}
    """Settings of the system itself."""
    model: str | Mapping[str, str] = field(default_factory=default_model)
    """As after `--model`; or a model for each role, with `""` for all other roles."""
    engine: EngineOptions = EngineOptions()
    index: str | None = None
    """What is searched, as after `--index` (see `assemble.search`)."""
    mode: Mode | None = None
    """How an index is searched."""
    k: int | None = None
    """Documents per search, for systems that have such a setting."""
    search_tokens: int | None = None
    """What one search finds is cut to what the query needs of it, in so many tokens."""
    sampling: Sampling | Mapping[str, Any] = field(default_factory=dict)
    """Values in place of the system's own sampling, by name; or a `Sampling` that replaces it as a whole."""
    limits: Limits = Limits()
    """Limits of the episode; its turns are those of each context."""
    roles: Mapping[str, RoleSpec] = {}
    prompts: str | None = None
    """A set of prompts, `full` or `compact` (default: the model's), or a folder of prompt files."""
    votes: int = 1
    abstain: bool | None = None
    only_supported: bool = False
    """Withhold answers that no document supports."""
    style: Style = "short"
    """How answers are written: `short`, `sentence` or `report`."""
    files: tuple[str, ...] = ()
    """Files attached to every question (systems with tools)."""
    tools: Sequence[Any] = ()
    """Tools of the user's: Python functions, `path.py:function`, and MCP servers as `mcp:COMMAND` or `mcp:URL`."""
    tools_optional: bool = False
    """Whether a system that cannot call tools goes without them; otherwise it is refused."""
    tool_options: ToolOptions = ToolOptions()
    cache: str | None = None
    """File in which calls of models, searches and pages are cached; None for no cache."""
    shared: Mapping[str, Any] = {}
    """What systems that are compared share (`assemble.fairness`), unless the spec sets it."""

    @classmethod
    def from_config(cls, config: Config, **more: Any) -> AgentSpec:
        """The agent that `subquest.toml` and the environment describe, with `more` that they cannot say."""
        cached: dict[str, Any] = {}
        if config.cache.enabled:
            from ..models import cache_folder

            cached = {"cache": str(config.cache.path or cache_folder() / "calls.sqlite")}
        return cls(
            system=config.system or "coda",
            model=model_of(config),
            engine=EngineOptions(protocol=config.protocol or "tags", prices=config.prices, **asdict(config.engine)),
            index=config.index,
            mode=config.search.mode,
            k=config.search.k,
            search_tokens=config.search.tokens,
            sampling={name: value for name, value in asdict(config.sampling).items() if value is not None},
            limits=config.limits,
            prompts=config.prompts,
            tools=config.tools.use or (),
            tools_optional=config.sources.get("tools.use") != "a flag",
            tool_options=config.tools,
            **cached | more,
        )

    def replace(self, **changes: Any) -> AgentSpec:
        """The same agent but for some fields."""
        return replace_fields(self, **changes)


class Resources(NamedTuple):
    """What agents are built on, and may share."""

    engines: Mapping[str, Engine]
    """By role, with `""` for all other roles."""
    search: Search | None = None
    cache: Cache | None = None
    tools: Sequence[FunctionTool] = ()


@asynccontextmanager
async def open_agent(spec: AgentSpec) -> AsyncIterator[System[Any]]:
    """The agent that a spec describes; everything that was opened for it is closed afterwards.

    A system that the adapter of a known model was not trained for runs on the model as published, unless the spec names
    an adapter.
    """
    spec = checked_spec(spec)
    preview_agent(spec)
    if spec.engine.adapter is None and untaught(spec.system, spec.model):
        spec = spec.replace(engine=replace_fields(spec.engine, adapter="none"))
    async with open_resources(spec) as resources:
        yield build_agent(spec, resources)


def checked_spec(spec: AgentSpec) -> AgentSpec:
    """The spec, if every value is of its field's type: records do not check what they are made of."""
    if not isinstance(spec, AgentSpec):
        raise UsageError(f"an agent is made from an AgentSpec, not from {spec!r:.80}")
    spec = changed(AgentSpec(), asdict(spec), "AgentSpec")
    parts: dict[str, Any] = {"engine": spec.engine, "limits": spec.limits, "tool_options": spec.tool_options}
    parts |= {f"roles[{name!r}].limits": role.limits for name, role in spec.roles.items()}
    sampling = asdict(spec.sampling) if isinstance(spec.sampling, Sampling) else spec.sampling
    if not isinstance(sampling, Mapping):
        raise UsageError(f"AgentSpec: sampling must be an object, not {sampling!r:.80}")
    changed(Sampling(), sampling, "AgentSpec: sampling")
    for name, part in parts.items():
        changed(type(part)(), asdict(part), f"AgentSpec: {name}")
    return spec


def preview_agent(spec: AgentSpec) -> System[Any]:
    """The agent without its model and search: refuses a wrong spec at once, and shows the settings in force."""
    from ..engine.scripted import ScriptedEngine

    spec = checked_spec(spec)
    tools = read_tools(spec.tools)
    private = bool(spec.files) or bool(spec.index and not spec.index.startswith("web://"))
    check_reach(tools, spec.tool_options, private=private)
    stand_ins = [tool if isinstance(tool, FunctionTool) else _unopened(tool) for tool in tools]
    return build_agent(spec, Resources({"": ScriptedEngine([])}, tools=stand_ins))


@asynccontextmanager
async def open_resources(spec: AgentSpec) -> AsyncIterator[Resources]:
    """The engines and the search of a spec, cached if it says so; closed afterwards."""
    async with AsyncExitStack() as stack:
        opened = _open_search(spec)
        stack.callback(close_search, opened)
        tools = await stack.enter_async_context(open_tools(spec.tools, spec.tool_options))
        yield await stack.enter_async_context(_on_models(spec, opened, tools))  # last: they may take long to load


@asynccontextmanager
async def _on_models(spec: AgentSpec, search: Search | None, tools: Sequence[FunctionTool]) -> AsyncIterator[Resources]:
    from ..telemetry import exporting

    engines = open_engines(spec.model, spec.engine)
    owned = list({id(engine): engine for engine in engines.values()}.values())
    cache = _open_cache(spec.cache) if spec.cache else None
    if cache is not None:
        from ..cache import CachedEngine, CachedSearch
        from ..tools.websearch import is_web

        engines = {role: CachedEngine(engine, cache) for role, engine in engines.items()}
        if search is not None:
            search = CachedSearch(search, cache, max_age=DAY if is_web(search) else None)
    try:
        with exporting():
            yield Resources(engines, search, cache, tools)
    finally:
        for engine in owned:
            await engine.close()
        if cache is not None:
            cache.close()


def build_agent(spec: AgentSpec, resources: Resources) -> System[Any]:
    """The agent of a spec on engines and a search that are open already."""
    from ..systems.registry import get

    system = get(spec.system)
    if not system.uses_tools and resources.search is not None:  # with tools, the run itself keeps to its scope
        _check_egress(spec.tool_options, resources.search)
    shared, decoding = split_shared(system, spec.shared)
    settings = {**shared, **_settings(spec, system)}
    sampling = spec.sampling if isinstance(spec.sampling, Sampling) else replace(decoding, **spec.sampling)
    more: dict[str, Any] = {"cache": resources.cache} if system.uses_tools else {}
    tools = resources.tools if system.tool_roles or not spec.tools_optional else ()
    if system.uses_tools or tools:
        more |= {"tools": tools, "tool_options": spec.tool_options.checked()}
    engines = (
        resources.engines if spec.engine.adapter else fitting(spec.system, spec.style, spec.model, resources.engines)
    )
    return system(
        engines,
        resources.search,
        sampling={"": sampling, **{role: replace(sampling, **own.sampling) for role, own in spec.roles.items()}},
        limits={"": spec.limits, **{role: own.limits for role, own in spec.roles.items()}},
        prompts=spec.prompts,
        preset=spec.preset,
        abstain=spec.abstain,
        only_supported=spec.only_supported,
        votes=spec.votes,
        style=spec.style,
        search_tokens=spec.search_tokens,
        **more,
        **settings,
    )


def _settings(spec: AgentSpec, system: type[System[Any]]) -> dict[str, Any]:
    """The system's settings: those of the spec, then what it says of searches and tools in general."""
    settings = dict(spec.settings)
    if spec.k is not None and any(field.name == "k" for field in fields(system.Settings)):
        settings.setdefault("k", spec.k)
    if system.uses_tools:
        for name in ("egress", "robots", "code_seconds"):
            if (value := getattr(spec.tool_options, name)) is not None:
                settings.setdefault(name, value)
    if spec.files:
        if not system.uses_tools:
            raise UsageError(f"--file needs a system with tools, such as hira or react-tools; {system.name} has none")
        settings["files"] = ",".join(map(_attached, spec.files))
    return settings


def _check_egress(tools: ToolOptions, search: Search) -> None:
    """Refuse a search that would send queries to another machine although nothing may leave this one."""
    from ..tools.egress import outside
    from ..tools.websearch import is_web

    if tools.egress != "private":
        return
    if place := "the web" if is_web(search) else outside(search):
        raise UsageError(
            f"egress is private, and searches of {search.name} go to {place}: use an index on this machine, with "
            "--mode bm25 if its encoder is elsewhere, or another --egress"
        )


def _attached(file: str) -> str:
    if not Path(file).expanduser().is_file():
        raise UsageError(f"--file {file}: there is no such file")
    if "," in file:
        raise UsageError(f"--file {file}: rename the file: its name must not contain a comma")
    return file


def _open_search(spec: AgentSpec) -> Search | None:
    return open_search(spec.index, mode=spec.mode, tools=spec.tool_options) if spec.index else None


def _unopened(place: McpPlace) -> FunctionTool:
    """Stands for the tools of a server that is not asked yet."""

    async def call(arguments: dict[str, Any]) -> str:
        raise ToolError("it is not open")

    return FunctionTool(place.short_name, "", {"type": "object"}, call)


@functools.cache
def _open_cache(path: str) -> Cache:
    """One cache per file; it opens again by itself after it was closed."""
    from ..cache import Cache

    return Cache(path)
