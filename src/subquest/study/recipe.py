"""The recipe of a study: which variants run on which questions, and what the paper measured.

title = "CoDA, table 2: hierarchy"
paper = "Qwen2.5-3B-Base trained by each method, ..."     the setting of the paper's numbers
metrics = ["em"]
k = 3                                                     documents a search, of all variants
settings = { turns = 6 }                                  more that all variants share, where they know it
differs = ["turns"]                                       what they share and may differ in; the note says why

[[source]]
name = "hotpotqa"                                         with filter, sample, from where they differ

[[variant]]
name = "CoDA"
system = "coda"
settings = { refine = true }
grid = { k = [3, 5] }                                     one variant for each value: "CoDA, k=3", "CoDA, k=5"

[[number]]
variant = "CoDA"
source = "hotpotqa"                                       or "average": the unweighted mean over the sources
em = 0.407
"""

from __future__ import annotations

import dataclasses
import itertools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ConfigError, UsageError, suggest
from ..evaluate.score import score
from ..record import Episode, Question
from ..systems.registry import get

AVERAGE = "average"
SEARCHES = ("", "rerank", "web")


@dataclass(frozen=True, slots=True)
class Source:
    """Questions of a study."""

    name: str
    dataset: str
    """What `eval` would call it."""
    filter: tuple[str, ...] = ()
    sample: int | None = None
    """How many questions the paper took, where it took a part; which ones is not known."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One bar or line of a figure, one row of a table."""

    name: str
    system: str
    preset: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    """Settings that the recipe gives to this variant for itself."""
    search: str = ""
    """`rerank`: the run's model reorders what the index finds; `web`: the web instead of the index."""


@dataclass(frozen=True, slots=True)
class Number:
    """What the paper measured."""

    variant: str
    source: str
    values: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    title: str
    paper: str
    metrics: tuple[str, ...]
    sources: tuple[Source, ...]
    variants: tuple[Variant, ...]
    numbers: tuple[Number, ...] = ()
    note: str = ""
    filter: tuple[str, ...] = ()
    """Holds for every source, also for those a user puts in their place."""
    differs: tuple[str, ...] = ()
    """Settings that variants share and in which they may differ (`evaluate.fairness`)."""

    def number(self, variant: str, source: str) -> Mapping[str, float]:
        return next((n.values for n in self.numbers if (n.variant, n.source) == (variant, source)), {})


def studies() -> dict[str, Path]:
    """The studies that come with the package, by name."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package.parents[1] / "recipes" / "studies", package / "_studies"):
        if folder.is_dir():
            return {path.stem: path for path in sorted(folder.glob("*.toml"))}
    return {}


def find_study(name: str) -> Study:
    """A study by name, or the recipe in a file."""
    if name.endswith(".toml"):
        return read_study(Path(name))
    known = studies()
    if name not in known:
        raise UsageError(f"there is no study {name!r}; {suggest(name, [*known, 'claims'])}")
    return read_study(known[name])


def read_study(path: Path) -> Study:
    """A recipe, checked; raises ConfigError that names the file and what is wrong in it."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"cannot read the study {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    known = {"title", "paper", "note", "metrics", "filter", "differs", "k", "settings", "source", "variant", "number"}
    for key in data:
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}; there are {', '.join(sorted(known))}")
    _check_kinds(data, f"{path}: ")
    try:
        study = Study(
            name=path.stem,
            title=data["title"],
            paper=data["paper"],
            metrics=tuple(data["metrics"]),
            sources=tuple(_source(row) for row in data["source"]),
            variants=tuple(v for row in data["variant"] for v in _variants(row, _shared(data))),
            numbers=tuple(_number(row) for row in data.get("number", ())),
            note=data.get("note", ""),
            filter=tuple(data.get("filter", ())),
            differs=tuple(data.get("differs", ())),
        )
    except KeyError as error:
        raise ConfigError(f"{path}: {error.args[0]!r} is missing") from None
    except TypeError as error:
        raise ConfigError(f"{path}: {error}") from None
    _check(study, path)
    return study


_KINDS: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("title", "paper", "note", "name", "dataset", "system", "preset", "search"), (str, "a text")),
    **dict.fromkeys(("metrics", "filter", "differs"), (list, "a list of texts")),
    **dict.fromkeys(("source", "variant", "number"), (list, "given as [[...]]")),
    **dict.fromkeys(("settings", "grid"), (dict, "a table")),
    **dict.fromkeys(("k", "sample"), (int, "a whole number from 1")),
}


def _check_kinds(table: Mapping[str, Any], place: str) -> None:
    """Refuse values of another kind than their key needs: some would be taken apart letter by letter."""
    for key, value in table.items():
        kind, words = _KINDS.get(key, (object, ""))
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if key in ("metrics", "filter", "differs"):
            fits = fits and all(isinstance(text, str) for text in value)
        elif key == "sample":
            fits = fits and value >= 1
        elif key == "grid":
            fits, words = fits and all(isinstance(v, list) for v in value.values()), "a table of lists"
        if not fits:
            raise ConfigError(f"{place}{key} must be {words}, not {value!r}")
        for row in value if key in ("source", "variant", "number") else ():
            if not isinstance(row, dict):
                raise ConfigError(f"{place}{key} must be {words}, not {value!r}")
            if key != "number":
                _check_kinds(row, f"{place}{key} {row.get('name', '')!r}: ")


def _source(row: Mapping[str, Any]) -> Source:
    given = {**row, "dataset": row.get("dataset", row["name"]), "filter": tuple(row.get("filter", ()))}
    return Source(**given)


def _shared(data: Mapping[str, Any]) -> dict[str, Any]:
    return {**data.get("settings", {}), **({"k": data["k"]} if "k" in data else {})}


def _variants(row: Mapping[str, Any], shared: Mapping[str, Any]) -> list[Variant]:
    given = {key: value for key, value in row.items() if key != "grid"}
    grid = row.get("grid", {})
    known = {field.name for field in dataclasses.fields(get(row["system"]).Settings)}
    own = given.get("settings", {})
    given["settings"] = {**{key: value for key, value in shared.items() if key in known}, **own}
    given["named"] = tuple(dict.fromkeys([*own, *grid]))
    out = []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        name = ", ".join([row["name"], *(f"{key}={value}" for key, value in chosen.items())])
        out.append(Variant(**{**given, "name": name, "settings": {**given["settings"], **chosen}}))
    return out


def _number(row: Mapping[str, Any]) -> Number:
    values = {key: value for key, value in row.items() if key not in ("variant", "source")}
    for key, value in values.items():
        if not isinstance(value, int | float):
            raise TypeError(f"a number of {row['variant']!r}: {key} is {value!r}")
    values = {key: float(value) for key, value in values.items()}
    return Number(row["variant"], row["source"], values)


_METRICS = sorted(
    {*score(Episode("", Question("", "", ("",)), "", "")), "support_recall", "confidence", "ece", "auroc"}
    | {"judge", "judge_undecided", "interactions", "supported", "em_supported", "em_unsupported"}
)
"""What a study can measure, beside tokens and contexts of a role."""


def _is_metric(name: str) -> bool:
    return name in _METRICS or name.startswith(("tokens_", "peak_"))


def _check(study: Study, path: Path) -> None:
    names = [v.name for v in study.variants]
    if twice := next((n for n in names if names.count(n) > 1), None):
        raise ConfigError(f"{path}: two variants are called {twice!r}")
    for v in study.variants:
        if v.search not in SEARCHES:
            raise ConfigError(f"{path}: variant {v.name!r}: unknown search {v.search!r}")
    given = [s.name for s in study.sources]
    if wrong := next((n for n in given if given.count(n) > 1 or n == AVERAGE), None):
        raise ConfigError(f"{path}: a source cannot be called {wrong!r}: another row of the table is called that")
    for metric in study.metrics:
        if not _is_metric(metric):
            raise ConfigError(f"{path}: there is no metric {metric!r}; {suggest(metric, _METRICS)}")
    sources = {*given, AVERAGE}
    for n in study.numbers:
        if n.variant not in names:
            raise ConfigError(f"{path}: a number is for the variant {n.variant!r}, which is not in the study")
        if n.source not in sources:
            raise ConfigError(f"{path}: a number is for the source {n.source!r}, which is not in the study")
        if unknown := set(n.values) - set(study.metrics):
            raise ConfigError(f"{path}: numbers of {', '.join(sorted(unknown))}, which the study does not measure")
