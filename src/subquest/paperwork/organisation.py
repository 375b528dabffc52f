"""The facts of one invented organisation, drawn at random and the same for the same seed.

Names of people, sites, suppliers and projects, and the letters of numbers such as `KVT-C17`, are used by one
organisation of a seed only, so the papers of many can lie in one index. No date, sum or number occurs twice in an
organisation: where one stands, it can only mean one fact.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

from ..codec import Record
from ..english import day_in_words
from ..worlds.random_stream import Permutation, RandomStream
from .relations import RELATIONS, Relation, of_kind

PEOPLE, SITES, TEAMS, SUPPLIERS, CONTRACTS, EQUIPMENT, INCIDENTS, PROJECTS = 12, 3, 4, 4, 3, 8, 3, 2
STRANGERS = 6
"""Names of each kind that are given to nothing, for questions about what does not exist."""
HELD_BACK = 0.12
"""Share of facts that no paper states."""
STRUCTURE = {("contract", "supplier"), ("incident", "item"), ("person", "line manager"), ("equipment", "what it is")}
"""Facts that are never held back: others could be guessed from what is left, or nothing could be said."""


class Thing(Record):
    name: str
    kind: str


class Fact(Record):
    subject: str
    kind: str
    """Of the subject."""
    relation: str
    value: str
    held_back: bool = False

    @property
    def about(self) -> Relation:
        return RELATIONS[self.kind, self.relation]

    @property
    def statement(self) -> str:
        text = self.about.statement.format(s=self.subject, v=self.value)
        return text[0].upper() + text[1:]


class Vocabulary(Record):
    """The words of a trade, which a model proposes."""

    teams: tuple[str, ...] = ("Operations", "Finance", "Facilities", "Customer Care")
    jobs: tuple[str, ...] = ("coordinator", "technician", "analyst", "supervisor", "planner", "clerk")
    equipment: tuple[str, ...] = ("van", "generator", "printer", "pump", "compressor")
    services: tuple[str, ...] = ("cleaning", "maintenance", "transport")
    topics: tuple[str, ...] = ("travel expenses", "purchasing", "safety at work")


class Organisation(Record):
    number: int
    seed: int
    name: str
    sector: str
    code: str
    currency: str
    vocabulary: Vocabulary
    things: tuple[Thing, ...]
    facts: tuple[Fact, ...]
    topics: dict[str, str]
    """What each contract and policy is about."""
    strangers: tuple[Thing, ...]

    def of_kind(self, kind: str) -> list[str]:
        return [thing.name for thing in self.things if thing.kind == kind]


@functools.cache
def words() -> dict[str, tuple[str, ...]]:
    """The lists of `words.txt`."""
    lines = (Path(__file__).parent / "words.txt").read_text(encoding="utf-8").splitlines()
    named = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: tuple(items.split("; ")) for name, _, items in named}


class Names:
    """Names that no other organisation of the seed has: each takes a slice of a shuffled list of all."""

    def __init__(self, seed: int, number: int) -> None:
        self._seed, self._number = seed, number
        self._used: defaultdict[str, int] = defaultdict(int)

    def pair(self, first: str, second: str, slice_: int, joint: str = " ") -> str:
        one, two = words()[first], words()[second]
        shuffled = Permutation(len(one) * len(two), self._seed, first, second)
        index = self._number * slice_ + self._used[first]
        self._used[first] += 1
        a, b = divmod(shuffled(index % shuffled.size), len(two))
        return f"{one[a]}{joint}{two[b]}"

    def people(self, count: int) -> list[str]:
        """No two share a family name: a paper may use it alone."""
        found: dict[str, str] = {}
        while len(found) < count:
            name = self.pair("given", "family", 40)
            found.setdefault(name.split()[1], name)
        return list(found.values())

    def code(self) -> str:
        letters = "BCDFGHJKLMNPQRSTVWXZ"
        number = Permutation(len(letters) ** 3, self._seed, "code")(self._number % len(letters) ** 3)
        a, rest = divmod(number, len(letters) ** 2)
        return letters[a] + letters[rest // len(letters)] + letters[rest % len(letters)]


def sector_of(seed: int, number: int) -> str:
    return RandomStream(seed, number, "sector").pick(words()["sector"])


def draw(seed: int, number: int, vocabulary: Vocabulary) -> Organisation:
    """One organisation with its facts."""
    stream, names = RandomStream(seed, number, "facts"), Names(seed, number)
    code, bank = names.code(), words()
    people = names.people(PEOPLE + SUPPLIERS + STRANGERS)
    places = [names.pair("place_begin", "place_end", 24, "") for _ in range(SITES + SUPPLIERS * 2 + STRANGERS + 1)]
    sites = [f"{place} {stream.pick(bank['place_word'])}" for place in places[: SITES + 2]]
    companies = [f"{place} {stream.pick(bank['company_word'])}" for place in places[SITES + 2 : SITES + SUPPLIERS + 4]]
    towns = places[SITES + SUPPLIERS + 4 :]
    projects = [f"Project {names.pair('adjective', 'noun', 6)}" for _ in range(PROJECTS + 2)]
    numbered = {
        kind: [f"{code}-{letter}{n}" for n in stream.sample(range(11, 99), count + 1)]
        for kind, letter, count in (("contract", "C", CONTRACTS), ("equipment", "E", EQUIPMENT), ("incident", "I", 3))
    }
    policies = [f"policy {code}-P{n}" for n in stream.sample(range(11, 99), 2)]
    all_names = {
        "person": people[:PEOPLE],
        "outsider": people[PEOPLE : PEOPLE + SUPPLIERS],
        "team": list(vocabulary.teams[:TEAMS]),
        "site": sites[:SITES],
        "supplier": companies[:SUPPLIERS],
        "town": towns[:SUPPLIERS],
        "contract": numbered["contract"][:-1],
        "equipment": numbered["equipment"][:-1],
        "incident": numbered["incident"][:INCIDENTS],
        "project": projects[:PROJECTS],
        "policy": [f"version 1 of {policies[0]}", f"version 2 of {policies[0]}", f"version 1 of {policies[1]}"],
    }
    spare = {
        "person": people[PEOPLE + SUPPLIERS :],
        "site": sites[SITES:],
        "supplier": companies[SUPPLIERS:],
        "contract": numbered["contract"][-1:],
        "equipment": numbered["equipment"][-1:],
        "project": projects[PROJECTS:],
    }
    topics = {name: stream.pick(vocabulary.services) for name in all_names["contract"]}
    topics |= dict(zip(policies, stream.sample(vocabulary.topics, 2), strict=False))
    currency = stream.pick("£$€")
    return Organisation(
        number,
        seed,
        f"{places[-1]} {_capitals(sector_of(seed, number))}",
        sector_of(seed, number),
        code,
        currency,
        vocabulary,
        tuple(Thing(name, kind) for kind, found in all_names.items() for name in found),
        tuple(_facts(stream, all_names, vocabulary, currency)),
        topics,
        tuple(Thing(name, kind) for kind, found in spare.items() for name in found),
    )


def _facts(stream: RandomStream, names: dict[str, list[str]], vocabulary: Vocabulary, currency: str) -> Iterator[Fact]:
    values = _Values(stream, currency)
    suppliers = iter(stream.shuffled(names["supplier"]))
    takers = {kind: iter(stream.shuffled(names[kind])) for kind in ("outsider", "town", "equipment")}
    for kind in ("person", "team", "site", "supplier", "contract", "equipment", "incident", "project", "policy"):
        for subject in names[kind]:
            used = {subject}
            for relation in of_kind(kind):
                if relation.value in ("date", "money", "number"):
                    value = values.new(relation, after=subject.startswith("version 2") or relation.name == "closed")
                elif relation.value == "word":
                    value = stream.pick(vocabulary.jobs if kind == "person" else vocabulary.equipment)
                elif kind == "supplier":
                    value = next(takers["outsider" if relation.value == "person" else "town"])
                elif (kind, relation.name) == ("contract", "supplier"):
                    value = next(suppliers)
                elif kind == "incident" and relation.value == "equipment":
                    value = next(takers["equipment"])
                else:
                    value = stream.pick([name for name in names[relation.value] if name not in used])
                used.add(value)
                held = (kind, relation.name) not in STRUCTURE and stream.chance(HELD_BACK)
                yield Fact(subject, kind, relation.name, value, held)


class _Values:
    """Dates, sums and numbers, none of them twice."""

    def __init__(self, stream: RandomStream, currency: str) -> None:
        self._stream, self._currency = stream, currency
        self._taken: set[str] = set()
        self._day = date(2016, 1, 1)

    def new(self, relation: Relation, *, after: bool) -> str:
        """A value; with `after`, a date that follows the last one by weeks or months."""
        while True:
            value = self._draw(relation, after)
            if value not in self._taken:
                self._taken.add(value)
                return value

    def _draw(self, relation: Relation, after: bool) -> str:
        s = self._stream
        if relation.value == "date":
            low = date(2025, 7, 1) if relation.name in ("ends", "deadline") else date(2016, 1, 1)
            day = low + timedelta(s.below(1000 if low.year == 2025 else 3300))
            day = self._day = self._day + timedelta(s.between(9, 150)) if after else day
            return day_in_words(day)
        if relation.value == "money":
            return f"{self._currency}{s.between(3, 980) * s.pick((10, 50, 100, 250)) + s.pick((0, 0, 5, 40)):,}"
        if relation.name == "extension":
            return str(s.between(2100, 8999))
        return f"{s.between(21, 99) if 'days' in relation.name else s.between(140, 4990):,}"


def _capitals(sector: str) -> str:
    return " ".join(word.capitalize() if len(word) > 3 else word for word in sector.split()[1:])
