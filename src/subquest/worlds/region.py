"""Regions: a world is made of countries, each small enough to hold in memory and made on its own.

Regions know each other by their *core* only: the country, a few towns and one university, which can be made from the
seed in no time. A person may be born in a foreign town or study at a foreign university, countries sign treaties and
fight wars; everything else stays inside its region, so regions can be made in any order and in parallel.
"""

from __future__ import annotations

import functools

from .entity import Entity
from .names import Namer, Titler
from .stream import Stream

SPLITS = ("train", "dev", "test")


class Core:
    """What other regions may refer to."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.namer = Namer(seed, number)
        self.entities: list[Entity] = []
        self.kinds: dict[str, list[Entity]] = {}
        s = Stream(seed, number, "core")
        name, adjective = self.namer.country()
        self.country = country = self.add("country", name, s.pick(("country", "republic", "kingdom")))
        self.adjective = adjective
        country.aliases.append(f"{country.noun.capitalize() if country.noun != 'country' else 'Union'} of {name}")
        country.facts["adjective"] = adjective
        country.facts["language"] = name.rstrip("aeiouy") + s.pick(("ese", "ish", "ic"))
        country.facts["currency"] = f"{adjective} {s.pick(self.namer.language.currencies)}"
        country.facts["independence"] = s.between(1780, 1960)
        provinces = [self.province(s) for _ in range(2)]
        for i in range(4):
            city = self.city(s, provinces[i % 2])
            city.facts["population"] = s.between(90_000, 2_400_000) if i == 0 else s.between(12_000, 380_000)
            city.noun = "city"
            if i < 2:
                provinces[i].facts["seat"] = city
        country.facts["capital"] = self.kinds["city"][0]
        self.university(s, self.kinds["city"][s.below(2)])
        for entity in self.entities:
            entity.core = True

    def add(self, kind: str, name: str, noun: str, gender: str = "it") -> Entity:
        entity = Entity(f"r{self.number}-{len(self.entities)}", kind, name, noun, self.number, gender)
        self.entities.append(entity)
        self.kinds.setdefault(kind, []).append(entity)
        return entity

    def province(self, s: Stream) -> Entity:
        province = self.add("province", f"{self.namer.place()} Province", "province")
        if s.chance(0.4):
            province.name = province.title = province.name.replace("Province", s.pick(("County", "District")))
            province.noun = province.name.rsplit(" ", 1)[1].lower()
        province.facts["country"] = self.country
        province.facts["area"] = s.between(800, 30_000)
        return province

    def city(self, s: Stream, province: Entity) -> Entity:
        city = self.add("city", self.namer.place(), "town")
        city.facts["province"] = province
        city.facts["founded"] = s.between(870, 1740)
        return city

    def university(self, s: Stream, city: Entity) -> Entity:
        forms = ("University of {}", "{} University", "{} Technical University", "{} Institute of Sciences")
        university = self.add("university", s.pick(forms).format(city.name), "university")
        if "Institute" in university.name:
            university.noun = "institute"
        university.facts["city"] = city
        university.facts["founded"] = max(s.between(1210, 1785), city.year("founded") + 40)
        return university


@functools.lru_cache(maxsize=256)
def foreign_core(seed: int, number: int) -> Core:
    """The core of another region, for reference only: never change it."""
    return Core(seed, number)


class Region(Core):
    """A whole region with its entities; made by `make_region`."""

    def __init__(self, seed: int, number: int, neighbours: tuple[int, ...], near_duplicates: float) -> None:
        super().__init__(seed, number)
        self.titler = Titler(seed, number)
        self.near_duplicates = near_duplicates
        self.neighbours = [foreign_core(seed, n) for n in neighbours]

    def foreign_city(self, s: Stream) -> Entity | None:
        return s.pick(s.pick(self.neighbours).kinds["city"]) if self.neighbours else None

    def foreign_university(self, s: Stream) -> Entity | None:
        return s.pick(self.neighbours).kinds["university"][0] if self.neighbours else None


def quotas(articles: int) -> dict[str, int]:
    """How many entities of each kind a region with that many articles has, the core and the people left out."""
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
    """A region with exactly that many articles (entities), every fact of which agrees with every other."""
    from . import events, organisations, people, places, works

    region = Region(seed, number, neighbours, near_duplicates)
    wanted = quotas(articles)
    places.make_places(region, wanted)
    population = articles - len(region.entities) - sum(wanted[k] for k in wanted if k not in places.KINDS)
    persons = people.People(region, population).make()
    people.settle(region, persons)
    organisations.make_organisations(region, wanted)
    works.make_works(region, wanted)
    events.make_events(region, wanted)
    organisations.make_careers(region)
    while len(region.entities) < articles:
        places.make_hamlet(region)
    _entitle(region)
    return region


def _entitle(region: Region) -> None:
    """Titles that tell entities of the same name apart, as encyclopaedias do: "Maren Tolvik (painter)"."""
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
