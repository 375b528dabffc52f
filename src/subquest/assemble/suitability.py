"""Which systems suit a model, for people who choose both."""

from __future__ import annotations

from ..engine.interface import Engine, HasAdapter
from ..models import TRAINED_SYSTEMS
from ..runtime.prompts import prompt_set_of
from ..systems.registry import get


def untrained_embedded(system: str) -> str:
    """Why a system does not suit the embedded model; empty if it does."""
    if system in (*TRAINED_SYSTEMS, "direct", "cot"):
        return ""
    return f"the embedded model was trained for {', '.join(TRAINED_SYSTEMS)}; for {system} it is too small"


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
