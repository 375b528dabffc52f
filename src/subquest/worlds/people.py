"""Families: people who are born, study, marry, have children and die in a possible order."""

from __future__ import annotations

from .entity import NOW, Date, Entity
from .random_stream import RandomStream
from .region import Region
from .text_files import read_lists, read_rows

OCCUPATIONS = [(name, int(earliest), float(share)) for name, earliest, share in read_rows("vocabulary", "occupations")]
"""Occupation, earliest year of birth, share."""
SCIENTISTS = ("physicist", "chemist", "botanist", "astronomer", "mathematician", "economist", "historian")
FIELDS = read_lists("vocabulary", "fields")
INSTRUMENTS = read_lists("vocabulary", "words")["instruments"]
LEARNED = (*SCIENTISTS, "architect", "engineer", "physician", "lawyer", "politician", "novelist", "poet", "journalist")


def random_date(stream: RandomStream, year: int) -> Date:
    return Date(year, stream.between(1, 12), stream.between(1, 28))


def alive(person: Entity, year: int, youngest: int = 22, oldest: int = 75) -> bool:
    """Whether the person was alive at the end of that year and of working age in it."""
    born, died = person.year("birth_date"), person.year("death_date") or NOW + 1
    return born + youngest <= year <= born + oldest and year < died


class Population:
    """Fills a region with families until it holds the wanted number of people."""

    def __init__(self, region: Region, count: int) -> None:
        self.region, self.count = region, count
        self.stream = RandomStream(region.seed, region.number, "people")
        self.surnames = [region.namer.surname() for _ in range(min(200, count // 6 + 8))]
        self.given = {g: region.namer.given_names(self.stream, g, 24 + count // 8) for g in ("male", "female")}
        self.names: set[str] = set()
        self.singles: list[tuple[Entity, int]] = []
        self.couples: list[tuple[Entity, Entity, int]] = []
        self.people: list[Entity] = []
        self.family = 0

    def make(self) -> list[Entity]:
        while len(self.people) < self.count:
            if not self.couples:
                self._start_family()
            if self.couples:
                self._add_children(*self.couples.pop(0))
        self._assign_occupations()
        return self.people

    def _has_room(self) -> bool:
        return len(self.people) < self.count

    def _add_person(self, gender: str, surname: str, year: int, given: str = "") -> Entity:
        s = self.stream
        name = f"{given or s.pick(self.given[gender])} {surname}"
        while name in self.names and not s.chance(self.region.near_duplicates):
            name = f"{s.pick(self.given[gender])} {surname}"
            if s.chance(0.3):
                name = f"{s.pick(self.given[gender])} {name}"
        self.names.add(name)
        person = self.region.add("person", name, "person", gender)
        person.facts["birth_date"] = random_date(s, year)
        died = year + s.between(38 if self.family > 2 else 70, 94)
        if died < NOW:
            person.facts["death_date"] = random_date(s, died)
        self.people.append(person)
        return person

    def _start_family(self) -> None:
        s, self.family = self.stream, self.family + 1
        year = 1765 + int(165 * s.random() ** 0.75)
        if self.family <= 2:
            year = s.between(1958, 1966)
        husband = self._add_person("male", s.pick(self.surnames), year)
        if self._has_room():
            self._marry(
                husband, self._add_person("female", s.pick(self.surnames), year + s.between(-6, 6)), self.family
            )

    def _marry(self, a: Entity, b: Entity, family: int) -> None:
        husband, wife = (a, b) if a.gender == "male" else (b, a)
        first = max(husband.year("birth_date"), wife.year("birth_date")) + 20
        last = min(p.year("death_date") or NOW for p in (husband, wife)) - 1
        if first > last:
            return
        husband.facts["spouse"], wife.facts["spouse"] = wife, husband
        husband.facts["marriage_year"] = wife.facts["marriage_year"] = self.stream.between(first, min(last, first + 11))
        self.couples.append((husband, wife, family))

    def _add_children(self, father: Entity, mother: Entity, family: int) -> None:
        s = self.stream
        year = max(father.year("marriage_year"), mother.year("birth_date") + 19)
        surname = father.name.rsplit(" ", 1)[1]
        for n in range(s.weighted(((0, 1), (1, 3), (2, 4), (3, 3), (4, 1.5), (5, 0.5)))):
            year += s.between(1, 4)
            last = min(p.year("death_date") or NOW for p in (father, mother))
            if not self._has_room() or year > min(mother.year("birth_date") + 45, last - 1, 1998):
                return
            gender = "male" if s.chance(0.5) else "female"
            junior = father.name.split(" ")[0] if n == 0 and gender == "male" and s.chance(0.1) else ""
            child = self._add_person(gender, surname, year, junior)
            child.facts["father"], child.facts["mother"] = father, mother
            for parent in (father, mother):
                siblings = parent.many("children")
                parent.facts["children"] = [*siblings, child]
            if year <= 1990 and s.chance(0.75):
                self._find_spouse(child, family)

    def _find_spouse(self, person: Entity, family: int) -> None:
        s, year = self.stream, person.year("birth_date")
        for i, (other, other_family) in enumerate(self.singles):
            near = abs(other.year("birth_date") - year) <= 9
            if near and other.gender != person.gender and other_family != family:
                del self.singles[i]
                self._marry(person, other, family)
                return
        if self._has_room() and s.chance(0.35):
            gender = "female" if person.gender == "male" else "male"
            self._marry(person, self._add_person(gender, s.pick(self.surnames), year + s.between(-6, 6)), family)
        else:
            self.singles.append((person, family))

    def _assign_occupations(self) -> None:
        s = self.stream
        needed = [o for o, _, _ in OCCUPATIONS[:21]]
        for person in s.shuffled(self.people):
            born = person.year("birth_date")
            fit = [(o, w) for o, earliest, w in OCCUPATIONS if born >= earliest]
            wanted = [o for o, _ in fit if o in needed]
            occupation = wanted[0] if wanted else s.weighted(fit)
            if wanted:
                needed.remove(occupation)
            if occupation == "actor" and person.gender == "female":
                occupation = "actress"
            person.facts["occupation"] = person.noun = occupation
            if occupation in FIELDS:
                person.facts["field"] = s.pick(FIELDS[occupation])
            if occupation in ("composer", "pianist", "guitarist", "drummer", "singer"):
                own = {"pianist": "the piano", "guitarist": "the guitar", "drummer": "the drums"}
                person.facts["instrument"] = own.get(occupation) or s.pick(INSTRUMENTS)


def settle(region: Region, people: list[Entity]) -> None:
    """Gives people a birthplace, citizenship, university and place of death."""
    s = RandomStream(region.seed, region.number, "settle")
    cities = region.kinds["city"]
    for p in people:
        home = region.foreign_city(s) if s.chance(0.08) else None
        if home is None:
            father = p.facts.get("father")
            if isinstance(father, Entity) and "home" in father.facts and s.chance(0.45):
                home = father.one("home")
            else:
                home = s.pick(cities)
        p.facts["home"] = home if home.region == region.number else s.pick(cities)
        p.facts["birth_place"] = home
        p.facts["citizenship"] = region.country
        if "death_date" in p.facts:
            abroad = region.foreign_city(s) if s.chance(0.1) else None
            p.facts["death_place"] = abroad or s.pick(cities)
        if s.chance(0.8 if p.noun in LEARNED else 0.15):
            old = [u for u in region.kinds["university"] if u.year("founded") <= p.year("birth_date") + 17]
            abroad = region.foreign_university(s) if s.chance(0.15) else None
            if abroad and abroad.year("founded") <= p.year("birth_date") + 17:
                p.facts["educated_at"] = abroad
            elif old:
                p.facts["educated_at"] = s.pick(old)
    scholars = [p for p in people if p.noun in SCIENTISTS]
    for p in scholars:
        born = p.year("birth_date")
        older = [
            q for q in scholars if q.year("birth_date") <= born - 14 and (q.year("death_date") or NOW) >= born + 27
        ]
        if older and s.chance(0.7):
            advisor = s.pick(older)
            p.facts["advisor"] = advisor
            advisor.append("students_of", p)
    for p in people:
        p.facts.pop("home", None)
        if p.noun in ("novelist", "poet", "singer", "actor", "actress", "painter") and s.chance(0.12):
            p.aliases.append(f"{p.name.split(' ')[0]} {region.namer.surname()}")
