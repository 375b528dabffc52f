"""Worlds: a corpus nobody has memorised, its questions and everything needed to check them.

from subquest.worlds import make_world
world = make_world(seed=7, articles=300, questions=40)
world.documents[0].text, world.questions[0].decomposition
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..errors import UsageError
from ..record import Document, Question
from .articles import Article, write_articles
from .chains import Statements
from .entity import Entity
from .geography import KINDS as GEOGRAPHY
from .geography import make_geography, make_hamlet
from .history import make_history
from .organisations import make_careers, make_organisations
from .people import Population, settle
from .phrasing import PHRASINGS
from .questions import POSSIBLE_HOPS, TYPES, make_questions
from .random_stream import RandomStream
from .region import SPLITS, Region
from .works import make_works

REGION_ARTICLES = 800
SMALLEST = 160
LARGEST = 10_000_000
"""Articles or questions of one world."""


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
    """`train` leaves out one phrasing of each relation, `held-out` uses only that one."""
    noise: float = 1.0
    """How many sentences without facts an article has: 0 none, 1 as in an encyclopaedia."""
    near_duplicates: float = 0.04
    """How often a new name repeats or resembles an old one."""
    unanswerable: float = 0.0
    """Share of questions that no article answers; at least one question if it is above 0."""

    def __post_init__(self) -> None:
        if self.articles < SMALLEST:
            raise UsageError(f"a world needs at least {SMALLEST} articles, not {self.articles}")
        if self.questions < 0:
            raise UsageError("the number of questions cannot be negative")
        for what, number in (("articles", self.articles), ("questions", self.questions)):
            if number > LARGEST:
                raise UsageError(f"a world has at most {LARGEST:,} {what}, not {number}")
        if self.split not in SPLITS:
            raise UsageError(f"unknown split {self.split!r}: choose one of {', '.join(SPLITS)}")
        if self.phrasings not in PHRASINGS:
            raise UsageError(f"unknown phrasings {self.phrasings!r}: choose one of {', '.join(PHRASINGS)}")
        if not self.hops or not all(1 <= h <= 8 for h in self.hops):
            raise UsageError("hops must be numbers from 1 to 8")
        for type_ in self.types:
            if type_ not in TYPES:
                raise UsageError(f"unknown question type {type_!r}: choose from {', '.join(TYPES)}")
        if not any(h in POSSIBLE_HOPS[t] for t in self.types for h in self.hops):
            raise UsageError(f"no question of type {', '.join(self.types)} has {', '.join(map(str, self.hops))} hops")
        for name in ("noise", "near_duplicates", "unanswerable"):
            if not 0 <= getattr(self, name) <= (3 if name == "noise" else 1):
                raise UsageError(f"{name} must lie between 0 and {3 if name == 'noise' else 1}")

    @property
    def name(self) -> str:
        return f"world-{self.seed}-{self.split}"

    @property
    def without_answer(self) -> int:
        """Number of questions that no article answers."""
        least = min(1, self.questions) if self.unanswerable else 0
        return max(least, round(self.questions * self.unanswerable))

    @property
    def regions(self) -> list[int]:
        """Number of articles of each region."""
        count = max(2, round(self.articles / REGION_ARTICLES))
        return _shares(self.articles, count)


def _shares(total: int, parts: int) -> list[int]:
    return [total // parts + (i < total % parts) for i in range(parts)]


def _quotas(articles: int) -> dict[str, int]:
    """How many entities of each kind a region with that many articles has, besides its core and its people."""
    shares = {
        "province": (0.006, 0), "city": (0.075, 3), "river": (0.02, 2), "lake": (0.01, 1), "mountain": (0.014, 2),
        "university": (0.007, 1), "company": (0.05, 6), "newspaper": (0.01, 1), "party": (0.006, 2),
        "award": (0.008, 1), "book": (0.065, 5), "film": (0.065, 5), "band": (0.018, 1), "album": (0.036, 3),
        "song": (0.034, 2), "stadium": (0.014, 1), "team": (0.02, 2), "museum": (0.01, 1), "bridge": (0.012, 1),
        "ship": (0.026, 3), "painting": (0.026, 2), "war": (0.005, 1), "battle": (0.018, 2), "treaty": (0.008, 1),
    }  # fmt: skip
    return {kind: max(least, round(articles * share)) for kind, (share, least) in shares.items()}


def make_region(
    seed: int, number: int, articles: int, neighbours: tuple[int, ...], near_duplicates: float = 0.04
) -> Region:
    """A region with exactly that many articles (entities), whose facts do not contradict each other."""
    region = Region(seed, number, neighbours, near_duplicates)
    wanted = _quotas(articles)
    make_geography(region, wanted)
    population = articles - len(region.entities) - sum(wanted[k] for k in wanted if k not in GEOGRAPHY)
    persons = Population(region, population).make()
    settle(region, persons)
    make_organisations(region, wanted)
    make_works(region, wanted)
    make_history(region, wanted)
    make_careers(region)
    while len(region.entities) < articles:
        make_hamlet(region)
    _set_titles(region)
    return region


def _set_titles(region: Region) -> None:
    """Distinguishes entities of the same name by their titles, as encyclopaedias do: "Maren Tolvik (painter)"."""
    groups: dict[str, list[Entity]] = {}
    for entity in region.entities:
        groups.setdefault(entity.name, []).append(entity)
    for name, group in groups.items():
        if len(group) == 1:
            continue
        nouns = [e.noun for e in group]
        for entity in group:
            label = entity.noun
            if nouns.count(label) > 1:
                year = next(
                    (y for y in map(entity.year, ("birth_date", "release_date", "published", "founded")) if y), 0
                )
                label = f"{label}, born {year}" if entity.kind == "person" else f"{year} {label}"
            entity.title = f"{name} ({label})"
    seen: dict[str, int] = {}
    for entity in region.entities:
        seen[entity.title] = seen.get(entity.title, 0) + 1
        if seen[entity.title] > 1:
            entity.title = f"{entity.title} ({seen[entity.title]})"


class Part(NamedTuple):
    """The share of one region in a world."""

    articles: list[Article]
    questions: list[Question]


def make_part(recipe: Recipe, index: int) -> Part:
    """Generates region number `index` of the world, independently of the others."""
    sizes = recipe.regions
    numbers = [k * len(SPLITS) + SPLITS.index(recipe.split) for k in range(len(sizes))]
    s = RandomStream(recipe.seed, numbers[index], "neighbours")
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
        hops=recipe.hops, types=recipe.types, phrasings=recipe.phrasings,
        unanswerable=_shares(recipe.without_answer, len(sizes))[index],
    )  # fmt: skip
    return Part(RandomStream(recipe.seed, numbers[index], "order").shuffled(articles), questions)


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


def make_world(seed: int = 0, articles: int = 1000, questions: int = 200, **options: Any) -> World:
    """A world in memory; `Recipe` documents the options."""
    recipe = Recipe(seed=seed, articles=articles, questions=questions, **options)
    parts = [make_part(recipe, i) for i in range(len(recipe.regions))]
    return World(recipe, tuple(a for p in parts for a in p.articles), tuple(q for p in parts for q in p.questions))
