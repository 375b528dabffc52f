"""The recipes of the claims: sources, arms, trainings and claims, read from a folder of TOML files.

    [[source]]     name = "world", questions = "world:seeds=2001-2010,..."      as in training recipes
    [[arm]]        name = "coda", system = "coda", adapters = ["none", "cold"]  gives the arms coda@none and coda@cold
                   grid = { k = [5, 10] }                                       gives coda,k=5@cold and coda,k=10@cold
    [[training]]   name = "peco", recipe = "rl.toml", set = { reward = "coda" } its adapter is called peco
                   start = "cold-2"                                             what it starts from, if not `start`;
                                                                                `none` is the bare model
    start          the training that the others start from
    shipped        digest of the shipped adapter
    [[claim]]      id, paper, place, says, and rows that name an arm (or several, whose answers are pooled) and the
                   paper's own numbers

Files may hold any of them; everything is checked against everything else once all are read.
"""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from ..codec import from_dict
from ..errors import ConfigError, DataError, UsageError

PAPERS = ("CoDA", "DECOR", "APEX-Searcher", "HiRA")
"""In this order on the page; others follow."""
OURS = "ours"
"""The paper of claims that are no paper's: where the systems stand."""
BARE, SHIPPED, ORACLE = "none", "shipped", "oracle"
BASES = (BARE, SHIPPED, ORACLE)
"""Adapters that no training of the book makes: the model as it is, the adapter that ships with it, and no model at all
but a scripted stand-in for a strong one, which shows the mechanism alone."""


@dataclass(frozen=True, slots=True)
class Source:
    """Questions of one kind and the passages they are asked of."""

    name: str
    questions: str
    corpus: tuple[str, ...] = ()
    pictures: float = 0.0
    """Share of the questions that keep a name in an attached picture (`claims/pictures.py`). Such a source is asked
    only where an arm or a claim names it."""

    @property
    def told(self) -> str:
        """What is asked, in one line; results of other questions are stale."""
        return f"{self.questions}, pictures={self.pictures}" if self.pictures else self.questions


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of answering all questions."""

    id: str
    system: str
    adapters: Mapping[str, str]
    """Adapter by role; `""` for all others."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = ""
    sources: tuple[str, ...] = ()
    """All without pictures where empty."""
    search: str = ""
    """`rerank`: MiniLM puts the first twenty passages of a search in order."""
    plans: bool = False
    """Score the planner's plans against the gold ones (needs the MiniLM weights)."""

    @property
    def oracle(self) -> bool:
        return ORACLE in self.adapters.values()

    @property
    def needs_minilm(self) -> bool:
        return self.plans or self.search == "rerank"


@dataclass(frozen=True, slots=True)
class Training:
    """One run of reinforcement learning, or the short fine-tuning that all of them start from."""

    id: str
    recipe: Path
    set: Mapping[str, Any] = field(default_factory=dict)
    start: str = ""
    """The training whose adapter this one starts from, where it is not the book's."""

    @property
    def needs_minilm(self) -> bool:
        """Whether its reward compares plans by their sense."""
        reward = self.set.get("reward") or tomllib.loads(self.recipe.read_text(encoding="utf-8")).get("reward", "")
        return str(reward).startswith("apex-plan")


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    arm: str = ""
    arms: tuple[str, ...] = ()
    """Several arms whose answers are pooled, as the seeds of one training: each answers its share of a source with
    several parts, and all of one that has a single part."""
    paper: Mapping[str, float] = field(default_factory=dict)
    """The paper's number by source, or by metric where a claim has several, as `hotpotqa` or `hotpotqa.f1`."""

    @property
    def answered_by(self) -> tuple[str, ...]:
        return self.arms or (self.arm,)

    def takes(self, arm: str, part: str) -> bool:
        """Whether an arm's answers to a part (`world-3`) count in this row."""
        number = part.rpartition("-")[2]
        if arm == self.arm or not number.isdigit():
            return arm in self.answered_by
        return arm in self.arms and int(number) % len(self.arms) == self.arms.index(arm)


@dataclass(frozen=True, slots=True)
class Curve:
    """Figures of a training over its steps."""

    training: str
    figures: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """The claim says that a row loses less than a share of what another one has."""

    row: str
    base: str
    share: float = 0.1


@dataclass(frozen=True, slots=True)
class Claim:
    id: str
    paper: str
    place: str
    """Table or figure."""
    says: str
    """What the paper claims."""
    setting: str = ""
    """What the paper's numbers were measured with."""
    note: str = ""
    """What has to be known about our rows."""
    finding: str = ""
    """What we found, in words."""
    metrics: tuple[str, ...] = ("em",)
    hops: int = 0
    """Only questions of at least so many hops."""
    by_hops: bool = False
    """Columns are hops on the first source."""
    sources: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    """Means over the first source's episodes, printed behind the metrics: tokens, peak contexts, idle executors."""
    row: tuple[Row, ...] = ()
    expect: tuple[tuple[str, str], ...] = ()
    """Pairs of rows; the claim says that the first does better than the second."""
    level: tuple[Level, ...] = ()
    cheaper: tuple[tuple[str, str, str], ...] = ()
    """Two rows and a cost; the claim says that the first costs less than the second."""
    curve: tuple[Curve, ...] = ()


@dataclass(frozen=True, slots=True)
class Book:
    sources: Mapping[str, Source]
    arms: Mapping[str, Arm]
    trainings: Mapping[str, Training]
    claims: tuple[Claim, ...]
    results: Path
    shipped: str = ""
    """Digest of the adapter that ships: arms that were run with another one cannot be compared."""
    start: str = ""
    """The training whose adapter all others start from that name no other; itself, it starts from the bare model."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """By start, the digest of its adapter, or of its recipe as long as it is not made (`measure.begun`)."""

    @property
    def starts(self) -> tuple[str, ...]:
        """Trainings that others start from."""
        named = (self.start, *(t.start for t in self.trainings.values()))
        return tuple(dict.fromkeys(s for s in named if s not in ("", BARE)))

    def start_of(self, training: Training) -> str:
        """The training whose adapter this one starts from; empty for one that starts from the bare model."""
        return "" if training.start == BARE or training.id in self.starts else training.start or self.start

    def sources_of(self, arm: Arm) -> tuple[str, ...]:
        """What an arm is asked: of its sources those that a row shows, all of them where no row has it."""
        own = arm.sources or self.plain
        shown = {s for c in self.claims if any(arm.id in r.answered_by for r in c.row) for s in self.shown_by(c)}
        return tuple(s for s in own if s in shown) or own

    def asks(self, arm: Arm, part: str) -> bool:
        """Whether an arm is asked a part: not where all its rows take their answers to it from other arms."""
        rows = [r for c in self.claims for r in c.row if arm.id in r.answered_by]
        return not rows or any(r.takes(arm.id, part) for r in rows)

    def shown_by(self, claim: Claim) -> tuple[str, ...]:
        return claim.sources or self.plain

    @property
    def plain(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.sources.values() if not s.pictures)

    def chosen(self, patterns: Iterable[str]) -> list[Arm]:
        """Arms by patterns over their names, or by claims; all without patterns, those of the first claims first. A
        pattern behind an exclamation mark leaves out what it fits."""
        given = list(patterns)
        wanted = [p for p in given if not p.startswith("!")]
        unwanted = [p[1:] for p in given if p.startswith("!")]
        order = dict.fromkeys([a for c in self.claims for r in c.row for a in r.answered_by] + list(self.arms))
        order = {name: None for name in order if not any(fnmatch(name, p) for p in unwanted)}
        if not wanted:
            return [self.arms[name] for name in order]
        claims = [c for c in self.claims if any(fnmatch(c.id, p) for p in wanted)]
        claimed = {a for c in claims for r in c.row for a in r.answered_by}
        found = [n for n in order if n in claimed or any(fnmatch(n, p) for p in wanted)]
        if not found:
            raise UsageError(f"no arm or claim is called {', '.join(wanted)}; `subquest study claims` lists them")
        return [self.arms[name] for name in found]

    def using(self, patterns: Iterable[str]) -> list[Arm]:
        """Arms that the chosen trainings' adapters play in."""
        made = {t.id for t in self.trained(patterns)}
        return [arm for arm in self.chosen(()) if made & set(arm.adapters.values())]

    def trained(self, patterns: Iterable[str]) -> list[Training]:
        """Trainings by patterns over their names: the starts, then the others, further seeds after the first of all."""
        wanted = [p for p in patterns if not p.startswith("!")] or ["*"]
        found = [t for t in self.trainings.values() if any(fnmatch(t.id, p) for p in wanted)]
        if not found:
            raise UsageError(f"no training is called {', '.join(wanted)}; there are {', '.join(self.trainings)}")
        return sorted(found, key=lambda t: -1 if t.id in self.starts else t.set.get("seed", 0))


def default_folder() -> Path:
    """The recipes of the claims, in the checkout."""
    return Path(__file__).resolve().parents[3] / "recipes" / "claims"


def read_book(folder: Path) -> Book:
    """All files of a folder, checked; raises ConfigError that names the file and what is wrong in it."""
    files = [f for f in sorted(folder.glob("*.toml")) if not f.name.startswith(("rl", "cold"))]
    if not files:
        raise UsageError(f"{folder} holds no recipes of claims; run this in the project's checkout, or name the folder")
    sources: dict[str, Source] = {}
    arms: dict[str, Arm] = {}
    trainings: dict[str, Training] = {}
    claims: list[Claim] = []
    start = shipped = ""
    for file in files:
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            shared, start = table.pop("shared", {}), table.pop("start", start)
            shipped = table.pop("shipped", shipped)
            sources |= {s.name: s for s in (from_dict(Source, row) for row in table.pop("source", ()))}
            arms |= {a.id: a for row in table.pop("arm", ()) for a in _arms(row)}
            trainings |= {t.id: t for row in table.pop("training", ()) for t in _trainings(row, folder)}
            claims += [_claim({**shared, **row}) for row in table.pop("claim", ())]
        except (tomllib.TOMLDecodeError, DataError, KeyError, TypeError) as error:
            raise ConfigError(f"{file}: {error}") from None
        if table:
            raise ConfigError(
                f"{file}: unknown key {next(iter(table))!r}; there are shared, shipped, start, source, arm, training, "
                "claim"
            )
    claims.sort(key=lambda c: PAPERS.index(c.paper) if c.paper in PAPERS else len(PAPERS))
    book = Book(sources, arms, trainings, tuple(claims), folder / "results", shipped, start)
    _check(book)
    return book


def _grid(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every choice of the values of `grid`."""
    grid = row.get("grid", {})
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def _named(name: str, chosen: Mapping[str, Any]) -> str:
    return ",".join([name, *(f"{key.rpartition('.')[2]}={value}" for key, value in chosen.items())])


def _arms(row: Mapping[str, Any]) -> list[Arm]:
    """The arms of one entry: a choice of its grid and one of its adapters each."""
    out = []
    for chosen in _grid(row):
        settings = {**row.get("settings", {}), **chosen}
        given = {key: row[key] for key in ("system", "preset", "search", "plans") if key in row}
        given |= {"settings": settings, "sources": tuple(row.get("sources", ()))}
        name = _named(row["name"], chosen)
        if "roles" in row:
            out.append(Arm(id=name, adapters=dict(row["roles"]), **given))
        out += [Arm(id=f"{name}@{a}", adapters={"": a}, **given) for a in row.get("adapters", ())]
    unknown = set(row) - {"name", "grid", "roles", "adapters", "settings", "sources", "system", "preset", "search"}
    if unknown := unknown - {"plans"}:
        raise DataError(f"the arm {row['name']!r} has an unknown key {sorted(unknown)[0]!r}")
    return out


def _trainings(row: Mapping[str, Any], folder: Path) -> list[Training]:
    return [
        Training(
            _named(row["name"], chosen), folder / row["recipe"], {**row.get("set", {}), **chosen}, row.get("start", "")
        )
        for chosen in _grid(row)
    ]


def _claim(row: Mapping[str, Any]) -> Claim:
    """Rows with a `grid` stand for one row a value, `{}` in name and arm replaced by it."""
    lines = []
    for line in row.get("row", ()):
        values = line.get("each", [""])
        rest = {key: value for key, value in line.items() if key != "each"}
        for value in values:
            arms = {"arms": [a.format(value) for a in line["arms"]]} if "arms" in line else {}
            arm = {"arm": line["arm"].format(value)} if "arm" in line else {}
            lines.append({**rest, **arm, **arms, "name": line["name"].format(value)})
    return from_dict(Claim, {**row, "row": lines})


def _check(book: Book) -> None:
    for start in book.starts:
        if start not in book.trainings:
            raise ConfigError(f"start: there is no training {start!r}")
    for arm in book.arms.values():
        for name in arm.adapters.values():
            if name not in (*BASES, *book.trainings):
                raise ConfigError(f"arm {arm.id!r}: no training makes the adapter {name!r}")
        for source in arm.sources:
            if source not in book.sources:
                raise ConfigError(f"arm {arm.id!r}: there is no source {source!r}")
    for claim in book.claims:
        known = [row.name for row in claim.row]
        for row in claim.row:
            for name in row.answered_by:
                if name not in book.arms:
                    raise ConfigError(f"claim {claim.id!r}: there is no arm {name!r}")
        pairs = [*claim.expect, *(rows[:2] for rows in claim.cheaper), *((v.row, v.base) for v in claim.level)]
        for name in (n for pair in pairs for n in pair):
            if name not in known:
                raise ConfigError(f"claim {claim.id!r}: there is no row {name!r}")
        for curve in claim.curve:
            if curve.training not in book.trainings:
                raise ConfigError(f"claim {claim.id!r}: there is no training {curve.training!r}")
