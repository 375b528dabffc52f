"""The options that every command with an agent shares, and the spec that they describe.

Settings come from `subquest.toml`, then the environment, then flags; what nobody sets is the system's own default.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError

if TYPE_CHECKING:
    from ..assemble import AgentSpec, RoleSpec
    from ..config import Config

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
    add_resource_options(parser)
    agent = parser.add_argument_group("agent")
    agent.add_argument("--system", metavar="NAME", help="coda (default), another system's name, or path.py:Class")
    agent.add_argument("-k", type=int, metavar="N", help="documents per search")
    agent.add_argument("--preset", default="", metavar="NAME", help="a named variant of the system")
    agent.add_argument("--depth", type=int, metavar="N", help="levels of sub-tasks (CoDA)")
    agent.add_argument("--no-refine", action="store_true", help="executors do not distil documents (CoDA)")
    agent.add_argument("--parallel", action="store_true", help="independent sub-questions at the same time (APEX)")
    agent.add_argument("--abstain", action="store_true", help="allow the answer 'unknown'")
    agent.add_argument("--votes", type=int, default=1, metavar="N", help="answer up to N times; the majority decides")
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
        "--role",
        action="append",
        default=[],
        metavar="ROLE.KEY=VALUE",
        help="for one role, such as planner.temperature=0.7",
    )


def add_resource_options(parser: argparse.ArgumentParser) -> None:
    """The model and what is searched, for agents whose other settings come from elsewhere (a study's variants)."""
    group = parser.add_argument_group("model and search")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="embedded (default), gguf:PATH, torch:PATH, openai:NAME[@URL], http://HOST/v1#NAME; planner=…,executor=…",
    )
    group.add_argument(
        "--adapter", metavar="FILE", help="LoRA in GGUF form for embedded, gguf and torch models; none for none"
    )
    group.add_argument("--index", metavar="PATH", help="what to search: an index folder or a search server's URL")
    group.add_argument("--mode", choices=("auto", "bm25", "dense", "hybrid", "linked"), help="how to search the index")
    group.add_argument("--config", metavar="FILE", help="settings file (default: the nearest subquest.toml)")
    group.add_argument("--no-cache", action="store_true", help="do not use the cache, even where it is configured")


def config_from(args: argparse.Namespace) -> Config:
    from ..config import load_config

    flags = {key: getattr(args, option, None) for option, key in FLAGS.items()}
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
        "files": tuple(getattr(args, "file", ())),
        **({"cache": None} if args.no_cache else {}),
    }
    return AgentSpec.from_config(config or config_from(args), **more)


def warn_of_no_index(systems: Sequence[str], index: str | None) -> None:
    """Say so where systems search and there is nothing to search: they would answer from memory at best."""
    from ..systems.registry import needs_search

    if not index and (searching := [name for name in systems if needs_search(name)]):
        print(
            f"subquest: {searching[0]} searches, and there is nothing to search: give --index PATH (make one with: "
            "subquest index build FOLDER --out docs.sq), or use --system direct, which answers from memory",
            file=sys.stderr,
        )


def warn_of_untrained(systems: Sequence[str], model: str | None) -> None:
    """Say so where the embedded model is to run a system that it was not trained for: it is slow and answers badly."""
    from ..models import TRAINED_SYSTEMS

    untrained = [name for name in systems if name not in (*TRAINED_SYSTEMS, "direct", "cot")]
    if untrained and model in (None, "embedded"):
        print(
            f"subquest: the embedded model was trained for {', '.join(TRAINED_SYSTEMS)}; for {untrained[0]} it is too "
            "small: give a stronger one with --model",
            file=sys.stderr,
        )


_SAMPLING = {"temperature": float, "top_p": float, "top_k": int, "max_tokens": int}
_LIMITS = {"turns": int, "tokens": int, "calls": int, "seconds": float, "cost": float, "thought": int}


def roles_from(args: argparse.Namespace) -> dict[str, RoleSpec]:
    """Sampling and limits by role, from `--role planner.temperature=0.7`."""
    from ..assemble import RoleSpec
    from ..config import check_setting
    from ..limits import Limits

    kinds: dict[str, type] = {**_SAMPLING, **_LIMITS}
    sampling: dict[str, dict[str, Any]] = {}
    limits: dict[str, dict[str, Any]] = {}
    for text in args.role:
        place, equals, value = text.partition("=")
        role, dot, key = place.strip().partition(".")
        if not (role and dot and equals) or key not in kinds:
            raise UsageError(f"--role {text!r}: write ROLE.KEY=VALUE with KEY one of {', '.join(kinds)}")
        try:
            number = kinds[key](value)
        except ValueError:
            raise UsageError(f"--role {text!r}: {key} needs a number") from None
        section, given = ("sampling", sampling) if key in _SAMPLING else ("limits", limits)
        given.setdefault(role, {})[key] = check_setting(f"{section}.{key}", number, f"--role {text!r}")
    return {
        role: RoleSpec(sampling=sampling.get(role, {}), limits=Limits(**limits.get(role, {})))
        for role in (*sampling, *limits)
    }


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
        if not equals:
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
