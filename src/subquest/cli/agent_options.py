"""The options that every command with an agent shares, and the spec that they describe.

Settings come from `subquest.toml`, then the environment, then flags; what nobody sets is the system's own default.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..assemble import AgentSpec, RoleSpec
    from ..config import Config


TOP_LEVEL = ("model", "system", "index", "prompts", "protocol", "style", "calibration")
"""Settings without a section that have an option; those with a section are recognised by the dot."""


def add_agent_options(parser: argparse.ArgumentParser) -> None:
    add_resource_options(parser)
    agent = parser.add_argument_group("agent")
    agent.add_argument("--system", metavar="NAME", help="coda (default), another system's name, or path.py:Class")
    agent.add_argument("-k", dest="search.k", type=int, metavar="N", help="documents per search")
    add_system_options(agent)
    agent.add_argument(
        "--abstain",
        action=argparse.BooleanOptionalAction,
        help="allow the answer 'unknown' (default: if the model's adapter was trained to say it)",
    )
    agent.add_argument(
        "--only-supported", action="store_true", help="say 'unknown' in place of an answer that no document supports"
    )
    agent.add_argument("--votes", type=int, default=1, metavar="N", help="answer up to N times; the majority decides")
    agent.add_argument(
        "--egress",
        dest="tools.egress",
        choices=("private", "public", "adaptive"),
        help="what may leave the machine (systems with tools)",
    )
    agent.add_argument(
        "--tools",
        dest="tools.use",
        action="append",
        metavar="TOOL",
        help="a tool of your own: mcp:COMMAND, mcp:http://HOST/PATH or path.py:function; repeatable",
    )
    agent.add_argument(
        "--prompts",
        metavar="SET|FOLDER",
        help="full or compact (default: the model's), or a folder of prompt files, or of one for each system",
    )
    agent.add_argument("--protocol", choices=("tags", "tools"), help="act by tags, or by an endpoint's tool calls")
    sampling = parser.add_argument_group("sampling and limits")
    sampling.add_argument("--temperature", dest="sampling.temperature", type=float, metavar="T")
    sampling.add_argument("--top-p", dest="sampling.top_p", type=float, metavar="P")
    sampling.add_argument("--max-tokens", dest="sampling.max_tokens", type=int, metavar="N", help="tokens of one turn")
    sampling.add_argument("--max-turns", dest="limits.turns", type=int, metavar="N", help="turns of each context")
    sampling.add_argument("--max-calls", dest="limits.calls", type=int, metavar="N", help="model calls of the episode")
    sampling.add_argument(
        "--max-total-tokens", dest="limits.tokens", type=int, metavar="N", help="tokens of the episode"
    )
    sampling.add_argument(
        "--max-seconds", dest="limits.seconds", type=float, metavar="S", help="seconds of the episode"
    )
    sampling.add_argument("--max-cost", dest="limits.cost", type=float, metavar="C", help="cost of the episode")
    sampling.add_argument(
        "--max-thought", dest="limits.thought", type=int, metavar="N", help="tokens of a turn whose thought goes on"
    )
    sampling.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="ROLE.KEY=VALUE",
        help="for one role, such as planner.temperature=0.7",
    )


def add_system_options(parser: argparse._ActionsContainer) -> None:
    """Which variant of a system it is (`settings_from`)."""
    parser.add_argument("--preset", default="", metavar="NAME", help="a named variant of the system")
    parser.add_argument("--depth", type=int, metavar="N", help="levels of sub-tasks (CoDA)")
    parser.add_argument("--no-refine", action="store_true", help="executors do not distil documents (CoDA)")
    parser.add_argument("--parallel", action="store_true", help="independent sub-questions at the same time (APEX)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="any other setting of the system"
    )


def add_resource_options(parser: argparse.ArgumentParser) -> None:
    """The model and what is searched, for agents whose other settings come from elsewhere (a study's variants)."""
    group = parser.add_argument_group("model and search")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="embedded, qwen-1.5b, qwen-0.5b (default: the largest that is here and has an adapter), gguf:PATH, "
        "torch:PATH, openai:NAME[@URL], http://HOST/v1#NAME; planner=…,executor=…",
    )
    group.add_argument(
        "--adapter",
        dest="engine.adapter",
        metavar="FILE",
        help="LoRA in GGUF form for embedded, gguf and torch models; none for none",
    )
    group.add_argument("--index", metavar="PATH", help="what to search: an index folder or a search server's URL")
    group.add_argument(
        "--mode",
        dest="search.mode",
        choices=("auto", "bm25", "dense", "hybrid", "linked"),
        help="how to search the index",
    )
    group.add_argument("--config", metavar="FILE", help="settings file (default: the nearest subquest.toml)")
    group.add_argument("--no-cache", action="store_true", help="do not use the cache, even where it is configured")


def config_from(args: argparse.Namespace) -> Config:
    """The settings in force. The destination of an option above is the key of the setting that it overrides."""
    from ..config import load_config

    flags = {key: value for key, value in vars(args).items() if "." in key or key in TOP_LEVEL}
    return load_config(args.config, flags=flags)


def spec_from(args: argparse.Namespace, config: Config | None = None) -> AgentSpec:
    """The agent that the options describe; `config` where it has been loaded already."""
    from ..assemble import AgentSpec

    more = {
        "preset": args.preset,
        "settings": settings_from(args),
        "roles": roles_from(args),
        "votes": args.votes,
        "abstain": args.abstain,
        "only_supported": args.only_supported,
        "files": tuple(getattr(args, "file", ())),
        **({"cache": None} if args.no_cache else {}),
    }
    spec = AgentSpec.from_config(config or config_from(args), **more)
    _refuse_useless_adapter(vars(args).get("engine.adapter"), spec)
    return spec


def _refuse_useless_adapter(adapter: str | None, spec: AgentSpec) -> None:
    """Refuse an adapter for endpoints alone: it would be ignored. One in the settings is for models that take it."""
    from ..config import split_models

    models = split_models(spec.model) if isinstance(spec.model, str) else spec.model or {"": "embedded"}
    if adapter and adapter != "none" and all(re.match(r"(https?|openai|litellm):", name) for name in models.values()):
        raise UsageError(
            f"--adapter {adapter}: an endpoint runs the adapters that its server has loaded; leave it out and name one "
            "as the model (http://HOST:PORT/v1#NAME), or run a model in this process (--model qwen-1.5b)"
        )


def refuse_no_index(spec: AgentSpec) -> None:
    """Refuse to ask a system that searches if there is nothing to search, and no file or tool to find it by instead."""
    if not spec.files and not spec.tools and (problem := _no_index([spec.system], spec.index)):
        raise UsageError(problem)


def warn_of_no_index(systems: Sequence[str], index: str | None) -> None:
    """Say so where systems search and there is nothing to search: they would answer from memory at best."""
    if problem := _no_index(systems, index):
        print(f"subquest: {problem}", file=sys.stderr)


def _no_index(systems: Sequence[str], index: str | None) -> str:
    from ..systems.registry import needs_search

    searching = [] if index else [name for name in systems if needs_search(name)]
    if not searching:
        return ""
    return (
        f"{searching[0]} searches, and there is nothing to search: give --index PATH (make one with: "
        "subquest index build FOLDER --out docs.sq), or use --system direct, which answers from memory"
    )


def warn_of_untrained(systems: Sequence[str], spec: AgentSpec) -> None:
    """Say so where a model is to run systems that it, or its adapter, was not trained for."""
    from ..assemble.suitability import untaught, untrained_embedded

    reasons = [reason for name in systems if (reason := untrained_embedded(name))]
    if reasons and spec.model in ("embedded", "smollm2"):
        print(f"subquest: {reasons[0]}: give a stronger one with --model", file=sys.stderr)
    reasons = [reason for name in systems if (reason := untaught(name, spec.model))]
    if reasons and spec.engine.adapter is None:
        print(f"subquest: {reasons[0]}, which runs on the model as published", file=sys.stderr)


def warn_of_untrained_tools(spec: AgentSpec) -> None:
    """Say so where the embedded model is to call tools, which it has not learnt."""
    if spec.tools and spec.model in ("embedded", "smollm2"):
        print("subquest: the embedded model was not trained to call tools: give a stronger one with --model",
              file=sys.stderr)  # fmt: skip


def roles_from(args: argparse.Namespace) -> dict[str, RoleSpec]:
    """Sampling and limits by role, from `--role planner.temperature=0.7`."""
    from ..assemble import RoleSpec
    from ..config import KEYS, parse_setting
    from ..limits import Limits

    sections = {
        key.partition(".")[2]: key.partition(".")[0] for key in KEYS if key.startswith(("sampling.", "limits."))
    }
    given: dict[str, dict[str, dict[str, Any]]] = {}
    for text in args.role:
        place, equals, value = text.partition("=")
        role, dot, name = place.strip().partition(".")
        if not (role and dot and equals) or name not in sections:
            raise UsageError(f"--role {text!r}: write ROLE.KEY=VALUE with KEY one of {', '.join(sections)}")
        section = given.setdefault(role, {"sampling": {}, "limits": {}})[sections[name]]
        section[name] = parse_setting(f"{sections[name]}.{name}", value, f"--role {text!r}")
    return {role: RoleSpec(sampling=own["sampling"], limits=Limits(**own["limits"])) for role, own in given.items()}


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
    for pair in args.set:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"--set {pair!r}: write KEY=VALUE")
        settings[key.strip()] = _value(value)
    return settings


def _value(text: str) -> Any:
    """true, false, null and numbers as what they are; everything else is text."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    return text if isinstance(value, list | dict) else value
