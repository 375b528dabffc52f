"""Options that every command with an agent shares, and the agent they describe.

Settings come from `subquest.toml`, below the environment, below flags; what nobody sets is the system's own default.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UsageError
from .searching import SIMULATED, open_search

if TYPE_CHECKING:
    from ..cache import Cache
    from ..config import Config
    from ..engine import Engine
    from ..retrieval.base import Search
    from ..runtime.system import System
    from ..tools.options import ToolOptions

FLAGS = {
    "model": "model",
    "index": "index",
    "system": "system",
    "prompts": "prompts",
    "protocol": "protocol",
    "adapter": "engine.adapter",
    "egress": "tools.egress",
    "k": "search.k",
    "mode": "search.mode",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "max_tokens": "sampling.max_tokens",
    "max_turns": "limits.turns",
    "max_calls": "limits.calls",
    "max_total_tokens": "limits.tokens",
    "max_seconds": "limits.seconds",
    "max_cost": "limits.cost",
    "max_thought": "limits.thought",
}
"""Command-line options and the settings they stand for."""


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    agent = parser.add_argument_group("agent")
    agent.add_argument("--system", metavar="NAME", help="coda (default), another system's name, or path.py:Class")
    agent.add_argument(
        "--model",
        metavar="MODEL",
        help="embedded (default), gguf:PATH, torch:PATH, openai:NAME[@URL], http://HOST/v1#NAME; planner=…,executor=…",
    )
    agent.add_argument(
        "--adapter", metavar="FILE", help="LoRA in GGUF form for embedded, gguf and torch models; none for none"
    )
    agent.add_argument("--index", metavar="PATH", help="what to search: an index folder or a search server's URL")
    agent.add_argument("-k", type=int, metavar="N", help="documents a search")
    agent.add_argument("--mode", choices=("auto", "bm25", "dense", "hybrid", "linked"), help="how to search the index")
    agent.add_argument("--preset", default="", metavar="NAME", help="a named variant of the system")
    agent.add_argument("--depth", type=int, metavar="N", help="levels of sub-tasks (CoDA)")
    agent.add_argument("--no-refine", action="store_true", help="executors do not distil documents (CoDA)")
    agent.add_argument("--parallel", action="store_true", help="independent sub-questions at the same time (APEX)")
    agent.add_argument("--abstain", action="store_true", help="allow the answer unknown")
    agent.add_argument("--votes", type=int, default=1, metavar="N", help="answer up to N times; most attempts decide")
    agent.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting of the system"
    )
    agent.add_argument(
        "--egress", choices=("private", "public", "adaptive"), help="what may leave the machine (systems with tools)"
    )
    agent.add_argument(
        "--prompts",
        metavar="SET|FOLDER",
        help="full or compact (default: the model's), or a folder of prompt files",
    )
    agent.add_argument("--protocol", choices=("tags", "tools"), help="act by tags, or by an endpoint's tool calls")
    sampling = parser.add_argument_group("sampling and limits")
    sampling.add_argument("--temperature", type=float, metavar="T")
    sampling.add_argument("--top-p", type=float, metavar="P")
    sampling.add_argument("--max-tokens", type=int, metavar="N", help="tokens of one turn")
    sampling.add_argument("--max-turns", type=int, metavar="N", help="turns of each context")
    sampling.add_argument("--max-calls", type=int, metavar="N", help="model calls of the episode")
    sampling.add_argument("--max-total-tokens", type=int, metavar="N", help="tokens of the episode")
    sampling.add_argument("--max-seconds", type=float, metavar="S", help="seconds of the episode")
    sampling.add_argument("--max-cost", type=float, metavar="C", help="cost of the episode")
    sampling.add_argument("--max-thought", type=int, metavar="N", help="tokens of a turn whose thought goes on")
    sampling.add_argument(
        "--role", action="append", default=[], metavar="ROLE.KEY=VALUE", help="for one role, as planner.temperature=0.7"
    )
    parser.add_argument("--config", metavar="FILE", help="settings file (default: the nearest subquest.toml)")
    parser.add_argument("--no-cache", action="store_true", help="do not use the cache, even where it is configured")


def config_from(args: argparse.Namespace) -> Config:
    from ..config import load_config

    flags = {key: getattr(args, option, None) for option, key in FLAGS.items()}
    return load_config(args.config, flags=flags)


@asynccontextmanager
async def agent_from(args: argparse.Namespace) -> AsyncIterator[System[Any]]:
    """The agent that the options describe; its engines and caches are closed afterwards."""
    from ..systems.registry import get

    config = config_from(args)
    name = config.system or "coda"
    system = get(name)
    check(system, config, args)
    warn_of_no_index([name], config)
    warn_of_untaught([name], config)
    async with resources(config, cache=not args.no_cache) as (engines, search):
        yield build(system, config, args, engines, search)


def check(system: type[System[Any]], config: Config, args: argparse.Namespace) -> None:
    """Refuse settings that the system cannot run with, before a model is loaded for it."""
    from ..engine.scripted import ScriptedEngine

    build(system, config, args, {"": ScriptedEngine([])}, None)


def warn_of_no_index(names: Sequence[str], config: Config) -> None:
    """Say so where systems search and there is nothing to search: what they answer comes from memory at best."""
    from ..systems.registry import needs_search

    if not config.index and (searching := [name for name in names if needs_search(name)]):
        print(
            f"subquest: {searching[0]} searches, and there is nothing to search: give --index PATH (make one with: "
            "subquest index build FOLDER --out docs.sq), or take --system direct, which answers from memory",
            file=sys.stderr,
        )


def warn_of_untaught(names: Sequence[str], config: Config) -> None:
    """Say so where the embedded model is to play a system that it was never taught: it takes long and says little."""
    from ..models import TAUGHT

    untaught = [name for name in names if name not in (*TAUGHT, "direct", "cot")]
    if untaught and config.model in (None, "embedded"):
        print(
            f"subquest: the embedded model knows {', '.join(TAUGHT)}; for {untaught[0]} it is too small: give a "
            "stronger one with --model",
            file=sys.stderr,
        )


def check_index(config: Config) -> None:
    """Refuse an index that cannot be opened, before a model is loaded or a run is begun."""
    if config.index and not config.index.startswith(SIMULATED):
        _close(_search(config))


def build(
    system: type[System[Any]],
    config: Config,
    args: argparse.Namespace,
    engines: Mapping[str, Engine],
    search: Search | None,
    level: Mapping[str, Any] | None = None,
) -> System[Any]:
    """One system on given engines and search. `level` is what systems that are compared share, unless it is set."""
    from dataclasses import fields, replace

    from ..evaluate.fairness import levelled
    from ..limits import Limits

    settings = settings_from(args)
    known = {f.name for f in fields(system.Settings)}
    if config.search.k is not None and "k" in known:
        settings.setdefault("k", config.search.k)
    more: dict[str, Any] = {}
    if system.uses_tools:
        for name in ("egress", "robots", "code_seconds"):
            if (value := getattr(config.tools, name)) is not None:
                settings.setdefault(name, value)
        more = {"tools": tool_options(config), "cache": _cache(config) if not args.no_cache else None}
    elif getattr(args, "file", None):
        raise UsageError(f"--file needs a system with tools, such as hira or react-tools; {system.name} has none")
    own = roles_from(args)
    shared, decoding = levelled(system, level or {})
    settings = {**shared, **settings}
    sampling = config.sampling.over(decoding)
    samplings = {"": sampling, **{role: replace(sampling, **given.sampling) for role, given in own.items()}}
    limits = {"": config.limits, **{role: Limits(**given.limits) for role, given in own.items()}}
    return system(
        engines,
        search,
        sampling=samplings,
        limits=limits,
        prompts=config.prompts,
        preset=args.preset,
        abstain=args.abstain,
        votes=args.votes,
        **more,
        **settings,
    )


def tool_options(config: Config) -> ToolOptions:
    """What `[tools]` says, over the environment and the defaults."""
    from dataclasses import replace

    from ..tools.options import ToolOptions

    given, options = config.tools, ToolOptions.from_environment()
    if given.ca and not Path(given.ca).is_file():
        raise UsageError(f"tools.ca: there is no file {given.ca}")
    pages = {
        "bytes": given.page_mb and given.page_mb << 20,
        "seconds": given.page_seconds,
        "delay": given.page_delay,
    }
    code = {
        "memory": given.code_memory_mb and given.code_memory_mb << 20,
        "disk": given.code_disk_mb and given.code_disk_mb << 20,
        "processes": given.code_processes,
        "fetches": given.code_fetches,
    }
    return replace(
        options,
        web=given.web or "",
        record=given.record or "",
        ca=given.ca or "",
        allow_hosts=options.allow_hosts if given.allow_hosts is None else given.allow_hosts,
        sandbox_url=given.sandbox_url or options.sandbox_url,
        pages=replace(options.pages, **{k: v for k, v in pages.items() if v is not None}),  # type: ignore[arg-type]
        code=replace(options.code, **{k: v for k, v in code.items() if v is not None}),
    )


def _cache(config: Config) -> Cache | None:
    """The on-disk cache of calls, where it is switched on."""
    if not config.cache.enabled:
        return None
    from ..models import cache_folder

    return _opened(str(config.cache.path or cache_folder() / "calls.sqlite"))


@functools.cache
def _opened(path: str) -> Cache:
    """One cache a file; after it was closed it opens again by itself."""
    from ..cache import Cache

    return Cache(path)


class RoleOptions(NamedTuple):
    """What `--role` says of one role."""

    sampling: dict[str, Any]
    limits: dict[str, Any]


def roles_from(args: argparse.Namespace) -> dict[str, RoleOptions]:
    """Sampling and limits by role, from `--role planner.temperature=0.7`."""
    from ..config import checked

    kinds: dict[str, type] = {"temperature": float, "top_p": float, "top_k": int, "max_tokens": int}
    bounds: dict[str, type] = {"turns": int, "tokens": int, "calls": int, "seconds": float, "cost": float}
    bounds |= {"thought": int}
    out: dict[str, RoleOptions] = {}
    for text in args.role:
        place, equals, value = text.partition("=")
        role, dot, key = place.strip().partition(".")
        if not (role and dot and equals) or key not in kinds | bounds:
            known = ", ".join(kinds | bounds)
            raise UsageError(f"--role {text!r}: write ROLE.KEY=VALUE with KEY one of {known}")
        try:
            number = (kinds | bounds)[key](value)
        except ValueError:
            raise UsageError(f"--role {text!r}: {key} needs a number") from None
        checked(f"{'sampling' if key in kinds else 'limits'}.{key}", number, f"--role {text!r}")
        options = out.setdefault(role, RoleOptions({}, {}))
        (options.sampling if key in kinds else options.limits)[key] = number
    return out


def settings_from(args: argparse.Namespace) -> dict[str, Any]:
    """Settings of the system itself: the named options, then `--set`."""
    settings: dict[str, Any] = {}
    if args.depth is not None:
        if args.depth < 1:
            raise UsageError("--depth counts levels of sub-tasks: use 1 or more")
        settings["depth"] = args.depth
    if args.no_refine:
        settings["refine"] = False
    if args.parallel:
        settings["parallel"] = True
    if files := getattr(args, "file", None):
        settings["files"] = ",".join(map(_attached, files))
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--set {pair!r}: write KEY=VALUE")
        settings[key.strip()] = _value(value)
    return settings


def _attached(place: str) -> str:
    if not Path(place).expanduser().is_file():
        raise UsageError(f"--file {place}: there is no such file")
    if "," in place:
        raise UsageError(f"--file {place}: rename the file, its name must not hold a comma")
    return place


def _value(text: str) -> Any:
    """true, false, null and numbers as what they are; everything else is text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return text if isinstance(value, list | dict) else value


@asynccontextmanager
async def resources(config: Config, *, cache: bool = True) -> AsyncIterator[tuple[Mapping[str, Engine], Search | None]]:
    """The engines and the search that a configuration names, cached where it says so, closed at the end."""
    from dataclasses import asdict

    from ..engine.resolve import EngineOptions, resolve
    from ..telemetry import exporting

    given = {name: value for name, value in asdict(config.engine).items() if value is not None}
    options = EngineOptions(protocol=config.protocol or "tags", prices=config.prices, **given)
    search = opened = _search(config)  # before the model, which may take half a minute to load
    try:
        resolved = resolve(config.model or "embedded", options)
    except BaseException:
        _close(opened)
        raise
    engines: dict[str, Engine] = dict(resolved) if isinstance(resolved, Mapping) else {"": resolved}
    owned = list({id(e): e for e in engines.values()}.values())
    store = _cache(config) if cache else None
    if store is not None:
        from ..cache import CachedEngine, CachedSearch
        from ..tools.options import DAY
        from ..tools.websearch import is_web

        engines = {role: CachedEngine(engine, store) for role, engine in engines.items()}
        if search is not None:
            search = CachedSearch(search, store, max_age=DAY if is_web(search) else None)
    try:
        with exporting():
            yield engines, search
    finally:
        for engine in owned:
            await engine.close()
        _close(opened)
        if store is not None:
            store.close()


def _close(search: Search | None) -> None:
    """Close what holds files or connections: indexes of all kinds do."""
    if (close := getattr(search, "close", None)) is not None:
        close()


def _search(config: Config) -> Search | None:
    return open_search(config.index, config, config.search.mode) if config.index else None
