"""A comparison of systems differs in the systems and in what it names, and in nothing else.

Each system has the settings of its paper: CoDA reads 3 documents a search and DECOR 5, Search-o1 samples where the
others decode greedily. Side by side that would compare settings. So where several systems are evaluated together they
share those of the first one, and a study must name every difference between its variants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ..engine import Sampling
from ..runtime.system import System

SHARED = ("k", "turns", "document_tokens", "force")
"""Settings that mean the same in every system that has them."""
SAMPLED = ("temperature", "top_p", "top_k", "min_p", "max_tokens")


def effective(system: System[Any]) -> dict[str, Any]:
    """What a system really runs with, as far as systems can be compared by it: settings, decoding, votes, prompts."""
    settings = {name: getattr(system.settings, name) for name in SHARED if hasattr(system.settings, name)}
    settings |= {name: getattr(system, name) for name, value in settings.items() if value is None}  # its dialect's
    samplings = {role: system.setup(role).sampling for role in system.roles}
    for name in SAMPLED:
        values = {role: getattr(sampling, name) for role, sampling in samplings.items()}
        settings[name] = next(iter(values.values())) if len(set(values.values())) == 1 else values
    return {**settings, "votes": system.votes, "abstain": system.abstain, "prompts": system.prompt_set}


def level(first: System[Any]) -> dict[str, Any]:
    """The settings and the decoding of a system that all others are to share with it."""
    found = effective(first)
    return {name: found[name] for name in (*SHARED, *SAMPLED) if name in found and not isinstance(found[name], dict)}


def levelled(kind: type[System[Any]], values: Mapping[str, Any]) -> tuple[dict[str, Any], Sampling]:
    """Shared values as the settings that a system has of them, and as its decoding."""
    known = {field.name for field in dataclasses.fields(kind.Settings)}
    settings = {name: values[name] for name in SHARED if name in known and name in values}
    sampling = {name: values[name] for name in SAMPLED if name in values}
    return settings, dataclasses.replace(kind.sampling, **sampling)


def differences(systems: Mapping[str, System[Any]], named: Mapping[str, Iterable[str]]) -> list[str]:
    """Settings in which systems differ that they share, beyond those that each of them names for itself."""
    found = {name: effective(system) for name, system in systems.items()}
    allowed = {name: set(given) for name, given in named.items()}
    out = []
    for key in sorted({key for values in found.values() for key in values}):
        values = {name: v[key] for name, v in found.items() if key in v and key not in allowed.get(name, ())}
        if len({repr(value) for value in values.values()}) > 1:
            out.append(f"{key}: " + ", ".join(f"{name} has {value!r}" for name, value in values.items()))
    return out
