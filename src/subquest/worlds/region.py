"""Regions: a world consists of countries, each small enough to hold in memory and generated on its own.

Regions know only each other's *core*: the country, a few towns and one university, which can be generated from the
seed alone. A person may be born in a foreign town or study at a foreign university, countries sign treaties and fight
wars; everything else stays inside its region, so regions can be generated in any order and in parallel.
"""

from __future__ import annotations

import functools

from .entity import Entity
from .names import Namer, Titler
from .random_stream import RandomStream
from .text_files import read_lists

SPLITS = ("train", "dev", "test")
UNIVERSITIES = read_lists("vocabulary", "names")["university"]


class Core:
    """What other regions may refer to."""

    def __init__(self, seed: int, number: int) -> None:
        self.seed, self.number = seed, number
        self.namer = Namer(seed, number)
        self.entities: list[Entity] = []
        self.kinds: dict[str, list[Entity]] = {}
        s = RandomStream(seed, number, "core")
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

    def province(self, s: RandomStream) -> Entity:
        province = self.add("province", f"{self.namer.place()} Province", "province")
        if s.chance(0.4):
            province.name = province.title = province.name.replace("Province", s.pick(("County", "District")))
            province.noun = province.name.rsplit(" ", 1)[1].lower()
        province.facts["country"] = self.country
        province.facts["area"] = s.between(800, 30_000)
        return province

    def city(self, s: RandomStream, province: Entity) -> Entity:
        city = self.add("city", self.namer.place(), "town")
        city.facts["province"] = province
        city.facts["founded"] = s.between(870, 1740)
        return city

    def university(self, s: RandomStream, city: Entity) -> Entity:
        university = self.add("university", s.pick(UNIVERSITIES).format(city.name), "university")
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

    def foreign_city(self, s: RandomStream) -> Entity | None:
        return s.pick(s.pick(self.neighbours).kinds["city"]) if self.neighbours else None

    def foreign_university(self, s: RandomStream) -> Entity | None:
        return s.pick(self.neighbours).kinds["university"][0] if self.neighbours else None
