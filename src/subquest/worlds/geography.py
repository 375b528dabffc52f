"""Provinces, towns, rivers, lakes, mountains and universities."""

from __future__ import annotations

from .entity import Entity
from .random_stream import RandomStream
from .region import Region
from .text_files import read_lists

KINDS = ("province", "city", "river", "lake", "mountain", "university")
PREFIXES = read_lists("vocabulary", "words")["town prefixes"]
"""Put before the name of another town to make one that resembles it."""


def make_geography(region: Region, wanted: dict[str, int]) -> None:
    s = RandomStream(region.seed, region.number, "places")
    for _ in range(wanted["province"]):
        region.province(s)
    provinces = region.kinds["province"]
    for i in range(wanted["city"]):
        city = _make_town(region, s, provinces[(i + 2) % len(provinces)])
        province = city.one("province")
        if "seat" not in province.facts:
            province.facts["seat"], city.noun = city, "city"
            city.facts["population"] = s.between(18_000, 420_000)
    for province in provinces:
        if "seat" not in province.facts:
            province.facts["seat"] = next((c for c in region.kinds["city"] if c.one("province") is province), None) or (
                _move_town(region, province)
            )
    for _ in range(wanted["lake"]):
        lake = region.add("lake", f"Lake {region.namer.place()}", "lake")
        lake.facts |= {"province": s.pick(provinces), "area": s.between(3, 900), "depth": s.between(6, 310)}
    tallest = s.between(1_900, 5_400)
    for i in range(wanted["mountain"]):
        mountain = region.add("mountain", f"Mount {region.namer.place()}", "mountain")
        mountain.facts["province"] = s.pick(provinces)
        mountain.facts["height"] = tallest if i == 0 else s.between(700, tallest - 20)
    region.country.facts["highest_point"] = region.kinds["mountain"][0]
    _make_rivers(region, s, wanted["river"])
    _make_universities(region, s, wanted["university"])
    for city in region.kinds["city"]:
        city.facts["elevation"] = s.between(2, 1_150)
        if s.chance(0.7):
            city.facts["river"] = s.pick(region.kinds["river"])
    shuffled = s.shuffled(region.kinds["city"])
    for a, b in zip(shuffled[::4], shuffled[1::4], strict=False):
        a.facts["twin_town"], b.facts["twin_town"] = b, a
    _set_populations(region, s)


def _move_town(region: Region, province: Entity) -> Entity:
    """Moves a town that is not a seat into a province without a town, as its seat."""
    seats = [p.facts.get("seat") for p in region.kinds["province"]]
    city = next(c for c in reversed(region.kinds["city"]) if c not in seats and not c.core)
    city.facts["province"] = province
    city.noun = "city"
    return city


def _make_town(region: Region, s: RandomStream, province: Entity) -> Entity:
    city = region.city(s, province)
    twins = [c for c in region.kinds["city"] if not c.core and " " not in c.name and c is not city]
    if twins and s.chance(region.near_duplicates * 2):
        taken = {c.name for c in region.kinds["city"]}
        near = f"{s.pick(PREFIXES)} {s.pick(twins).name}"
        if near not in taken:
            city.name = city.title = near
    city.noun = s.pick(("town", "town", "village", "city"))
    most = {"village": 2_400, "town": 34_000, "city": 210_000}[city.noun]
    city.facts["population"] = s.between(most // 12, most)
    if s.chance(0.15):
        city.aliases.append(region.namer.place())
    return city


def make_hamlet(region: Region) -> Entity:
    """One more village, to fill a region up to its number of articles."""
    s = RandomStream(region.seed, region.number, "hamlet", len(region.entities))
    city = _make_town(region, s, s.pick(region.kinds["province"]))
    city.facts["elevation"] = s.between(2, 1_150)
    return city


def _make_rivers(region: Region, s: RandomStream, count: int) -> None:
    lengths = sorted((s.between(24, 900) for _ in range(count)), reverse=True)
    for i, length in enumerate(lengths):
        if i and length >= lengths[i - 1]:
            lengths[i] = length = lengths[i - 1] - 1
        river = region.add("river", f"{region.namer.place()} River", "river")
        if s.chance(0.4):
            river.name = river.title = "River " + river.name.removesuffix(" River")
        river.facts["length"] = max(5, length)
        river.facts["source"] = s.pick(region.kinds["mountain"])
        if i and s.chance(0.75):
            mouth = s.pick(region.kinds["river"][:i])
            mouth.append("tributaries", river)
            river.facts["mouth"] = mouth
        else:
            river.facts["mouth"] = s.pick(region.kinds["lake"])
    region.country.facts["longest_river"] = region.kinds["river"][0]


def _make_universities(region: Region, s: RandomStream, count: int) -> None:
    homes = {u.one("city").id for u in region.kinds["university"]}
    for city in s.sample([c for c in region.kinds["city"] if c.id not in homes and " " not in c.name], count):
        region.university(s, city)
    for university in region.kinds["university"]:
        university.facts["students"] = s.between(900, 42_000)


def _set_populations(region: Region, s: RandomStream) -> None:
    total = 0
    for province in region.kinds["province"]:
        towns = sum(c.amount("population") for c in region.kinds["city"] if c.one("province") is province)
        province.facts["population"] = int(towns * (1.3 + s.random()))
        total += province.amount("population")
    region.country.facts["population"] = total
    region.country.facts["area"] = sum(p.amount("area") for p in region.kinds["province"]) + s.between(100, 2_000)
