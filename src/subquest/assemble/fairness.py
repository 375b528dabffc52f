"""Fair comparisons: systems differ in what the comparison names, and in nothing else.

Each system has the settings of its paper: CoDA reads 3 documents per search and DECOR 5, Search-o1 samples where the
others decode greedily. Side by side, that would compare settings. So systems that are evaluated together share the
settings of the first one, and a study must name every difference between its variants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine.interface import Sampling

if TYPE_CHECKING:
    from ..runtime.system import System

SETTINGS = ("k", "turns", "document_tokens", "force")
"""Settings that mean the same in every system that has them."""
DECODING = ("temperature", "top_p", "top_k", "min_p", "max_tokens")


def effective_settings(system: System[Any]) -> dict[str, Any]:
    """What a system runs with, as far as systems can be compared by it: settings, decoding, votes, prompts."""
    settings = {name: getattr(system.settings, name) for name in SETTINGS if hasattr(system.settings, name)}
    settings |= {name: getattr(system, name) for name, value in settings.items() if value is None}  # its dialect's
    samplings = {role: system.setup(role).sampling for role in system.roles}
    for name in DECODING:
        values = {role: getattr(sampling, name) for role, sampling in samplings.items()}
        settings[name] = next(iter(values.values())) if len(set(values.values())) == 1 else values
    return {**settings, "votes": system.votes, "abstain": system.abstain, "prompts": system.prompt_set}


def shared_settings(first: System[Any]) -> dict[str, Any]:
    """The settings and the decoding of a system that all others are to share with it."""
    found = effective_settings(first)
    names = (name for name in (*SETTINGS, *DECODING) if name in found)
    return {name: found[name] for name in names if not isinstance(found[name], dict)}


def split_shared(kind: type[System[Any]], shared: Mapping[str, Any]) -> tuple[dict[str, Any], Sampling]:
    """Shared values as those settings that a system has, and as its decoding."""
    known = {field.name for field in dataclasses.fields(kind.Settings)}
    settings = {name: shared[name] for name in SETTINGS if name in known and name in shared}
    sampling = {name: shared[name] for name in DECODING if name in shared}
    return settings, dataclasses.replace(kind.sampling, **sampling)


def find_differences(systems: Mapping[str, System[Any]], named: Mapping[str, Iterable[str]]) -> list[str]:
    """Shared settings in which systems differ, beyond those that are named for each of them."""
    found = {name: effective_settings(system) for name, system in systems.items()}
    allowed = {name: set(given) for name, given in named.items()}
    out = []
    for key in sorted({key for values in found.values() for key in values}):
        values = {name: v[key] for name, v in found.items() if key in v and key not in allowed.get(name, ())}
        if len({repr(value) for value in values.values()}) > 1:
            out.append(f"{key}: " + ", ".join(f"{name} has {value!r}" for name, value in values.items()))
    return out
