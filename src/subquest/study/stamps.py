"""What a result was measured with: it counts only for the settings, prompts, weights and recipe that it was made with.

A *stamp* holds all of it: the system's settings with every default filled in, a digest of its prompts, how it decodes
and searches, and for each role the adapter and, where a training of the study makes it, a digest of that training. A
changed default, prompt, ranking or recipe gives another stamp. The stored row is then *stale*: it is shown as stale and
measured again.

The search is known by what it does: a small index answers a few queries that touch what decides an order (rare and
frequent words, lengths, stems, accents, titles in a query, ties), and the order with its scores is the fingerprint. A
digest of the code would change with every renaming.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ..assemble import AgentSpec, preview_agent
from ..codec import Record
from ..engine import Sampling
from ..train.recipe import TUNING, read_recipe
from .design import BARE, ORACLE, SHIPPED, Study, Training, Variant

MAX_TOKENS = 256
"""Longest turn of the model with an adapter: of 2,000 episodes of the shipped one, 1 in 200 has a longer turn."""
BARE_TOKENS = 128
"""Longest turn where a role has no adapter: such a model does not stop, and adds nothing that counts."""
ORACLE_VERSION = "oracle-2"
"""Counts up when the oracle acts differently, so that its rows are measured again."""
PLANS_VERSION = 3
"""Counts up when gold plans of an evaluated set change, so that plans are scored again."""
TRAINING_PLANS_VERSION = 2
"""The same for the sets that trainings use."""
UNUSED_PROMPTS = (
    "executor_nested_no_refine.md", "outliner.md", "reporter.md", "reporter_sentence.md", "tables.md", "tables_tool.md",
    "given_tools.md", "given_tools_call.md", "given_tools_functions.md", "given_tools_only.md",
    "given_tools_planner.md", "given_tools_tokens.md",
    "toolbox.md", "toolbox_remind.md",
)  # fmt: skip
"""Prompts that no row uses (answers are short, executors are not nested, there are no tables and no tools of users): no
stamp counts them."""


LATER_SETTINGS: Mapping[str, Mapping[str, Any]] = {"coda": {"look_first": False}}
"""Settings that came after rows had been measured, with the value for what was done before: no stamp counts it."""

SEARCH: Final = "auto"
"""How variants with adapters search: BM25, and first the articles that a query names."""
PASSAGES = (
    ("Saevebryd", "Saevebryd is a town in the north of Tarn. It has 4,210 people and a harbour."),
    ("Saevebryd Athletic", "Saevebryd Athletic is a football club in Saevebryd. The club was founded in 1921."),
    ("Saevebryd Airways", "Saevebryd Airways flew from Saevebryd to the islands and was closed in 1988."),
    ("Orla Venn", "Orla Venn was a painter. She was born in Saevebryd and painted harbours and towns."),
    ("Orla Venn (album)", "Orla Venn is an album by Teo Rask. It was recorded in one night."),
    ("Teo Rask", "Teo Rask is a singer of the band Low Harbours. He was born in Málmoe in 1961."),
    ("Málmoe", "Málmoe is a city. Painters and singers live in the city, and the city has a theatre."),
    ("Film", "A film is a series of pictures. Films are shown in a theatre."),
    ("Night Painters", "Night Painters is a film of 1999 about painters at night. Its director is Ida Lorm."),
    ("Ida Lorm", "Ida Lorm directs films. Her first film was Night Painters; she lives in Málmoe."),
    ("Low Harbours", "Low Harbours is a band. The band plays at night."),
    ("Tarn", "Tarn is a country. " + "Its rivers, roads, farms and mills are old. " * 8),
    ("Same", "A passage that is there twice."),
    ("Same", "A passage that is there twice."),
)
QUERIES = (
    "What is the population of Saevebryd?",
    "When was Saevebryd Athletic founded?",
    "Where was Orla Venn born?",
    "Which singer recorded the album Orla Venn in one night?",
    "Who lives in Malmoe?",
    "Which film did Ida Lorm direct?",
    "director of Night Painters",
    "painters and harbours of the north",
    "the city where the singer of Low Harbours was born",
    "country with old mills",
    "a passage that is there twice",
    "of the and in",
)


class Stamp(Record):
    """What a variant is measured with."""

    measured: Mapping[str, Any]
    weights: Mapping[str, str]
    """Digest of the adapter by role; empty where it is not available."""
    recipes: Mapping[str, str] = {}
    """Digest of the training by role, where a training of the study makes the adapter."""

    @property
    def key(self) -> str:
        """The same for variants that are the same measurement."""
        return digest(json.dumps([self.measured, dict(self.weights)], sort_keys=True))

    def differs(self, stored: Stamp) -> str:
        """What has changed, in words; empty where a stored result counts."""
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
    """The stamps of a study's variants, with the adapters that are available."""

    def __init__(self, study: Study, adapters: Mapping[str, str] | None = None, *, model: str = "smollm2") -> None:
        self.study = study
        self.adapters = adapters or {}
        # a folder holds the weights of the study's own model
        self._model = _model_digest(study.model if study.model and Path(model).is_dir() else model)
        self._made: dict[str, Stamp] = {}

    def of(self, variant: Variant) -> Stamp:
        if variant.name not in self._made:
            weights = {role: self._weights(name) for role, name in variant.adapters.items()}
            trainings = self.study.trainings
            recipes = {r: known_as(self.study, trainings[a]) for r, a in variant.adapters.items() if a in trainings}
            self._made[variant.name] = Stamp(measured(variant), weights, recipes)
        return self._made[variant.name]

    def _weights(self, name: str) -> str:
        if name == ORACLE:
            return ORACLE_VERSION
        if name == BARE:
            return self._model
        if name == SHIPPED and self.study.shipped:
            return f"{self._model}+{self.study.shipped}"
        return f"{self._model}+{file_digest(self.adapters[name])}" if name in self.adapters else ""


def spec_of(variant: Variant, spec: AgentSpec | None = None) -> AgentSpec:
    """The agent of a variant. What the variant does not name is as in `spec`; by default it decodes greedily, and the
    oracle writes what it writes."""
    if spec is None:
        tokens = variant.max_tokens or (BARE_TOKENS if BARE in variant.adapters.values() else MAX_TOKENS)
        greedy = Sampling(max_tokens=tokens, temperature=0.0)
        spec = AgentSpec(prompts=variant.prompts, sampling={} if variant.oracle else greedy)
    return spec.replace(system=variant.system, preset=variant.preset, settings=variant.settings)


def measured(variant: Variant) -> dict[str, Any]:
    """The variant's agent as it really runs: settings with every default filled in, prompts, decoding, search."""
    from ..evaluate.fingerprint import of_prompts
    from ..runtime.prompts import SHARED, set_folder
    from ..tools.sandbox import SandboxLimits

    spec = spec_of(variant)
    system: Any = preview_agent(spec)
    later = LATER_SETTINGS.get(variant.system, {}).items()
    settings = {
        name: value for name, value in dataclasses.asdict(system.settings).items() if (name, value) not in later
    }
    if settings.get("code_seconds", 0) is None:  # the limit of the sandbox
        settings["code_seconds"] = SandboxLimits().seconds
    if dialect := getattr(system, "dialect", None):  # the single agents take turns, k and tags from it
        settings |= {"turns": system.turns, "k": system.k}
        settings["dialect"] = digest(repr(dialect))
    sampling = dataclasses.asdict(spec.sampling if isinstance(spec.sampling, Sampling) else type(system).sampling)
    return {
        "system": variant.system,
        "settings": settings,
        "prompts": digest(
            of_prompts(set_folder(system.prompt_folder(), variant.prompts), without=UNUSED_PROMPTS),
            of_prompts(SHARED / variant.prompts, without=UNUSED_PROMPTS),
        ),
        "sampling": {name: list(v) if isinstance(v, tuple) else v for name, v in sampling.items()},
        "search": variant.search or SEARCH,
        "ranking": search_fingerprint(),
        "plans": PLANS_VERSION if variant.plans else False,
    }


@functools.cache
def search_fingerprint() -> str:
    """What the search does with a few passages and queries."""
    from ..record import Document
    from ..retrieval.index import Index

    with tempfile.TemporaryDirectory() as folder:
        passages = [Document(str(n), title, text) for n, (title, text) in enumerate(PASSAGES)]
        with Index.build(Path(folder) / "probe.sq", passages) as index:
            found = index.search_many(QUERIES, 5, mode=SEARCH)
    order = ";".join(",".join(f"{hit.document.id}:{hit.score:.4f}" for hit in hits) for hits in found)
    return hashlib.sha256(order.encode()).hexdigest()[:16]


def known_as(study: Study, training: Training) -> str:
    """The digest of one of the study's trainings, computed once as long as its recipe is not edited."""
    file = training.recipe.stat() if training.recipe.is_file() else None
    key = (training.name, file.st_mtime_ns, file.st_size) if file else (training.name, 0, 0)
    if key not in study.digests:
        study.digests[key] = training_digest(training, study.origins.get(study.start_of(training), ""))
    return study.digests[key]


def training_digest(training: Training, start: str) -> str:
    """What a training is: its recipe with the changes of the study, the system's settings in full, how it searches,
    and the adapter that it starts from."""
    table = read_recipe(training.recipe)
    for key, value in training.set.items():
        place = table
        *parents, last = key.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    for setting in TUNING:
        part, _, key = setting.partition(".")
        table.get(part, {}).pop(key, None)
    table.get("model", {}).pop("adapter", None)  # part of `start`
    table.pop("traces", None)  # what the recipe's sources give, prepared in advance
    name = table.get("system", "coda")
    settings = {"k": table.get("k", 3), **table.get("settings", {})}
    rolled = measured(Variant(training.name, name, {"": BARE}, settings, prompts=table.get("prompts", "compact")))
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
    from ..models import MODELS

    if model in MODELS:
        return f"{model}-{MODELS[model].files[0].sha256[:16]}"
    path = Path(model)
    if not path.is_file():
        return model
    with path.open("rb") as file:
        return f"{path.name}-{hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    """Settings and decoding by name, at one level with the rest."""
    inner = [v for v in table.values() if isinstance(v, Mapping)]
    return {k: v for k, v in table.items() if not isinstance(v, Mapping)} | {k: v for t in inner for k, v in t.items()}
