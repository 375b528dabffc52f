"""The agents a server offers: systems by name, on models by name, over indexes by name.

In OpenAI's protocol an agent is a model: `subquest-coda`, or `subquest-coda@small` where the server has more models
than one. A request names what the server has; it can never bring a path, an address or code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..engine import Engine
from ..errors import suggest
from ..retrieval.base import Search
from ..runtime.system import System
from .bodies import Problem
from .episode_view import Piece
from .indexes import Indexes
from .replay import ReplayLog

PREFIX = "subquest-"
Make = Callable[[str, Mapping[str, Engine], Search | None], System[Any]]
"""Builds a system by its name, with the server's own settings."""


class Agents:
    """Systems, built when they are first asked for."""

    def __init__(
        self, make: Make, systems: Sequence[str], models: Mapping[str, Mapping[str, Engine]], indexes: Indexes
    ) -> None:
        """The first system and the first model are the defaults."""
        self._make = make
        self.systems = list(systems)
        self.models = list(models)
        self._engines = models
        self.indexes = indexes
        self.journal: ReplayLog | None = None
        """Where episodes write down what they were told; without one they cannot be resumed."""
        self._built: dict[tuple[str, str, str], System[Any]] = {}

    def get(self, system: str = "", model: str = "", index: str = "", *, journal: str = "") -> System[Any]:
        """A system by the names of its parts; `journal` is the name under which it writes down and remembers."""
        system = self._known("system", system, self.systems)
        model = self._known("model", model, self.models)
        search = self.indexes.get(index)
        if journal and self.journal is not None:
            engines = self.journal.engines(journal, self._engines[model])
            return self._make(system, engines, self.journal.search(journal, search))
        key = (system, model, index)
        if key not in self._built or self._built[key].search is not search:
            self._built[key] = self._make(system, self._engines[model], search)
        return self._built[key]

    @property
    def default_engine(self) -> Engine:
        engines = self._engines[self.models[0]]
        return engines.get("") or next(iter(engines.values()))

    def pieces(self, model: str) -> Piece | None:
        """The vocabulary of an engine of the server, by the name that episodes carry; None where it shows none."""
        for engines in self._engines.values():
            for engine in engines.values():
                vocabulary = getattr(engine, "vocabulary", None)
                piece = getattr(vocabulary, "piece", None)
                if engine.name == model and piece is not None:
                    return cast(Piece, piece)
        return None

    def names(self) -> list[str]:
        """Model names in OpenAI's protocol."""
        return [
            PREFIX + system + (f"@{model}" if number else "")
            for system in self.systems
            for number, model in enumerate(self.models)
        ]

    def named(self, name: str) -> tuple[str, str]:
        """System and model behind a name of OpenAI's protocol."""
        system, _, model = name.removeprefix(PREFIX).partition("@")
        if not name.startswith(PREFIX) or system not in self.systems or (model and model not in self.models):
            hint = suggest(name, self.names(), "GET /v1/models lists them", cutoff=0.3)
            raise Problem(404, f"there is no model {name!r}; {hint}", code="model_not_found")
        return system, model

    @staticmethod
    def _known(what: str, name: str, names: list[str]) -> str:
        if not names:
            raise Problem(403, "this server shows stored runs; start `subquest serve` to ask", code="no_asking")
        if name and name not in names:
            raise Problem(400, f"there is no {what} {name!r} here; there are {', '.join(names)}")
        return name or names[0]
