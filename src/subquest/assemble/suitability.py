"""Which systems suit a model, for people who choose both."""

from __future__ import annotations

from collections.abc import Mapping

from ..engine.interface import Engine, HasAdapter
from ..models import TRAINED_SYSTEMS, default_adapter
from ..record import Style
from ..runtime.prompts import prompt_set_of
from ..runtime.report_writer import ROLES as REPORT_ROLES
from ..systems.registry import get

_UNTAUGHT = ("direct", "cot")
"""Systems of one call, which an adapter does not spoil."""


def untrained_embedded(system: str) -> str:
    """Why a system does not suit the embedded model; empty if it does."""
    if system in (*TRAINED_SYSTEMS, *_UNTAUGHT):
        return ""
    return f"the embedded model was trained for {', '.join(TRAINED_SYSTEMS)}; for {system} it is too small"


def untaught(system: str, model: str | Mapping[str, str]) -> str:
    """Why a system does not suit the adapter that ships with a known model, which follows prompts without it; empty if
    it does, and for other models."""
    known = _with_adapter(model)
    if not known or system in _UNTAUGHT or issubclass(get(system), tuple(map(get, TRAINED_SYSTEMS))):
        return ""
    return f"the adapter of {known} was trained for {', '.join(TRAINED_SYSTEMS)}, and not for {system}"


def fitting(
    system: str, style: Style, model: str | Mapping[str, str], engines: Mapping[str, Engine]
) -> Mapping[str, Engine]:
    """The engines of a system's roles, without the adapter that ships with a known model where it has learnt something
    else: short answers, by the systems that it was trained for."""
    if not _with_adapter(model):
        return engines
    if untaught(system, model):
        return {role: _without_adapter(engine) for role, engine in engines.items()}
    return engines if style == "short" else {**dict.fromkeys(REPORT_ROLES, _without_adapter(engines[""])), **engines}


def _with_adapter(model: str | Mapping[str, str]) -> str:
    """The known model that runs with an adapter by default and follows prompts without it, too; empty for others."""
    known = model.removeprefix("torch:") if isinstance(model, str) else ""
    return known if known != "smollm2" and default_adapter(known) is not None else ""


def _without_adapter(engine: Engine) -> Engine:
    return engine.without_adapter() if isinstance(engine, HasAdapter) else engine


def has_adapter(engine: Engine) -> bool:
    """Whether a model runs with an adapter, which may have taught it any system."""
    return isinstance(engine, HasAdapter) and engine.has_adapter


def unsuited(system: str, engine: Engine) -> str:
    """Why a system does not suit a model; empty if it does, or if nothing is known about it."""
    if engine.name.partition("+")[0] == "embedded":
        return untrained_embedded(system)
    if get(system).needs_training and prompt_set_of(engine) == "full" and not has_adapter(engine):
        return f"{system} is made for a model that was trained on its format; this one only follows its prompt"
    return ""
