"""Ships, wars, battles and treaties."""

from __future__ import annotations

from .entity import Entity
from .organisations import people_for
from .people import random_date
from .random_stream import RandomStream
from .region import Region
from .text_files import read_lists

_WORDS = read_lists("vocabulary", "words")
SHIP_NAMES, SHIP_NOUNS = _WORDS["ship names"], _WORDS["ship nouns"]


def make_history(region: Region, wanted: dict[str, int]) -> None:
    s = RandomStream(region.seed, region.number, "events")
    _make_ships(region, s, wanted["ship"])
    _make_wars(region, s, wanted["war"])
    for _ in range(wanted["battle"]):
        _make_battle(region, s)
    _make_treaties(region, s, wanted["treaty"])


def _make_ships(region: Region, s: RandomStream, count: int) -> None:
    yards = [c for c in region.kinds["company"] if c.noun == "shipyard"]
    lines = [c for c in region.kinds["company"] if c.noun == "shipping company"]
    famous = s.shuffled([p for p in region.kinds["person"] if 0 < p.year("death_date") < 1990])
    taken: set[str] = set()
    for i in range(count):
        yard, line = s.pick(yards), s.pick(lines)
        launched = s.between(max(yard.year("founded"), line.year("founded"), 1840), 2016)
        prefix = "SS" if launched < 1930 else "MV"
        hero = famous[i] if i < len(famous) and famous[i].year("death_date") < launched and s.chance(0.5) else None
        name = f"{prefix} {hero.name}" if hero else f"{prefix} {s.pick(region.kinds['city']).name} {s.pick(SHIP_NAMES)}"
        while name in taken:
            name = f"{prefix} {s.pick(region.kinds['city']).name} {s.pick(SHIP_NAMES)}"
            hero = None
        taken.add(name)
        ship = region.add("ship", name, s.pick(SHIP_NOUNS))
        if hero:
            ship.facts["named_after"] = hero
        ship.facts |= {"builder": yard, "operator": line, "launched": launched, "length": s.between(48, 290)}
        ship.facts["home_port"] = s.pick(region.kinds["city"])
        for company, inverse in ((yard, "ships_built"), (line, "fleet")):
            company.append(inverse, ship)


def _make_wars(region: Region, s: RandomStream, count: int) -> None:
    taken: set[str] = set()
    year = s.between(1800, 1830)
    for i in range(count):
        enemy = region.neighbours[i % len(region.neighbours)].country
        start = year = year + s.between(4, 30)
        end = start + s.between(1, 6)
        names = [f"{region.adjective}–{enemy.facts['adjective']} War", f"War of the {region.namer.place()} Succession"]
        names.append(f"{region.namer.place()} War")
        name = s.pick([n for n in names if n not in taken])
        taken.add(name)
        war = region.add("war", name, "war")
        war.facts |= {"war_start": start, "war_end": end, "country": region.country, "opponent": enemy}
        year = end


def _make_battle(region: Region, s: RandomStream) -> None:
    war = s.pick(region.kinds["war"])
    fought = {b.one("battle_place").id for b in region.kinds.get("battle", [])}
    place = s.pick([c for c in region.kinds["city"] if c.id not in fought] or region.kinds["city"])
    name = f"{'Siege' if s.chance(0.25) else 'Battle'} of {place.name}"
    battle = region.add("battle", name, name.split()[0].lower())
    year = s.between(war.year("war_start"), war.year("war_end"))
    battle.facts |= {"war": war, "battle_place": place, "battle_date": random_date(s, year)}
    war.append("battles", battle)
    able = people_for(region, year, "general", "naval officer")
    if able:
        commander: Entity = s.pick(able)
        battle.facts["commander"] = commander
        commander.append("commanded", battle)


def _make_treaties(region: Region, s: RandomStream, count: int) -> None:
    wars = s.shuffled(region.kinds["war"])
    hosts = s.shuffled(region.kinds["city"])
    for i in range(count):
        treaty = region.add(
            "treaty", f"{s.pick(('Treaty', 'Treaty', 'Peace', 'Convention'))} of {hosts[i].name}", "treaty"
        )
        treaty.facts["signed_at"] = hosts[i]
        if i < len(wars):
            war = wars[i]
            treaty.facts["ended_war"], war.facts["ended_by"] = war, [treaty]
            treaty.facts["signed_on"] = random_date(s, war.year("war_end"))
            treaty.facts["signatories"] = [region.country, war.one("opponent")]
            for battle in war.many("battles"):
                if battle.facts["battle_date"] > treaty.facts["signed_on"]:  # type: ignore[operator]
                    treaty.facts["signed_on"] = battle.facts["battle_date"]
        else:
            treaty.facts["signed_on"] = random_date(s, s.between(1810, 1995))
            others = [n.country for n in s.sample(region.neighbours, s.between(1, 3))]
            treaty.facts["signatories"] = [region.country, *others]
