"""Systems by name, so that a command line or a config file can ask for one, and what is declared beside them.

    get("coda")                  one of ours: a folder of this package, imported when asked for
    get("search-r1")             one of ours that shares a folder with others, listed in its `catalog`
    get("my-system")             from an installed package, by its entry point in the group `subquest.systems`
    get("path/to/file.py:Mine")  a class in a file of the user's

A system's folder also holds what training needs: `reward.py` (tables `REWARDS`, `LOSSES` and `BASELINES`) and
`teacher.py` (`TEACHERS`), all keyed by name. `declared` reads them; nothing has to be registered elsewhere.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UsageError, suggest
from ..runtime.system import System

GROUP = "subquest.systems"
"""Entry-point group in which packages register systems of their own."""
FOLDER = Path(__file__).parent
_USER = "subquest_user:"
"""Begins the names of modules that are loaded from a user's file."""


def names() -> list[str]:
    """Every system that `get` knows by name: ours first, then those of installed packages."""
    ours = _ours()
    return [*ours, *(name for name in sorted(_installed()) if name not in ours)]


def get(name: str) -> type[System[Any]]:
    """The class of a system. Raises UsageError if there is none, with the nearest name."""
    if not isinstance(name, str):
        raise UsageError(f"a system has a name, such as 'coda'; {name!r:.80} is none")
    ours = _ours()
    if name in ours:
        module, _, attribute = ours[name].partition(":")
        package = importlib.import_module(f".{module}", __package__)
        found: Any = getattr(package, attribute) if attribute else _class_named(name, package)
    elif ".py:" in name:
        found = load_object(name)
    elif name in (installed := _installed()):
        try:
            found = installed[name].load()
        except (ImportError, AttributeError) as error:
            raise UsageError(f"system {name!r} ({installed[name].value}) cannot be imported: {error}") from error
    elif name.endswith(".py"):
        raise UsageError(f"there is no system {name!r}; name its class too, as {name}:Class")
    else:
        otherwise = f"there are {', '.join(names())}, and path.py:Class"
        raise UsageError(f"there is no system {name!r}; {suggest(name, names(), otherwise)}")
    if not (isinstance(found, type) and issubclass(found, System)):
        raise UsageError(f"system {name!r}: {found!r} is not a subclass of subquest.System")
    return found


def needs_search(name: str) -> bool:
    """Whether it is one of our systems that can do nothing without a search.

    Systems with tools may find what they need elsewhere, and only its author knows what a user's system needs.
    """
    return name in _ours() and get(name).reads and not get(name).uses_tools


def declared(file: str, table: str, system: str = "") -> dict[str, Any]:
    """The entries of a table that systems declare in a file of their folders, by name: `declared("reward", "LOSSES")`.

    Ours, and with `system` those of one from elsewhere too, which may declare its tables in the file of the class.
    """
    found: dict[str, Any] = {}
    for folder in _folders():
        if (FOLDER / folder / f"{file}.py").is_file():
            found |= getattr(importlib.import_module(f".{folder}.{file}", __package__), table, {})
    if ".py:" in system or (system in _installed() and system not in _ours()):
        kind = get(system)
        own = _beside(kind, file, table)
        found |= own
        if kind.name in own:  # a recipe names the system by its path or entry point
            found[system] = own[kind.name]
    return found


def load_object(name: str, what: str = "system") -> Any:
    """What `path.py:Name` names; `what` is for the error message."""
    place, _, attribute = name.rpartition(":")
    module = _load_file(Path(place), f"{what} {name!r}")
    if not hasattr(module, attribute):
        raise UsageError(f"{what} {name!r}: {place} defines no {attribute!r}")
    return getattr(module, attribute)


@functools.cache
def _ours() -> dict[str, str]:
    """Our systems by name: the module below this package, and the class where the module holds several."""
    found: dict[str, str] = {}
    catalogs = []
    for folder in _folders():
        if (FOLDER / folder / "catalog.py").is_file():
            catalogs.append(folder)
        else:
            found[folder.replace("_", "-")] = folder
    for folder in catalogs:
        catalog = importlib.import_module(f".{folder}.catalog", __package__)
        found |= {name: f"{folder}.{place}" for name, place in catalog.SYSTEMS.items()}
    return found


@functools.cache
def _folders() -> tuple[str, ...]:
    return tuple(sorted(file.parent.name for file in FOLDER.glob("*/__init__.py")))


def _class_named(name: str, module: ModuleType) -> Any:
    kinds = (kind for kind in vars(module).values() if isinstance(kind, type) and issubclass(kind, System))
    return next((kind for kind in kinds if kind.name == name), None)


def _beside(kind: type[System[Any]], file: str, table: str) -> dict[str, Any]:
    """A table in the module of a class, or in a file beside it."""
    module = sys.modules[kind.__module__]
    path = Path(inspect.getfile(kind)).parent / f"{file}.py"
    if hasattr(module, table) or not path.is_file():
        return dict(getattr(module, table, {}))
    if kind.__module__.startswith(_USER):
        beside = _load_file(path, f"{file} of {kind.name}")
    else:
        beside = importlib.import_module(f"{module.__package__}.{file}")
    return dict(getattr(beside, table, {}))


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load_file(place: Path, what: str) -> ModuleType:
    """The module in a file; loaded once."""
    path = place.expanduser().resolve()
    if not path.is_file():
        raise UsageError(f"{what}: there is no file {place}")
    name = f"{_USER}{path}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise UsageError(f"{what}: {place} is not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # where dataclasses and pickle look for what the file defines
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise UsageError(f"{what}: {place} does not load: {type(error).__name__}: {error}") from error
    return sys.modules[name]
