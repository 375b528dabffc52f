"""Hard questions answered by decoupled planning and execution.

    import subquest as sq

    agent = sq.CoDA(model=sq.embedded(), search=sq.Index.open("docs.sq"))
    episode = agent.ask("Where was the designer of the Orvane Bridge born?")
    episode.answer, episode.evidence, episode.confidence, episode.trajectories, episode.usage

Names are imported when first used, so that `import subquest` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .assemble import AgentSpec, open_agent
    from .engine.base import Engine, Generation, Message, Sampling, Session
    from .engine.embedded import EmbeddedEngine
    from .engine.openai import OpenAIEngine
    from .engine.scripted import ScriptedEngine
    from .errors import OutsideError, SubquestError, UsageError
    from .events import Event
    from .limits import Limits
    from .record import Document, Episode, Evidence, Hit, Question, Segment, Step, Trajectory, Usage
    from .retrieval.index import Index
    from .retrieval.search import Search
    from .runs import RunStore
    from .systems.apex import Apex
    from .systems.base import System
    from .systems.coda import CoDA
    from .systems.decor import Decor
    from .systems.hira import HiRA
    from .systems.runtime import Answer, Run

_PLACES: dict[str, str] = {
    "AgentSpec": "assemble",
    "Answer": "systems.runtime",
    "Apex": "systems.apex",
    "CoDA": "systems.coda",
    "Decor": "systems.decor",
    "Document": "record",
    "EmbeddedEngine": "engine.embedded",
    "Engine": "engine.base",
    "Episode": "record",
    "Event": "events",
    "Evidence": "record",
    "Generation": "engine.base",
    "HiRA": "systems.hira",
    "Hit": "record",
    "Index": "retrieval.index",
    "Limits": "limits",
    "Message": "engine.base",
    "OpenAIEngine": "engine.openai",
    "OutsideError": "errors",
    "Question": "record",
    "Run": "systems.runtime",
    "RunStore": "runs",
    "Sampling": "engine.base",
    "ScriptedEngine": "engine.scripted",
    "Search": "retrieval.search",
    "Segment": "record",
    "Session": "engine.base",
    "Step": "record",
    "SubquestError": "errors",
    "System": "systems.base",
    "Trajectory": "record",
    "Usage": "record",
    "UsageError": "errors",
    "open_agent": "assemble",
}

__all__ = [
    "AgentSpec",
    "Answer",
    "Apex",
    "CoDA",
    "Decor",
    "Document",
    "EmbeddedEngine",
    "Engine",
    "Episode",
    "Event",
    "Evidence",
    "Generation",
    "HiRA",
    "Hit",
    "Index",
    "Limits",
    "Message",
    "OpenAIEngine",
    "OutsideError",
    "Question",
    "Run",
    "RunStore",
    "Sampling",
    "ScriptedEngine",
    "Search",
    "Segment",
    "Session",
    "Step",
    "SubquestError",
    "System",
    "Trajectory",
    "Usage",
    "UsageError",
    "__version__",
    "embedded",
    "open_agent",
    "openai",
    "system",
]


def embedded(**options: Any) -> EmbeddedEngine:
    """The embedded model with the adapter that ships with Subquest, where there is one."""
    from .engine.embedded import EmbeddedEngine

    return EmbeddedEngine(**{"adapter": "default", **options})


def openai(model: str, **options: Any) -> OpenAIEngine:
    """A model behind an OpenAI-compatible endpoint; `OPENAI_BASE_URL` and `OPENAI_API_KEY` are honoured."""
    from .engine.openai import OpenAIEngine

    return OpenAIEngine(model, **options)


def system(name: str) -> type[System[Any]]:
    """A system's class by name: one of ours, of an installed package, or `path.py:Class`."""
    from .systems.registry import get

    return get(name)


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'subquest' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_PLACES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
