"""What a study is: questions, variants that answer them, trainings that make their adapters, and tables of rows.

`study.recipe` reads them from TOML.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from ..codec import Count, Positive, Record, Share
from ..errors import ConfigError, UsageError
from ..input_file import read_toml

AVERAGE = "average"
OURS = "ours"
"""The paper of claims that no paper makes: where the systems stand."""
BARE, SHIPPED, ORACLE = "none", "shipped", "oracle"
"""Adapters that no training makes: the model as it is, the adapter that ships with it, and no model at all but a
scripted one that knows the gold plan (`study.oracle`), which shows the mechanism alone."""


class Source(Record):
    """Questions of a study."""

    name: str
    dataset: str = ""
    """What `eval` would call it; a file or `world:...` for variants with adapters. By default the name."""
    corpus: tuple[str, ...] = ()
    """Passages that the questions are asked of; a world brings its own."""
    filter: tuple[str, ...] = ()
    sample: Positive | None = None
    """How many questions the paper took, where it took a part; which ones is not known."""
    pictures: Share = 0.0
    """Share of the questions that keep a name in an attached picture (`study.pictures`)."""
    limit: Count = 0
    """Only the first so many questions; 0 for all."""
    set: str = ""
    """The source that this one is a part of: it has that one's name in tables, and the paper's numbers of it."""
    site: bool = False
    """A world whose articles are a web site: systems with tools search it and open its pages (`worlds.site`)."""
    episodes: bool = False
    """Every variant is asked these questions, and its episodes are kept to be read; no table shows them."""

    @property
    def plain(self) -> bool:
        """Whether it is used where no variant or claim names its sources."""
        return not (self.pictures or self.set or self.site or self.episodes)

    @property
    def description(self) -> str:
        """What is asked, in one line; results of other questions are stale."""
        more = [f"pictures={self.pictures}"] * bool(self.pictures) + [f"the first {self.limit}"] * bool(self.limit)
        return ", ".join([self.dataset, *more, *["as a web site"] * self.site])


class Variant(Record):
    """One way of answering the questions: a bar or line of a figure, a row of a table."""

    name: str
    system: str
    adapters: Mapping[str, str] = {}
    """Adapter by role, `""` for all others; empty where the user's model answers."""
    settings: Mapping[str, Any] = {}
    preset: str = ""
    sources: tuple[str, ...] = ()
    """All without pictures where empty."""
    search: Literal["", "rerank", "web"] = ""
    """`rerank`: what the index finds is reordered, by the user's model or, for variants with adapters, by MiniLM;
    `web`: the web instead of the index."""
    plans: bool = False
    """Score the planner's plans against the gold ones (needs the MiniLM weights)."""
    named: tuple[str, ...] = ()
    """Settings that the recipe gives to this variant alone."""
    prompts: Literal["compact", "full"] = "compact"
    """The set of prompts of a variant with adapters."""
    max_tokens: Count = 0
    """Longest turn of a variant with adapters; 0 for what suits the embedded model."""

    @property
    def oracle(self) -> bool:
        return ORACLE in self.adapters.values()

    @property
    def needs_minilm(self) -> bool:
        return bool(self.adapters) and (self.plans or self.search == "rerank")


class Training(Record):
    """One run of `subquest train`, whose adapter has its name."""

    name: str
    recipe: Path
    set: Mapping[str, Any] = {}
    start: str = ""
    """The training whose adapter this one starts from, where it is not the study's; `none` is the bare model."""

    def setting(self, key: str) -> Any:
        """A setting of its recipe as this training changes it, `optimiser.steps` say; None where neither gives it."""
        found: Any = read_toml(self.recipe, "the recipe")
        for part in key.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return self.set.get(key, found)

    @property
    def needs_minilm(self) -> bool:
        """Whether its reward compares plans by meaning."""
        return str(self.setting("reward")).startswith("apex-plan")


class Row(Record):
    name: str
    variant: str = ""
    variants: tuple[str, ...] = ()
    """Several variants whose answers are pooled, such as the seeds of one training: each answers its share of a source
    with several parts, and all of a source with a single part."""
    paper: Mapping[str, float] = {}
    """The paper's number by source, or by metric where a claim has several, such as `hotpotqa` or `hotpotqa.f1`."""
    each: tuple[Any, ...] = ()
    """In a recipe: one row per value, which replaces `{}` in the names."""

    @property
    def answered_by(self) -> tuple[str, ...]:
        return self.variants or (self.variant,)

    def takes(self, variant: str, part: str) -> bool:
        """Whether a variant's answers to a part (`world-3`) count in this row."""
        number = part.rpartition("-")[2]
        if variant == self.variant or not number.isdigit():
            return variant in self.answered_by
        return variant in self.variants and int(number) % len(self.variants) == self.variants.index(variant)


class Curve(Record):
    """Figures of a training over its steps."""

    training: str
    figures: tuple[str, ...]


class Level(Record):
    """The claim says that a row loses less than a share of what another one has."""

    row: str
    base: str
    share: float = 0.1


class Claim(Record):
    """A table or figure of a paper, what it is said to show, and what we found."""

    id: str
    paper: str
    place: str
    """Table or figure."""
    says: str
    """What the paper claims."""
    setting: str = ""
    """What the paper's numbers were measured with."""
    note: str = ""
    """What a reader has to know about our rows."""
    finding: str = ""
    """What we found, in words."""
    metrics: tuple[str, ...] = ("em",)
    hops: int = 0
    """Only questions with at least this many hops."""
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

    def printed(self, row: Row, source: str, metric: str) -> float | None:
        """The paper's number in a cell."""
        return row.paper.get(f"{source}.{metric}", row.paper.get(source) if metric == self.metrics[0] else None)


class Study(Record, dict=True):
    """A recipe as it is run: grids and adapters expanded into variants and trainings."""

    name: str
    sources: Mapping[str, Source]
    variants: Mapping[str, Variant]
    claims: tuple[Claim, ...] = ()
    """The tables. A recipe without claims is one table of all its variants."""
    trainings: Mapping[str, Training] = {}
    folder: Path = Path()
    """Where the recipe is."""
    filter: tuple[str, ...] = ()
    """For every source, including those that a user puts in their place."""
    differs: tuple[str, ...] = ()
    """Settings that variants share and in which they may differ (`assemble.fairness`)."""
    shipped: str = ""
    """Digest of the adapter that ships: rows of another one cannot be compared."""
    start: str = ""
    """The training whose adapter all others start from that name no other; itself, it starts from the bare model."""
    model: str = ""
    """The model that its trainings start from and its variants use; the embedded one where empty."""
    parameters: float = 0.0
    """How large that is."""
    findings: Mapping[str, str] = {}
    """What was found, by claim, where the claim does not say it itself."""
    sizes: tuple[str, ...] = ()
    """Folders of the same study on smaller models: its page compares them."""
    origins: Mapping[str, str] = {}
    """By start, the digest of its adapter, or of its recipe as long as it was not made (`stamps.with_origins`)."""

    @functools.cached_property
    def digests(self) -> dict[tuple[str, int, int], str]:
        """Digests of its trainings that were computed, by name and state of the recipe's file (`stamps.known_as`)."""
        return {}

    @property
    def table(self) -> Claim:
        """The one table of a study without claims of its own."""
        if not self.claims:
            raise ConfigError(f"{self.folder}: no table is described; name the file of a study, or give a [[claim]]")
        return self.claims[0]

    @property
    def title(self) -> str:
        return self.table.says

    def number(self, variant: str, source: str) -> dict[str, float]:
        """What the paper measured, by metric."""
        row = next((r for r in self.table.row if r.name == variant), None)
        paper = row.paper if row is not None else {}
        return {m: paper[f"{source}.{m}"] for m in self.table.metrics if f"{source}.{m}" in paper}

    @property
    def numbers(self) -> list[tuple[str, str, dict[str, float]]]:
        """Variant, source and the paper's numbers by metric."""
        sources = [*self.sources, AVERAGE]
        return [(r.name, s, found) for r in self.table.row for s in sources if (found := self.number(r.name, s))]

    # ---- what starts from what

    @property
    def starts(self) -> tuple[str, ...]:
        """Trainings that others start from."""
        named = (self.start, *(t.start for t in self.trainings.values()))
        return tuple(dict.fromkeys(s for s in named if s not in ("", BARE)))

    def start_of(self, training: Training) -> str:
        """The training whose adapter this one starts from; empty where it starts from the bare model."""
        return "" if training.start == BARE or training.name in self.starts else training.start or self.start

    # ---- what is asked

    @property
    def plain_sources(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.sources.values() if s.plain)

    def sources_of(self, variant: Variant) -> tuple[str, ...]:
        """What the rows of a variant show: of its sources those of its claims, or all of them where no row has it."""
        claimed = (c for c in self.claims if any(variant.name in r.answered_by for r in c.row))
        shown = {s for c in claimed for s in self.shown_by(c)}
        found = tuple(s for s in self.sources if s in shown and s in (variant.sources or shown))
        return found or variant.sources or self.plain_sources

    def asked_of(self, variant: Variant) -> tuple[str, ...]:
        """The same, with the questions whose episodes are read."""
        read = [] if variant.oracle else [s.name for s in self.sources.values() if s.episodes]
        return tuple(dict.fromkeys([*self.sources_of(variant), *read]))

    def set_of(self, source: str) -> str:
        """The source by the name that tables and the papers' numbers have."""
        return self.sources[source].set or source

    def asks(self, variant: Variant, part: str) -> bool:
        """Whether a variant is asked a part: not where all its rows take their answers to it from other variants."""
        rows = [r for c in self.claims for r in c.row if variant.name in r.answered_by]
        return not rows or any(r.takes(variant.name, part) for r in rows)

    def shown_by(self, claim: Claim) -> tuple[str, ...]:
        return claim.sources or self.plain_sources

    # ---- selection

    def select(self, patterns: Iterable[str]) -> list[Variant]:
        """Variants by patterns over their names, or by claims; without patterns all, those of the first claims first.
        A pattern after an exclamation mark leaves out what it matches."""
        given = list(patterns)
        wanted = [p for p in given if not p.startswith("!")]
        unwanted = [p[1:] for p in given if p.startswith("!")]
        order = dict.fromkeys([v for c in self.claims for r in c.row for v in r.answered_by] + list(self.variants))
        order = {name: None for name in order if not any(fnmatch(name, p) for p in unwanted)}
        if not wanted:
            return [self.variants[name] for name in order]
        claims = [c for c in self.claims if any(fnmatch(c.id, p) for p in wanted)]
        claimed = {v for c in claims for r in c.row for v in r.answered_by}
        found = [n for n in order if n in claimed or any(fnmatch(n, p) for p in wanted)]
        if not found:
            raise UsageError(f"no variant or claim is called {', '.join(wanted)}; `subquest study claims` lists them")
        return [self.variants[name] for name in found]

    def using(self, patterns: Iterable[str]) -> list[Variant]:
        """Variants that use an adapter of the selected trainings."""
        made = {t.name for t in self.select_trainings(patterns)}
        return [variant for variant in self.select(()) if made & set(variant.adapters.values())]

    def select_trainings(self, patterns: Iterable[str]) -> list[Training]:
        """Trainings by patterns over their names: the starts, then the others, further seeds after the first of all."""
        wanted = [p for p in patterns if not p.startswith("!")] or ["*"]
        found = [t for t in self.trainings.values() if any(fnmatch(t.name, p) for p in wanted)]
        if not found:
            raise UsageError(f"no training is called {', '.join(wanted)}; there are {', '.join(self.trainings)}")
        return sorted(found, key=lambda t: -1 if t.name in self.starts else t.set.get("seed", 0))
