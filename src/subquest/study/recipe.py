"""The recipe of a study: which variants answer which questions, and what a paper measured.

A recipe is a TOML file, or a folder whose TOML files are read as one.

    title = "CoDA, table 2: hierarchy"
    paper = "Qwen2.5-3B-Base trained by each method, ..."     the setting of the paper's numbers
    metrics = ["em"]
    k = 3                                                     documents per search, for all variants
    settings = { turns = 6 }                                  more settings that all variants share
    differs = ["turns"]                                       shared settings that may differ; the note says why

    [[source]]                                                questions
    name = "hotpotqa"                                         dataset, filter, sample where they are not the name's
    dataset = "world:seeds=2001-2010,questions=500"           a generated world per seed, as in training recipes

    [[variant]]                                               one way of answering: a row of a table
    name = "CoDA"
    system = "coda"
    settings = { refine = true }
    grid = { k = [3, 5] }                                     one variant per value: "CoDA, k=3", "CoDA, k=5"

    [[number]]                                                what the paper measured
    variant = "CoDA"
    source = "hotpotqa"                                       or "average": the unweighted mean over the sources
    em = 0.407

A study may also bring its own models: variants name the *adapters* that answer, and *trainings* make them.

    [[variant]]
    name = "coda"
    system = "coda"
    grid = { k = [3, 5] }
    adapters = ["none", "peco"]                               "coda,k=3@none", "coda,k=3@peco", "coda,k=5@none", ...
    roles = { planner = "peco", "" = "none" }                 or one adapter for each role; "" is for all others

    [[training]]
    name = "peco"                                             the adapter that it makes has its name
    recipe = "rl.toml"                                        for `subquest train`
    set = { reward = "coda" }                                 changes to the recipe; `grid` makes one training per value
    start = "cold"                                            the training it starts from, where it is not the study's

    start = "cold"                                            the training that all others start from
    shipped = "aa96b37da7721ae9"                              digest of the adapter that ships with the model

    model = "qwen-1.5b"                                       the model, in place of the embedded one: trainings start
    parameters = 1.5e9                                        from it; `--model FOLDER` says where its weights are
    prompts = "full"                                          for the variants of the file, as is max_tokens
    like = "../claims"                                        what it leaves out is taken from this study: the words of
                                                              claims; without variants, everything, and of the claims
    only = ["coda-*"]                                         these
    sizes = ["../claims"]                                     the same study on smaller models, for the page

    [finding]                                                 what was found, by claim
    coda-hierarchy = "..."

    [[claim]]                                                 a table of a paper: rows of variants, what they must show
    id = "coda-hierarchy"
    paper = "CoDA"
    place = "Table 2"
    says = "The hierarchy beats one context that does everything."
    expect = [["CoDA", "CoDA without hierarchy"]]
    [[claim.row]]
    name = "CoDA"
    variant = "coda@peco"
    paper = { hotpotqa = 0.407 }

Once all is read, everything is checked against everything else. `arm` and `questions`, the names of `variant` and
`dataset` in recipes of version 0.1, are still read.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..codec import Count, NonNegative, Positive, Record, checked
from ..errors import ConfigError, UsageError, suggest
from ..evaluate.score import score
from ..input_file import read_toml
from ..record import Episode, Question
from ..systems.registry import get
from .design import AVERAGE, BARE, ORACLE, SHIPPED, Claim, Row, Source, Study, Training, Variant

PAPERS = ("CoDA", "DECOR", "APEX-Searcher", "HiRA")
"""In this order on a page; others follow."""

T = TypeVar("T")


class _VariantEntry(Record):
    name: str
    system: str
    preset: str = ""
    settings: Mapping[str, Any] = {}
    grid: Mapping[str, list[Any]] = {}
    search: Literal["", "rerank", "web"] = ""
    adapters: tuple[str, ...] = ()
    roles: Mapping[str, str] = {}
    sources: tuple[str, ...] = ()
    plans: bool = False
    max_tokens: Count = 0


class _TrainingEntry(Record):
    name: str
    recipe: str
    set: Mapping[str, Any] = {}
    grid: Mapping[str, list[Any]] = {}
    start: str = ""


class _Recipe(Record):
    """What a file may hold."""

    title: str = ""
    paper: str = ""
    note: str = ""
    metrics: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    differs: tuple[str, ...] = ()
    k: Positive | None = None
    settings: Mapping[str, Any] = {}
    source: tuple[Source, ...] = ()
    variant: tuple[_VariantEntry, ...] = ()
    number: tuple[dict[str, str | float], ...] = ()
    training: tuple[_TrainingEntry, ...] = ()
    shared: Mapping[str, Any] = {}
    """Keys that all claims of the file share."""
    claim: tuple[dict[str, Any], ...] = ()
    start: str = ""
    shipped: str = ""
    model: str = ""
    parameters: NonNegative = 0.0
    prompts: Literal["compact", "full"] = "compact"
    max_tokens: Count = 0
    like: str = ""
    only: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    finding: Mapping[str, str] = {}


def read_study(path: Path) -> Study:
    """A recipe, checked; raises ConfigError that names the file and what is wrong in it."""
    files = sorted(path.glob("*.toml")) if path.is_dir() else [path]
    found = {file: table for file in files if (table := _load(file)) and not _is_training_recipe(table)}
    if path.is_dir() and not found:
        raise UsageError(f"{path} holds no recipes of a study; run this in the project's checkout, or name the folder")
    given = {file: checked(_Recipe, table, str(file), error=ConfigError) for file, table in found.items()}
    likes = [(file, recipe) for file, recipe in given.items() if recipe.like]
    other = read_study((likes[0][0].parent / likes[0][1].like).resolve()) if likes else None
    name = path.name if path.is_dir() else path.stem
    study = Study(name, {}, {}, folder=path if path.is_dir() else path.parent)
    for file, recipe in given.items():
        study = _add(study, recipe, file, other, single=not path.is_dir())
    if other is not None and not study.variants:
        study = _like(study, other, likes[0][1].only)
    claims = (replace(c, finding=c.finding or study.findings.get(c.id, "")) for c in study.claims)
    study = _on_its_model(replace(study, claims=tuple(claims)))
    order = sorted(study.claims, key=lambda c: PAPERS.index(c.paper) if c.paper in PAPERS else len(PAPERS))
    study = replace(study, claims=tuple(order))
    _check(study, path)
    return study


def _like(study: Study, other: Study, only: Sequence[str]) -> Study:
    """A study with the sources, variants, trainings and claims of another one."""
    claims = tuple(
        replace(c, note="", finding="")
        for c in other.claims
        if not only or any(fnmatch(c.id, pattern) for pattern in only)
    )
    used = {v for c in claims for r in c.row for v in r.answered_by}
    variants = {name: variant for name, variant in other.variants.items() if name in used}
    needed = {a for v in variants.values() for a in v.adapters.values()}
    trainings = {name: t for name, t in other.trainings.items() if name in needed}
    return replace(
        study, sources=other.sources, variants=variants, trainings=trainings, claims=claims, start=other.start
    )


def _on_its_model(study: Study) -> Study:
    """The study with trainings that start from its model."""
    if not study.model:
        return study
    trainings = {n: replace(t, set={**t.set, "model.path": study.model}) for n, t in study.trainings.items()}
    return replace(study, trainings=trainings)


def _load(file: Path) -> dict[str, Any]:
    table = read_toml(file, "the study", nan=False, error=ConfigError)
    if "arm" in table:  # recipes of 0.1
        table["variant"] = [*table.get("variant", ()), *table.pop("arm")]
    for row in _tables(table, "source"):
        row.setdefault("dataset", row.pop("questions", row.get("name", "")))
    for row in (row for claim in _tables(table, "claim") for row in _tables(claim, "row")):
        row |= {new: row.pop(old) for old, new in (("arm", "variant"), ("arms", "variants")) if old in row}
    return table


def _tables(table: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = table.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _is_training_recipe(table: Mapping[str, Any]) -> bool:
    return isinstance(table.get("model"), dict) or "optimiser" in table


def _add(study: Study, recipe: _Recipe, file: Path, other: Study | None, *, single: bool) -> Study:
    """The study with what a file holds, worded as the `other` one where it says nothing."""
    known = {claim.id: claim for claim in other.claims} if other is not None else {}
    shared = {**recipe.settings, **({"k": recipe.k} if recipe.k is not None else {})}
    variants = [v for entry in recipe.variant for v in _expand_variant(entry, recipe, shared)]
    claims = tuple(_claim({**recipe.shared, **row}, file, known.get(row.get("id", ""))) for row in recipe.claim)
    if any(not claim.metrics for claim in claims):
        raise ConfigError(f"{file}: 'metrics' is missing")
    if single and not claims:
        for key in ("title", "metrics", "source", "variant"):
            if not getattr(recipe, key):
                raise ConfigError(f"{file}: {key!r} is missing")
        claims = (_own_table(recipe, variants, file),)
    return replace(
        study,
        sources={**study.sources, **_unique(recipe.source, file, "source")},
        variants={**study.variants, **_unique(variants, file, "variant")},
        claims=(*study.claims, *claims),
        trainings={**study.trainings, **{t.name: t for e in recipe.training for t in _expand_training(e, file.parent)}},
        filter=(*study.filter, *recipe.filter),
        differs=(*study.differs, *recipe.differs),
        shipped=recipe.shipped or study.shipped,
        start=recipe.start or study.start,
        model=recipe.model or study.model,
        parameters=recipe.parameters or study.parameters,
        sizes=(*study.sizes, *recipe.sizes),
        findings={**study.findings, **recipe.finding},
    )


def _unique(found: Iterable[T], file: Path, what: str) -> dict[str, T]:
    out: dict[str, T] = {}
    for record in found:
        name = str(getattr(record, "name", ""))
        if name in out or (what == "source" and name == AVERAGE):
            raise ConfigError(f"{file}: a {what} cannot be called {name!r}: another row of the table is called that")
        out[name] = record
    return out


def _own_table(recipe: _Recipe, variants: Iterable[Variant], file: Path) -> Claim:
    """The table of a recipe without claims: all its variants, with the paper's numbers."""
    names = [v.name for v in variants]
    sources = [*(s.name for s in recipe.source), AVERAGE]
    numbers: dict[str, dict[str, float]] = {}
    for given in recipe.number:
        values = dict(given)
        variant, source = str(values.pop("variant", "")), str(values.pop("source", ""))
        if variant not in names:
            raise ConfigError(f"{file}: a number is for the variant {variant!r}, which is not in the study")
        if source not in sources:
            raise ConfigError(f"{file}: a number is for the source {source!r}, which is not in the study")
        if unknown := set(values) - set(recipe.metrics):
            raise ConfigError(f"{file}: numbers of {', '.join(sorted(unknown))}, which the study does not measure")
        for metric, value in values.items():
            if isinstance(value, str):
                raise ConfigError(f"{file}: a number of {variant!r}: {metric} is {value!r}")
            numbers.setdefault(variant, {})[f"{source}.{metric}"] = value
    rows = tuple(Row(name, name, paper=numbers.get(name, {})) for name in names)
    return Claim(
        file.stem, "", "", recipe.title, setting=recipe.paper, note=recipe.note, metrics=recipe.metrics, row=rows
    )


def _grid(grid: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of the values."""
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _name(name: str, chosen: Mapping[str, Any], separator: str = ",") -> str:
    return separator.join([name, *(f"{key.rpartition('.')[2]}={value}" for key, value in chosen.items())])


def _expand_variant(entry: _VariantEntry, recipe: _Recipe, shared: Mapping[str, Any]) -> list[Variant]:
    """The variants of one entry: one for each combination of its grid and each of its adapters."""
    known = {field.name for field in dataclasses.fields(get(entry.system).Settings)}
    out = []
    for chosen in _grid(entry.grid):
        own = {**entry.settings, **chosen}
        given: dict[str, Any] = {
            "system": entry.system,
            "settings": {**{key: value for key, value in shared.items() if key in known}, **own},
            "preset": entry.preset,
            "sources": entry.sources,
            "search": entry.search,
            "plans": entry.plans,
            "named": tuple(own),
            "prompts": recipe.prompts,
            "max_tokens": entry.max_tokens or recipe.max_tokens,
        }
        if not entry.adapters and not entry.roles:
            out.append(Variant(_name(entry.name, chosen, ", "), **given))
        name = _name(entry.name, chosen)
        if entry.roles:
            out.append(Variant(name, adapters=entry.roles, **given))
        out += [Variant(f"{name}@{a}", adapters={"": a}, **given) for a in entry.adapters]
    return out


def _expand_training(entry: _TrainingEntry, folder: Path) -> list[Training]:
    return [
        Training(_name(entry.name, chosen), folder / entry.recipe, {**entry.set, **chosen}, entry.start)
        for chosen in _grid(entry.grid)
    ]


def _claim(table: Mapping[str, Any], file: Path, like: Claim | None = None) -> Claim:
    """A claim; a row with `each` stands for one row per value, with `{}` in its names replaced by it. What it leaves
    out, and the paper's numbers of rows of the same names, it has from the claim that it is `like`."""
    words = {key: getattr(like, key) for key in ("paper", "place", "says", "setting")} if like is not None else {}
    claim = checked(Claim, {**words, **table}, f"{file}: claim {table.get('id', '')!r}", error=ConfigError)
    numbers = {row.name: row.paper for row in like.row} if like is not None else {}
    rows = []
    for row in claim.row:
        for value in row.each or ("",):
            variants = tuple(name.format(value) for name in row.variants)
            name, variant = row.name.format(value), row.variant.format(value)
            paper = row.paper or numbers.get(name, {})
            rows.append(replace(row, name=name, variant=variant, variants=variants, paper=paper, each=()))
    return replace(claim, row=tuple(rows))


_METRICS = sorted(
    {*score(Episode("", Question("", "", ("",)), "", "")), "support_recall", "confidence", "ece", "auroc"}
    | {"judge", "judge_undecided", "interactions", "supported", "parts_supported", "sepr"}
    | {"em_supported", "em_parts_supported", "em_unsupported"}
)
"""What a study can measure, besides tokens and contexts of a role."""


def _check(study: Study, path: Path) -> None:
    for start in study.starts:
        if start not in study.trainings:
            raise ConfigError(f"{path}: start: there is no training {start!r}")
    for variant in study.variants.values():
        for name in variant.adapters.values():
            if name not in (BARE, SHIPPED, ORACLE, *study.trainings):
                raise ConfigError(f"{path}: variant {variant.name!r}: no training makes the adapter {name!r}")
        for source in variant.sources:
            if source not in study.sources:
                raise ConfigError(f"{path}: variant {variant.name!r}: there is no source {source!r}")
    for claim in study.claims:
        for metric in claim.metrics:
            if metric not in _METRICS and not metric.startswith(("tokens_", "peak_")):
                raise ConfigError(f"{path}: there is no metric {metric!r}; {suggest(metric, _METRICS)}")
        for name in (name for row in claim.row for name in row.answered_by):
            if name not in study.variants:
                raise ConfigError(f"{path}: claim {claim.id!r}: there is no variant {name!r}")
        known = [row.name for row in claim.row]
        pairs = [*claim.expect, *(rows[:2] for rows in claim.cheaper), *((v.row, v.base) for v in claim.level)]
        for name in (n for pair in pairs for n in pair):
            if name not in known:
                raise ConfigError(f"{path}: claim {claim.id!r}: there is no row {name!r}")
        for curve in claim.curve:
            if curve.training not in study.trainings:
                raise ConfigError(f"{path}: claim {claim.id!r}: there is no training {curve.training!r}")
