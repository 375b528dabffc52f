"""The systems by name, so that a command line or a config file can ask for one.

get("coda")                 one of ours, imported when asked for
get("my-system")            of an installed package, by its entry point in the group `subquest.systems`
get("path/to/file.py:Mine") a class in a file of the user's
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, suggest

if TYPE_CHECKING:
    from .base import System

GROUP = "subquest.systems"
"""Entry-point group in which packages register systems of their own."""

_OURS: dict[str, str] = {
    "coda": "coda:CoDA",
    "decor": "decor:Decor",
    "apex": "apex:Apex",
    "hira": "hira:HiRA",
    "direct": "baselines.direct:Direct",
    "cot": "baselines.cot:ChainOfThought",
    "rag": "baselines.rag:NaiveRag",
    "ircot": "baselines.ircot:IRCoT",
    "react": "baselines.react:ReAct",
    "plan-and-solve": "baselines.plan_and_solve:PlanAndSolve",
    "search-o1": "baselines.search_o1:SearchO1",
    "search-r1": "baselines.search_r1:SearchR1",
    "autorefine": "baselines.autorefine:AutoRefine",
    "research": "baselines.dialects:ReSearch",
    "recall": "baselines.dialects:ReCall",
    "r1-searcher": "baselines.dialects:R1Searcher",
    "zerosearch": "baselines.zerosearch:ZeroSearch",
    "simpledeepsearcher": "baselines.dialects:SimpleDeepSearcher",
    "stepsearch": "baselines.dialects:StepSearch",
    "o2-searcher": "baselines.o2_searcher:O2Searcher",
    "search-agent": "baselines.agent:SearchAgent",
    "truncation": "baselines.truncation:Truncation",
    "webthinker": "baselines.alone:WebThinker",
    "codeact": "baselines.alone:CodeAct",
    "multimodal": "baselines.alone:MultimodalEnhanced",
    "react-tools": "baselines.react_tools:ReActTools",
    "plan-experts": "baselines.plan_experts:PlanExperts",
}
"""Name to `module:Class`, the module below this package."""
_FROM_MEMORY = frozenset({"direct", "cot"})
"""Those of ours that answer from what the model has learnt."""


def names() -> list[str]:
    """Every system that `get` knows by name: ours first, then those of installed packages."""
    return [*_OURS, *(name for name in sorted(_installed()) if name not in _OURS)]


def get(name: str) -> type[System[Any]]:
    """The class of a system. Raises UsageError where there is none, with the nearest name."""
    from .base import System

    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        found = getattr(importlib.import_module(f".{module}", __package__), attribute)
    elif ".py:" in name:
        found = load_file(name)
    elif name in (installed := _installed()):
        try:
            found = installed[name].load()
        except (ImportError, AttributeError) as error:
            raise UsageError(f"system {name!r} ({installed[name].value}) cannot be imported: {error}") from error
    else:
        hint = suggest(name, names(), f"there are {', '.join(names())}, and path.py:Class")
        if name.endswith(".py"):
            hint = f"name its class too, as {name}:Class"
        raise UsageError(f"there is no system {name!r}; {hint}")
    if not (isinstance(found, type) and issubclass(found, System)):
        raise UsageError(f"system {name!r}: {found!r} is not a subclass of subquest.systems.base.System")
    return found


def needs_search(name: str) -> bool:
    """Whether it is one of our systems that can do nothing without a search.

    Systems with tools may find what they need elsewhere, and what a system of the user's needs only its author knows.
    """
    return name in _OURS and name not in _FROM_MEMORY and not get(name).uses_tools


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def load_file(name: str) -> Any:
    """What `path.py:Name` names."""
    place, _, attribute = name.rpartition(":")
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"system {name!r}: there is no file {place}")
    module_name = f"subquest_user:{path}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"system {name!r}: {place} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise UsageError(f"system {name!r}: {place} does not load: {type(error).__name__}: {error}") from error
    found = getattr(sys.modules[module_name], attribute, None)
    if found is None:
        raise UsageError(f"system {name!r}: {place} defines no {attribute!r}")
    return found
