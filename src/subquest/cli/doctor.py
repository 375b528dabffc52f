"""`subquest doctor`: what is installed, what works, what is missing and the command that fixes it."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import sys
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..assemble import AgentSpec, check_search, open_engines
from ..assemble.search import NO_WEB
from ..config import Config, load_config
from ..engine import Message, Sampling
from ..errors import SubquestError, UsageError
from ..masking import public
from ..process import run_sync
from .terminal import printable

if TYPE_CHECKING:
    from ..models import KnownModel


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    ok: bool
    detail: str
    fix: str = ""
    """The command that fixes it; empty where nothing needs to be done."""
    needed: bool = False
    """Whether Subquest cannot do its main job without it."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.add_argument(
        "--try", dest="really", action="store_true", help="also load the embedded model and let it write"
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="ask this model a tiny question in each mode, and say what works (nothing else)",
    )
    parser.add_argument(
        "--tools",
        action="append",
        metavar="TOOL",
        help="list the tools of mcp:COMMAND, mcp:http://HOST/PATH or path.py:function (nothing else)",
    )


def run(args: argparse.Namespace) -> int:
    if args.model is not None:
        checks = _probe(args.model)
    elif args.tools:
        checks = _list_tools(args.tools)
    else:
        checks = _all_checks() + ([_writes()] if args.really else [])
    checks = [replace(c, detail=public(c.detail)) for c in checks]
    if args.json:
        print(json.dumps({"ok": _well(checks), "checks": [asdict(c) for c in checks]}))
    else:
        for c in checks:
            mark = "ok  " if c.ok else "MISS" if c.needed else "-   "
            print(
                f"{mark} {c.name:<18} {printable(c.detail)}" + (f"\n       fix: {c.fix}" if c.fix and not c.ok else "")
            )
    return 0 if _well(checks) else 1


def _well(checks: list[Check]) -> bool:
    return all(c.ok or not c.needed for c in checks)


def _python() -> Check:
    version = platform.python_version()
    return Check(
        "python", sys.version_info >= (3, 11), f"{version} on {platform.machine()}", "use Python 3.11 or newer", True
    )


def _all_checks() -> list[Check]:
    try:
        config = load_config()
        settings = _settings(config)
    except UsageError as error:
        config, settings = Config(), Check("config", False, str(error), "correct the setting named above", True)
    return [
        _python(),
        settings,
        _llama_cpp(),
        _model_kernel(),
        _model_file(),
        _larger_model(),
        _endpoint(config),
        _index(config),
        _module("dense search", "onnxruntime", "dense", "embeds passages"),
        _module("training", "torch", "train", "trains and rolls out"),
        _module("server", "starlette", "serve", "serves the page and the API"),
        _sandbox(),
        _module("web pages", "ssrfguard", "web-tools", "fetches pages behind a guard"),
        _web(config),
        _module("MCP", "mcp", "mcp", "speaks to MCP servers, and is one"),
        _module("media", "rapidocr", "media", "reads images, sound and video"),
        _kernel(),
    ]


def _settings(config: Config) -> Check:
    by_source: dict[str, list[str]] = {}
    for key, source in sorted(config.sources.items()):
        value: Any = attrgetter(key)(config)
        by_source.setdefault(source, []).append(f"{key} = {json.dumps(value, default=str, ensure_ascii=False)}")
    found = [f"from {source}: {', '.join(settings)}" for source, settings in by_source.items()]
    return Check("config", True, "; ".join(found) or "defaults")


def _model_file() -> Check:
    from ..models import default_adapter, is_whole, smollm2_path
    from ..models.memory import default_model

    path = smollm2_path()
    adapter = default_adapter()
    whole = path.is_file() and is_whole("smollm2")
    if not path.exists() and (other := default_model()) != "embedded":
        return Check("embedded model", True, f"{other} runs where no model is named")
    detail = f"{path} ({'with' if adapter else 'without'} our adapter)" if whole else f"{path} is damaged"
    return Check("embedded model", whole, detail if path.is_file() else "not fetched yet", "subquest model get smollm2")


def _larger_model() -> Check:
    from ..models import default_adapter, megabytes
    from ..models.memory import available_memory, default_model, larger_model

    best = larger_model()
    if best is None:
        return Check("larger model", True, f"none fits: {megabytes(available_memory() or 0)} of memory are free")
    # untrained, it reads best in RAG
    use = f"--model {best.name}" + ("" if default_adapter(best.name) else " --system rag")
    if best.present:
        told = f"{use} reads ordinary documents better, slower"
        if default_model() == best.name:
            told += "; it runs where no model is named"
        if _unmerged(best):
            fix = f"subquest model get {best.name}"
            return Check("larger model", False, f"{told}; our adapter is not merged into it yet, which is faster", fix)
        return Check("larger model", True, told)
    detail = f"{best.name} ({megabytes(best.size)}) fits this machine and reads ordinary documents better, slower"
    then = "" if default_adapter(best.name) else f", then {use}"
    return Check("larger model", False, detail, f"subquest model get {best.name}{then}")


def _unmerged(model: KnownModel) -> bool:
    """Whether `model get` would make the faster copy with the adapter that ships: it may be newer than the model."""
    from ..models import default_adapter

    adapter = default_adapter(model.name)
    if adapter is None or importlib.util.find_spec("gguf") is None:
        return False
    from ..engine.embedded.quantised import has_room, merged_files

    return merged_files(model.path, adapter)[1] is not None and has_room(model.path)


def _llama_cpp() -> Check:
    """Opens the library, because an installed package may lack a system library."""
    fix = "pip install 'subquest[embedded]'"
    try:
        from ..engine.embedded.llama_cpp import open_library

        build = open_library().build
    except (SubquestError, ImportError) as error:
        needs = "apt-get install libgomp1" if "libgomp" in str(error) else fix
        return Check("llama.cpp", False, f"runs the embedded model: {error}", needs)
    return Check("llama.cpp", True, f"runs the embedded model: {build} works", fix)


def _model_kernel() -> Check:
    try:
        from ..engine.embedded.matmul import status

        works, detail, fix = status()
    except (SubquestError, ImportError):
        return Check("model kernel", True, "not needed without llama.cpp")
    return Check("model kernel", works, detail, fix)


def _module(name: str, module: str, extra: str, use: str) -> Check:
    found = importlib.util.find_spec(module) is not None
    detail = f"{use}: {module} is {'installed' if found else 'not installed'}"
    return Check(name, found, detail, f"pip install 'subquest[{extra}]'")


def _sandbox() -> Check:
    """Starts one, because an installed bubblewrap may lack the permission."""
    from ..tools.sandbox import SandboxUnavailable, bubblewrap, cgroup

    fix = "apt-get install bubblewrap libseccomp2 && pip install 'subquest[web-tools]'"
    try:
        way = "as root, each under its own uid" if bubblewrap.way() else "in user namespaces"
    except SandboxUnavailable as error:
        return Check("sandbox", False, f"model-written code is refused: {error}", fix)
    processes = "" if cgroup.available() else "; no control group, so code has a single process (docs/tools.md)"
    return Check("sandbox", True, f"runs model-written code: sandboxes start {way}{processes}")


def _web(config: Config) -> Check:
    try:
        search = config.tools.checked().search()
    except SubquestError as error:
        return Check("web search", False, str(error), "correct what is named above")
    return Check("web search", search is not None, search.name if search is not None else "none configured", NO_WEB)


def _endpoint(config: Config) -> Check:
    """The addresses of the configured models; without any, the address in the environment."""
    key = "with" if os.environ.get("OPENAI_API_KEY") else "without"
    if addresses := re.findall(r"https?://[^,#]+", config.model or ""):
        return Check("endpoint", True, f"{', '.join(dict.fromkeys(addresses))}, {key} a key")
    url = os.environ.get("OPENAI_BASE_URL", "")
    detail = f"OPENAI_BASE_URL{f'={url}' if url else ' is not set'}, {key} a key"
    return Check(
        "endpoint",
        bool(url) or key == "with",
        detail,
        "give one with --model http://HOST:PORT/v1, or export OPENAI_BASE_URL=... OPENAI_API_KEY=...",
    )


def _index(config: Config) -> Check:
    """Opens the configured index, because it may be gone or damaged."""
    try:
        check_search(config.index, mode=config.search.mode, tools=config.tools)
    except SubquestError as error:
        return Check("index", False, str(error), "correct what is named above")
    fix = "subquest index build FOLDER --out docs.sq, then --index docs.sq"
    return Check("index", bool(config.index), config.index or "none in the settings", fix)


def _writes() -> Check:
    async def write() -> str:
        from .. import embedded

        engine = embedded()
        session = await engine.open([Message("user", "Say hello.")])
        turn = await session.generate(Sampling(max_tokens=8))
        await session.close()
        await engine.close()
        return turn.text

    try:
        return Check("embedded writes", True, repr(run_sync(write())), needed=True)
    except SubquestError as error:
        return Check("embedded writes", False, str(error), "see the message above", True)


def _probe(model: str) -> list[Check]:
    """What works at a model, or at each of several; a failure is reported at once, without retries."""
    from ..engine.capabilities import FIRST_SECONDS, probe

    options = replace(AgentSpec.from_config(load_config()).engine, protocol="tags", retries=0, timeout=FIRST_SECONDS)
    engines = open_engines(model, options)
    distinct = {id(engine): (role, engine) for role, engine in engines.items()}

    async def ask() -> list[Check]:
        checks = []
        for role, engine in distinct.values():
            try:
                async for found in probe(engine):
                    name = f"{role}: {found.name}" if role else found.name
                    checks.append(Check(name, found.works, found.detail, needed=found.name == "chat"))
            finally:
                await engine.close()
        return checks

    return run_sync(ask())


def _list_tools(given: list[str]) -> list[Check]:
    """What each tool is called by a model, with its arguments and its description."""
    from ..assemble.tools import open_tools
    from ..protocol import TAGS
    from ..tools.function_tool import with_unique_names

    async def ask() -> list[Check]:
        async with open_tools(given, load_config().tools) as tools:
            named = with_unique_names(tools, TAGS)
            return [
                Check(t.name, True, f"{t.signature().removeprefix(t.name)} {' '.join(t.declared()[0].split())}".strip())
                for t in named
            ]

    return run_sync(ask())


def _kernel() -> Check:
    from ..retrieval.kernel import status

    detail = status()
    return Check("search kernel", "plain Python" not in detail, detail, "apt-get install gcc, or install a wheel")
