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
    from .engine.actions import Action
    from .engine.embedded import EmbeddedEngine
    from .engine.interface import Engine, Generation, Message, Sampling, Session
    from .engine.openai import OpenAIEngine
    from .engine.scripted import ScriptedEngine
    from .errors import EngineError, EpisodeFailed, OutsideError, SearchError, SubquestError, UsageError
    from .events import Event
    from .limits import Limits
    from .record import Document, Episode, Evidence, Hit, Question, Segment, Step, Trajectory, Usage
    from .retrieval.index import Index
    from .retrieval.search import Search
    from .rewards import Reward
    from .runs import RunStore
    from .runtime.answering import conclude
    from .runtime.context import Context, LimitReached
    from .runtime.evidence import Finding
    from .runtime.run import Answer, Run
    from .runtime.system import System
    from .runtime.turn import Turn
    from .shortcuts import Evaluation, ask, compare
    from .systems.apex import APEX
    from .systems.apex import APEX as Apex
    from .systems.coda import CoDA
    from .systems.decor import DECOR
    from .systems.decor import DECOR as Decor
    from .systems.hira import HiRA

_MODULES: dict[str, str] = {
    "APEX": "systems.apex",
    "Action": "engine.actions",
    "Answer": "runtime.run",
    "AgentSpec": "assemble",
    "CoDA": "systems.coda",
    "Context": "runtime.context",
    "DECOR": "systems.decor",
    "Document": "record",
    "EmbeddedEngine": "engine.embedded",
    "Engine": "engine.interface",
    "EngineError": "errors",
    "Episode": "record",
    "EpisodeFailed": "errors",
    "Evaluation": "shortcuts",
    "Event": "events",
    "Evidence": "record",
    "Finding": "runtime.evidence",
    "Generation": "engine.interface",
    "HiRA": "systems.hira",
    "Hit": "record",
    "Index": "retrieval.index",
    "LimitReached": "runtime.context",
    "Limits": "limits",
    "Message": "engine.interface",
    "OpenAIEngine": "engine.openai",
    "OutsideError": "errors",
    "Question": "record",
    "Reward": "rewards",
    "Run": "runtime.run",
    "RunStore": "runs",
    "Sampling": "engine.interface",
    "ScriptedEngine": "engine.scripted",
    "SearchError": "errors",
    "Search": "retrieval.search",
    "Segment": "record",
    "Session": "engine.interface",
    "Step": "record",
    "SubquestError": "errors",
    "System": "runtime.system",
    "Trajectory": "record",
    "Turn": "runtime.turn",
    "Usage": "record",
    "UsageError": "errors",
    "ask": "shortcuts",
    "compare": "shortcuts",
    "conclude": "runtime.answering",
    "open_agent": "assemble",
}
_EARLIER: dict[str, str] = {"Apex": "APEX", "Decor": "DECOR"}
"""Names of 0.1, still importable: classes are now spelled as the papers spell their systems."""

__all__ = [
    "APEX",
    "DECOR",
    "Action",
    "AgentSpec",
    "Answer",
    "Apex",
    "CoDA",
    "Context",
    "Decor",
    "Document",
    "EmbeddedEngine",
    "Engine",
    "EngineError",
    "Episode",
    "EpisodeFailed",
    "Evaluation",
    "Event",
    "Evidence",
    "Finding",
    "Generation",
    "HiRA",
    "Hit",
    "Index",
    "LimitReached",
    "Limits",
    "Message",
    "OpenAIEngine",
    "OutsideError",
    "Question",
    "Reward",
    "Run",
    "RunStore",
    "Sampling",
    "ScriptedEngine",
    "Search",
    "SearchError",
    "Segment",
    "Session",
    "Step",
    "SubquestError",
    "System",
    "Trajectory",
    "Turn",
    "Usage",
    "UsageError",
    "__version__",
    "ask",
    "compare",
    "conclude",
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
    current = _EARLIER.get(name, name)
    if current not in _MODULES:
        raise AttributeError(f"module 'subquest' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_MODULES[current]}", __name__), current)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
