"""Worlds: a corpus nobody has memorised, its questions and everything needed to check them.

from subquest.worlds import make_world
world = make_world(seed=7, articles=300, questions=40)
world.documents[0].text, world.questions[0].decomposition
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..codec import to_dict
from ..errors import UsageError
from ..process import end_with_parent
from ..record import Document, Question
from .articles import Article, write_articles
from .chains import PHRASINGS, Statements
from .questions import POSSIBLE, TYPES, make_questions
from .region import SPLITS, make_region
from .stream import Stream

REGION_ARTICLES = 800
SMALLEST = 160
FORMAT = 1
"""Raised when the same recipe no longer gives the same bytes."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what a world looks like; the same recipe gives the same bytes."""

    seed: int = 0
    articles: int = 1000
    questions: int = 200
    split: str = "train"
    """Worlds of one seed and different splits share no entity."""
    hops: tuple[int, ...] = (1, 2, 3, 4)
    types: tuple[str, ...] = TYPES
    phrasings: str = "all"
    """`train` leaves one phrasing of each kind out, `held-out` uses only those."""
    noise: float = 1.0
    """How much colour stands between the facts: 0 none, 1 as in an encyclopaedia."""
    near_duplicates: float = 0.04
    """How often a new name repeats or resembles an old one."""
    unanswerable: float = 0.0
    """Share of questions that no article answers."""

    def __post_init__(self) -> None:
        if self.articles < SMALLEST:
            raise UsageError(f"a world needs at least {SMALLEST} articles, not {self.articles}")
        if self.questions < 0:
            raise UsageError("the number of questions cannot be negative")
        if self.split not in SPLITS:
            raise UsageError(f"unknown split {self.split!r}: choose one of {', '.join(SPLITS)}")
        if self.phrasings not in PHRASINGS:
            raise UsageError(f"unknown phrasings {self.phrasings!r}: choose one of {', '.join(PHRASINGS)}")
        if not self.hops or not all(1 <= h <= 8 for h in self.hops):
            raise UsageError("hops must be numbers from 1 to 8")
        for type_ in self.types:
            if type_ not in TYPES:
                raise UsageError(f"unknown question type {type_!r}: choose from {', '.join(TYPES)}")
        if not any(h in POSSIBLE[t] for t in self.types for h in self.hops):
            raise UsageError(f"no question of type {', '.join(self.types)} has {', '.join(map(str, self.hops))} hops")
        for name in ("noise", "near_duplicates", "unanswerable"):
            if not 0 <= getattr(self, name) <= (3 if name == "noise" else 1):
                raise UsageError(f"{name} must lie between 0 and {3 if name == 'noise' else 1}")

    @property
    def name(self) -> str:
        return f"world-{self.seed}-{self.split}"

    @property
    def regions(self) -> list[int]:
        """Number of articles of each region."""
        count = max(2, round(self.articles / REGION_ARTICLES))
        return _shares(self.articles, count)


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]


class Part(NamedTuple):
    """One finished region: articles and questions."""

    articles: list[Article]
    questions: list[Question]


def make_part(recipe: Recipe, index: int) -> Part:
    """Region number `index` of the world, made without any other."""
    sizes = recipe.regions
    numbers = [k * len(SPLITS) + SPLITS.index(recipe.split) for k in range(len(sizes))]
    s = Stream(recipe.seed, numbers[index], "neighbours")
    others = [numbers[(index + 1) % len(numbers)]]
    for _ in range(min(5, len(numbers) - 2) * 2):
        other = numbers[s.below(len(numbers))]
        if other != numbers[index] and other not in others and len(others) < 6:
            others.append(other)
    region = make_region(recipe.seed, numbers[index], sizes[index], tuple(others), recipe.near_duplicates)
    statements, articles = Statements(), []
    for article in write_articles(region, recipe.noise):
        statements.add(article)
        articles.append(article)
    questions = make_questions(
        region, statements, _shares(recipe.questions, len(sizes))[index], world=recipe.name, split=recipe.split,
        hops=recipe.hops, types=recipe.types, phrasings=recipe.phrasings, unanswerable=recipe.unanswerable,
    )  # fmt: skip
    return Part(Stream(recipe.seed, numbers[index], "order").shuffled(articles), questions)


@dataclass(frozen=True, slots=True)
class World:
    """A world in memory."""

    recipe: Recipe
    articles: tuple[Article, ...] = field(repr=False)
    questions: tuple[Question, ...] = field(repr=False)

    @property
    def documents(self) -> list[Document]:
        return [document(a) for a in self.articles]

    @property
    def redirects(self) -> dict[str, str]:
        """Alias to title."""
        return {alias: a.entity.title for a in self.articles for alias in a.entity.aliases}


def document(article: Article) -> Document:
    e = article.entity
    return Document(e.id, e.title, article.text, {"kind": e.kind, "aliases": list(e.aliases)})


def make_world(seed: int = 0, articles: int = 1000, questions: int = 200, **knobs: Any) -> World:
    """A world in memory; for the knobs see `Recipe`."""
    recipe = Recipe(seed=seed, articles=articles, questions=questions, **knobs)
    parts = [make_part(recipe, i) for i in range(len(recipe.regions))]
    return World(recipe, tuple(a for p in parts for a in p.articles), tuple(q for p in parts for q in p.questions))


class Written(NamedTuple):
    """What `write_world` wrote."""

    folder: Path
    articles: int
    questions: int


FILES = ("corpus.jsonl", "facts.jsonl", "questions.jsonl", "redirects.jsonl")


def write_world(out: Path, recipe: Recipe, workers: int = 1) -> Written:
    """Streams a world of any size into a folder; `world.json` is written last and names every file's checksum."""
    out.mkdir(parents=True, exist_ok=True)
    counts, sums = dict.fromkeys(FILES, 0), {name: hashlib.sha256() for name in FILES}
    handles = {name: (out / f"{name}.part").open("wb") for name in FILES}
    try:
        for blocks in _parts(recipe, workers):
            for name, block in zip(FILES, blocks, strict=True):
                handles[name].write(block)
                sums[name].update(block)
                counts[name] += block.count(b"\n")
    finally:
        for handle in handles.values():
            handle.close()
    for name in FILES:
        os.replace(out / f"{name}.part", out / name)
    manifest = {
        "format": FORMAT,
        "recipe": asdict(recipe),
        "files": {name: {"lines": counts[name], "sha256": sums[name].hexdigest()} for name in FILES},
    }
    (out / "world.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return Written(out, counts["corpus.jsonl"], counts["questions.jsonl"])


def _parts(recipe: Recipe, workers: int) -> Iterator[Sequence[bytes]]:
    jobs = [(recipe, i) for i in range(len(recipe.regions))]
    if workers <= 1 or len(jobs) < 3:
        yield from map(_blocks, jobs)
        return
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(min(workers, len(jobs)), end_with_parent) as pool:
        yield from pool.imap(_blocks, jobs)


def _blocks(job: tuple[Recipe, int]) -> tuple[bytes, ...]:
    """A region as the bytes of each file."""
    part = make_part(*job)
    corpus, facts, redirects = [], [], []
    for article in part.articles:
        e = article.entity
        corpus.append({"id": e.id, "title": e.title, "text": article.text})
        facts.append(fact_row(article))
        redirects += [{"alias": alias, "title": e.title, "id": e.id} for alias in e.aliases]
    questions = [to_dict(q) for q in part.questions]
    return tuple(_lines(rows) for rows in (corpus, facts, questions, redirects))


def fact_row(article: Article) -> dict[str, Any]:
    """An article's line of `facts.jsonl`: each fact with the place of its surface form in the text."""
    e = article.entity
    stated = [[f.subject, f.relation, f.object, start, start + len(f.surface)] for f, start in article.facts]
    row: dict[str, Any] = {"id": e.id, "name": e.name, "kind": e.kind, "aliases": e.aliases, "facts": stated}
    if "adjective" in e.facts:
        row["adjective"] = e.facts["adjective"]
    return row


def _lines(rows: Sequence[Any]) -> bytes:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return "".join(encode(row) + "\n" for row in rows).encode()
