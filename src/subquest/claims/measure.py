"""What a row was measured with: a result counts only for the settings, prompts, weights and recipe it was made with.

A *stamp* says it in full: the system's settings with every default filled in, a digest of its prompts, how it decodes
and searches, and for each role the adapter and, where a training of the book makes it, what that training is. A changed
default, prompt, ranking or recipe gives another stamp, and the stored row is *stale*: shown as such, and run again.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .book import BARE, ORACLE, SHIPPED, Arm, Book, Training
from .ranking import SEARCH, ranking

if TYPE_CHECKING:
    from ..engine.interface import Sampling
    from .results import Results

MAX_TOKENS = 256
"""Longest turn of the model with an adapter: of 2,000 episodes of the shipped one, 1 in 200 has a longer turn."""
BARE_TOKENS = 128
"""Longest turn where a role has no adapter: such a model writes on and on, and says nothing further that counts."""
ORACLE_VERSION = "oracle-2"
"""Counts up when the oracle acts otherwise, so that its rows are run again."""
PLANS_VERSION = 3
"""Counts up when gold plans of an evaluated set are put otherwise, so that plans scored by them are scored again."""
TRAINING_PLANS_VERSION = 2
"""The same for the sets of trainings."""
TUNING = (("rollout", "concurrency"), ("rollout", "cache_tokens"), ("optimiser", "micro_tokens"))
"""Keys of a recipe that say how fast it runs and not what it learns."""
LATER_PROMPTS = ("executor_nested_no_refine.md",)
"""Prompts that came after the first rows and that none of them is asked with: no stamp counts them."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an arm is measured with."""

    measured: Mapping[str, Any]
    weights: Mapping[str, str]
    """Digest of the adapter by role; empty where it is not at hand."""
    recipes: Mapping[str, str] = field(default_factory=dict)
    """Digest of the training by role, where a training of the book makes the adapter."""

    @property
    def key(self) -> str:
        """The same for arms that are the same measurement."""
        return digest(json.dumps([self.measured, dict(self.weights)], sort_keys=True))

    def differs(self, stored: Stamp) -> str:
        """What is not as it was, in words; empty where a stored result counts."""
        was, now = _flat(stored.measured), _flat(self.measured)
        for name in sorted(was.keys() | now.keys()):
            if was.get(name) != now.get(name):
                return f"{name} was {was.get(name)}, is {now.get(name)}"
        for role, recipe in self.recipes.items():
            if stored.recipes.get(role) != recipe:
                return "its training has changed"
        if stored.weights.keys() != self.weights.keys():
            return "its roles have changed"
        if any(have and have != stored.weights[role] for role, have in self.weights.items()):
            return "its weights have changed"
        return ""


class Stamps:
    """The stamps of a book's arms, with the adapters that are at hand."""

    def __init__(self, book: Book, adapters: Mapping[str, str] | None = None, *, model: str = "smollm2") -> None:
        self.book = book
        self.adapters = adapters or {}
        self._model = _model_digest(model)
        self._made: dict[str, Stamp] = {}

    def arrived(self, adapters: Mapping[str, str]) -> None:
        """More adapters are at hand."""
        self.adapters = {**self.adapters, **adapters}
        self._made = {}

    def of(self, arm: Arm) -> Stamp:
        if arm.id not in self._made:
            weights = {role: self._weights(name) for role, name in arm.adapters.items()}
            made = {r: self.book.trainings[name] for r, name in arm.adapters.items() if name in self.book.trainings}
            recipes = {role: known_as(self.book, training) for role, training in made.items()}
            self._made[arm.id] = Stamp(measured(arm), weights, recipes)
        return self._made[arm.id]

    def _weights(self, name: str) -> str:
        if name == ORACLE:
            return ORACLE_VERSION
        if name == BARE:
            return self._model
        if name == SHIPPED and self.book.shipped:
            return f"{self._model}+{self.book.shipped}"
        return f"{self._model}+{file_digest(self.adapters[name])}" if name in self.adapters else ""


def measured(arm: Arm) -> dict[str, Any]:
    """The arm's system as it really runs: settings with every default filled in, prompts, decoding, search."""
    from ..engine.scripted import ScriptedEngine
    from ..evaluate.fingerprint import of_prompts
    from ..runtime.prompts import SHARED, set_folder
    from ..systems.registry import get

    kind: Any = get(arm.system)
    system = kind({"": ScriptedEngine([])}, None, preset=arm.preset, sampling=sampling_of(arm), **arm.settings)
    settings = dataclasses.asdict(system.settings)
    if dialect := getattr(system, "dialect", None):  # the single agents take turns, k and tags from it
        settings |= {"turns": system.turns, "k": system.k}
        settings["dialect"] = digest(repr(dialect))
    sampling = dataclasses.asdict(sampling_of(arm) or kind.sampling)
    return {
        "system": arm.system,
        "settings": settings,
        "prompts": digest(
            of_prompts(set_folder(kind.prompt_folder(), "compact"), without=LATER_PROMPTS),
            of_prompts(SHARED / "compact"),
        ),
        "sampling": {name: list(v) if isinstance(v, tuple) else v for name, v in sampling.items()},
        "search": arm.search or SEARCH,
        "ranking": ranking(),
        "plans": PLANS_VERSION if arm.plans else False,
    }


def sampling_of(arm: Arm) -> Sampling | None:
    """Greedy for all models; the oracle writes what it writes."""
    from ..engine.interface import Sampling

    if arm.oracle:
        return None
    return Sampling(max_tokens=BARE_TOKENS if BARE in arm.adapters.values() else MAX_TOKENS, temperature=0.0)


def known_as(book: Book, training: Training) -> str:
    """The digest of one of the book's trainings."""
    return training_digest(training, book.origins.get(book.start_of(training), ""))


def begun(book: Book, results: Results) -> Book:
    """The book with the starts that its trainings have: the adapters that were made as such, once there are any."""
    recipes = {name: known_as(book, book.trainings[name]) for name in book.starts}
    made = {name: results.training(name, recipe).get("adapter") for name, recipe in recipes.items()}
    return dataclasses.replace(book, origins={name: made[name] or recipe for name, recipe in recipes.items()})


def training_digest(training: Training, start: str) -> str:
    """What a training is: its recipe with the changes of the book, the system's settings in full, what it searches
    with, and the adapter it starts from."""
    table = tomllib.loads(training.recipe.read_text(encoding="utf-8"))
    for key, value in training.set.items():
        place = table
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    for part, key in TUNING:
        table.get(part, {}).pop(key, None)
    table.get("model", {}).pop("adapter", None)  # the start of all
    table.pop("traces", None)  # what the recipe's sources give, made beforehand
    name = table.get("system", "coda")
    settings = {"k": table.get("k", 3), **table.get("settings", {})}
    rolled = measured(Arm(training.id, name, {"": BARE}, settings))
    rolls = [rolled[name] for name in ("settings", "prompts", "search", "ranking")]
    rolls += [TRAINING_PLANS_VERSION] if training.needs_minilm else []
    return digest(json.dumps([table, rolls, start], sort_keys=True))


def digest(*texts: str) -> str:
    return hashlib.sha256("\x1f".join(texts).encode()).hexdigest()[:16]


@functools.cache
def file_digest(place: str) -> str:
    """An adapter by its content: a GGUF file, or PEFT's folder."""
    path = Path(place)
    return digest((path / "adapter_model.safetensors" if path.is_dir() else path).read_bytes().hex())


@functools.cache
def _model_digest(model: str) -> str:
    """The base model: the embedded one by its known checksum, a file by its content, others by name."""
    from ..models import PACKAGES

    if model in PACKAGES:
        return f"{model}-{PACKAGES[model].sha256[:16]}"
    path = Path(model)
    if not path.is_file():
        return model
    with path.open("rb") as file:
        return f"{path.name}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings and decoding by name, beside what stands above them."""
    inner = [v for v in table.values() if isinstance(v, Mapping)]
    return {k: v for k, v in table.items() if not isinstance(v, Mapping)} | {k: v for t in inner for k, v in t.items()}
