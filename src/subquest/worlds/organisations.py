"""Companies, newspapers, parties, awards, teams and buildings, and the careers people make in them."""

from __future__ import annotations

from .entity import NOW, Entity
from .people import SCIENTISTS, alive
from .random_stream import RandomStream
from .region import Region
from .text_files import alternatives, read_lists, read_rows

INDUSTRIES = {
    industry: (noun, int(earliest), alternatives(patterns))
    for industry, noun, earliest, patterns in read_rows("vocabulary", "industries")
}
"""Industry to the noun of its companies, the earliest founding and the patterns of their names."""
NAMES = read_lists("vocabulary", "names")
NICKNAMES = read_lists("vocabulary", "words")["nicknames"]
MAKERS = ("shipbuilding", "shipping", "film production", "publishing", "recorded music")


def people_for(region: Region, year: int, *occupations: str, oldest: int = 75) -> list[Entity]:
    """People of these occupations (any where none is named) who could have done it that year."""
    return [
        p for p in region.kinds["person"] if (not occupations or p.noun in occupations) and alive(p, year, 24, oldest)
    ]


def make_organisations(region: Region, wanted: dict[str, int]) -> None:
    s = RandomStream(region.seed, region.number, "organisations")
    taken: set[str] = {e.name for e in region.entities}
    for i in range(wanted["company"]):
        industry = MAKERS[i] if i < len(MAKERS) else s.pick(tuple(INDUSTRIES))
        _make_company(region, s, industry, taken)
    for _ in range(wanted["newspaper"]):
        _make_newspaper(region, s, taken)
    for _ in range(wanted["party"]):
        _make_party(region, s, taken)
    for _ in range(wanted["award"]):
        _make_award(region, s, taken)
    _make_sports(region, s, wanted, taken)
    _make_buildings(region, s, wanted, taken)


def _set_founder(region: Region, s: RandomStream, entity: Entity, earliest: int, *occupations: str) -> Entity | None:
    """Gives an organisation a founder who was of age, and the year it was founded."""
    able = [p for p in region.kinds["person"] if (not occupations or p.noun in occupations)]
    for founder in s.sample(able, 12) + s.sample(region.kinds["person"], 20):
        last = min(founder.year("birth_date") + 52, (founder.year("death_date") or NOW) - 1, 2014)
        first = max(founder.year("birth_date") + 24, earliest)
        if first <= last:
            entity.facts["founded"] = s.between(first, last)
            entity.facts["founder"] = founder
            founder.append("foundations", entity)
            return founder
    entity.facts["founded"] = s.between(max(earliest, 1850), 2005)
    return None


def _appoint(
    s: RandomStream, entity: Entity, office: str, inverse: str, candidates: list[Entity], chance: float = 1.0
) -> None:
    """Gives the office to one of the candidates who does not hold one like it."""
    free = [p for p in candidates if inverse not in p.facts]
    if free and (chance == 1.0 or s.chance(chance)):
        holder = s.pick(free)
        entity.facts[office], holder.facts[inverse] = holder, [entity]


def _name(s: RandomStream, patterns: tuple[str, ...], stems: list[str], taken: set[str]) -> str:
    """A name that nothing else in the region has."""
    for _ in range(40):
        name = s.pick(patterns).format(s.pick(stems))
        if name not in taken:
            taken.add(name)
            return name
    name = f"{s.pick(patterns).format(s.pick(stems))} {len(taken)}"
    taken.add(name)
    return name


def _make_company(region: Region, s: RandomStream, industry: str, taken: set[str]) -> None:
    noun, earliest, patterns = INDUSTRIES[industry]
    company = region.add("company", "", noun)
    founder = _set_founder(region, s, company, earliest, "entrepreneur", "engineer")
    city = s.pick(region.kinds["city"])
    stems = [city.name.split(" ")[-1]]
    if founder:
        stems += [founder.name.rsplit(" ", 1)[1]] * 2
    company.name = company.title = _name(s, patterns, [*stems, s.pick(region.kinds["city"]).name.split(" ")[-1]], taken)
    company.facts |= {"headquarters": city, "industry": industry, "employees": s.between(12, 380) * 10 + s.below(10)}
    older = [c for c in region.kinds["company"][:-1] if c.year("founded") < company.year("founded")]
    if older and s.chance(0.18):
        parent = s.pick(older)
        company.facts["parent"] = parent
        parent.append("subsidiaries", company)
    occupations = ("entrepreneur", "engineer", "economist", "lawyer", "chemist", "journalist")
    bosses = people_for(region, NOW, *occupations, oldest=72)
    _appoint(s, company, "chief_executive", "chief_of", bosses, chance=0.8)
    words = company.name.replace("&", "").split()
    if len(words) > 2 and s.chance(0.6):
        short = "".join(w[0] for w in words if w[0].isupper()) + str(company.year("founded"))[2:]
        company.aliases.append(short)


def _make_newspaper(region: Region, s: RandomStream, taken: set[str]) -> None:
    paper = region.add("newspaper", "", "newspaper")
    city = s.pick(region.kinds["city"])
    paper.name = paper.title = _name(s, NAMES["newspaper"], [city.name], taken)
    paper.facts["city"] = city
    _set_founder(region, s, paper, 1800, "journalist", "politician", "poet")
    _appoint(s, paper, "editor", "edits", people_for(region, NOW, "journalist", "novelist", "historian"))


def _make_party(region: Region, s: RandomStream, taken: set[str]) -> None:
    party = region.add("party", "", "political party")
    pattern = s.pick(NAMES["party"])
    stem = region.country.name if pattern.endswith("{}") else region.adjective
    others = [p for p in NAMES["party"] if not p.endswith("{}")]
    party.name = party.title = _name(s, (pattern, *others), [stem], taken)
    _set_founder(region, s, party, 1860, "politician", "lawyer", "journalist")
    party.facts["headquarters"] = s.pick(region.kinds["city"][:6])
    _appoint(s, party, "leader", "leads_party", people_for(region, NOW, "politician", "lawyer", "economist"))


def _make_award(region: Region, s: RandomStream, taken: set[str]) -> None:
    award = region.add("award", "", "award")
    dead = [p for p in region.kinds["person"] if 1800 < p.year("death_date") < 1990]
    if dead:
        hero = s.pick(dead)
        award.facts["named_after"] = hero
        stem, first = hero.name.rsplit(" ", 1)[1], hero.year("death_date") + s.between(2, 30)
    else:
        stem, first = s.pick(region.kinds["city"]).name, s.between(1880, 1960)
    award.name = award.title = _name(s, NAMES["award"], [stem], taken)
    award.facts["first_awarded"] = first
    presenters = [*region.kinds["university"], *region.kinds["newspaper"]]
    award.facts["presenter"] = s.pick(
        [p for p in presenters if p.year("founded") < first] or region.kinds["university"]
    )


def _make_sports(region: Region, s: RandomStream, wanted: dict[str, int], taken: set[str]) -> None:
    leagues = (
        f"{region.adjective} Premier League",
        f"{region.country.name} First Division",
        f"{region.adjective} Championship",
    )
    for _ in range(wanted["stadium"]):
        city = s.pick(region.kinds["city"])
        stadium = region.add("stadium", _name(s, NAMES["stadium"], [city.name], taken), "stadium")
        stadium.facts |= {"city": city, "capacity": s.between(21, 720) * 100, "opened": s.between(1905, 2018)}
        _set_designer(region, s, stadium, "architect", "architect", "designed")
    for i in range(wanted["team"]):
        stadiums = region.kinds["stadium"]
        stadium = stadiums[i] if i < len(stadiums) else s.pick(stadiums)
        city = stadium.one("city")
        team = region.add("team", _name(s, NAMES["team"], [city.name], taken), "football club")
        team.facts |= {"city": city, "stadium": stadium, "founded": s.between(1875, 1962), "league": s.pick(leagues)}
        team.facts["nickname"] = f"the {s.pick(NICKNAMES)}"
        coaches = people_for(region, NOW, "football manager", "footballer", oldest=70)
        _appoint(s, team, "coach", "coaches", [p for p in coaches if p.year("birth_date") < 1988])


def _set_designer(
    region: Region, s: RandomStream, building: Entity, occupation: str, relation: str, inverse: str
) -> None:
    able = people_for(region, building.year("opened"), occupation)
    if able:
        designer = s.pick(able)
        building.facts[relation] = designer
        designer.append(inverse, building)


def _make_buildings(region: Region, s: RandomStream, wanted: dict[str, int], taken: set[str]) -> None:
    for _ in range(wanted["museum"]):
        city = s.pick(region.kinds["city"])
        museum = region.add("museum", _name(s, NAMES["museum"], [city.name], taken), "museum")
        museum.facts |= {"city": city, "opened": s.between(1825, 1995)}
        _set_designer(region, s, museum, "architect", "architect", "designed")
    for _ in range(wanted["bridge"]):
        cities = [c for c in region.kinds["city"] if "river" in c.facts] or region.kinds["city"]
        city = s.pick(cities)
        name = _name(s, NAMES["bridge"], [city.name, region.namer.surname()], taken)
        bridge = region.add("bridge", name, "bridge")
        river = city.facts.get("river") or s.pick(region.kinds["river"])
        bridge.facts |= {"city": city, "river": river, "length": s.between(38, 940), "opened": s.between(1830, 2012)}
        _set_designer(region, s, bridge, "engineer", "engineer", "engineered")


def make_careers(region: Region) -> None:
    """Gives people offices, employers, teams, parties and prizes, once everything that they can belong to exists."""
    s = RandomStream(region.seed, region.number, "careers")
    politicians = s.shuffled(people_for(region, NOW, "politician", "lawyer", "economist", oldest=78))
    offices = [(region.country, "head_of_state", "leads_country")]
    offices += [(p, "governor", "governs") for p in region.kinds["province"]]
    offices += [(c, "mayor", "mayor_of") for c in region.kinds["city"] if c.noun != "village"]
    for (place, relation, inverse), person in zip(offices, politicians, strict=False):
        place.facts[relation], person.facts[inverse] = person, [place]
    for university in region.kinds["university"]:
        scholars = people_for(region, NOW, *SCIENTISTS, "physician", oldest=74)
        _appoint(s, university, "chancellor", "chancellor_of", scholars)
    climbers = [p for p in region.kinds["person"] if p.noun in ("mountaineer", "botanist", "physician")]
    for mountain in region.kinds["mountain"]:
        if climbers:
            climber = s.pick(climbers)
            last = min(climber.year("birth_date") + 50, (climber.year("death_date") or NOW) - 1)
            mountain.facts["first_ascent"] = s.between(climber.year("birth_date") + 19, last)
            mountain.facts["first_climber"] = climber
            climber.append("climbed", mountain)
    for person in region.kinds["person"]:
        _make_career(region, s, person)


def _make_career(region: Region, s: RandomStream, person: Entity) -> None:
    born, died = person.year("birth_date"), person.year("death_date") or NOW
    active = min(born + 30, died)
    places: list[Entity] = []
    if person.noun in SCIENTISTS:
        places = region.kinds["university"]
    elif person.noun == "journalist":
        places = region.kinds["newspaper"]
    elif person.noun in ("engineer", "economist", "lawyer", "chemist", "entrepreneur"):
        places = region.kinds["company"]
    places = [e for e in places if e.year("founded") < active]
    if places and s.chance(0.75):
        person.facts["employer"] = s.pick(places)
    if person.noun == "politician":
        parties = [p for p in region.kinds["party"] if p.year("founded") <= active]
        if "leads_party" in person.facts:
            person.facts["party"] = person.many("leads_party")[0]
        elif parties:
            person.facts["party"] = s.pick(parties)
    if person.noun == "footballer":
        teams = [t for t in region.kinds["team"] if t.year("founded") <= born + 18]
        if teams:
            person.facts["team"] = team = s.pick(teams)
            team.append("players", person)
    prizes = [a for a in region.kinds["award"] if a.facts.get("named_after") is not person]
    prizes = [a for a in prizes if max(a.year("first_awarded"), born + 28) < died]
    if prizes and s.chance(0.22):
        prize = s.pick(prizes)
        person.facts["award"] = prize
        person.facts["award_year"] = s.between(max(prize.year("first_awarded"), born + 28), min(died - 1, born + 80))
