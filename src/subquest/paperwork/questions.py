"""Questions over the facts that papers state, each with its plan; first in plain words, which a model then rewords."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from typing import NamedTuple

from ..codec import Record
from ..english import MONTHS
from ..record import Step
from ..worlds.grammar import join
from ..worlds.random_stream import RandomStream
from .organisation import Fact, Organisation
from .relations import MEASURES, RELATIONS, Relation, of_kind

Key = tuple[str, str]
"""Subject and relation of a fact."""
STARTS = ("person", "person", "site", "supplier", "contract", "equipment", "incident", "project", "policy")
"""Kinds of thing that questions begin with. Teams of several organisations have the same names."""
ATTEMPTS = 40
UNKNOWN = "unknown"
_KIND_WORD = re.compile(r"(?:the )?\b(?:contract|item|incident|case) \{s\}|the \{s\} team")


class TableQuery(Record):
    """A step that a query over a whole table answers."""

    file: str
    """The table's, among the papers."""
    sql: str
    """With `{table}` for the name that an index gives it."""
    rows: tuple[str, ...]
    """The first cells of the rows that it is about."""


class Asked(Record):
    """A question before it is worded: what it asks, and how it is answered."""

    text: str
    type: str
    answers: tuple[str, ...]
    steps: tuple[Step, ...]
    needs: tuple[tuple[Key, ...], ...]
    """The facts that each step rests on."""
    operation: tuple[str | int, ...] = ("last",)
    items: Mapping[str, tuple[str, ...]] = {}
    """By step (from 1), the items of the list that it finds."""
    names: tuple[str, ...] = ()
    """Names that its wording must keep."""
    plain: str = ""
    """The wording by code, where a model's replaced it."""
    queries: Mapping[str, TableQuery] = {}
    """By step (from 1), the query over a table that it needs."""
    rows: Mapping[str, tuple[str, str]] = {}
    """By step (from 1), the file and first cell of the row of a register that answers it."""


class Path(NamedTuple):
    """A way through the facts."""

    phrase: str
    """What stands at its end, described from its beginning."""
    end: str
    kind: str
    name: str
    """Where it begins."""
    steps: tuple[Step, ...] = ()
    needs: tuple[tuple[Key, ...], ...] = ()
    seen: tuple[str, ...] = ()
    """Things on the way."""
    owner: str = ""
    """What its last value belongs to, described from its beginning."""
    question: str = ""
    """The last step, asked from its beginning."""


class Facts:
    """What an organisation's papers state, and what they keep silent."""

    def __init__(self, organisation: Organisation, stated: Sequence[Fact]) -> None:
        self.organisation = organisation
        self.stated = {(f.subject, f.relation): f for f in stated}
        self.silent = [f for f in organisation.facts if (f.subject, f.relation) not in self.stated]
        self.kinds = {thing.name: thing.kind for thing in organisation.things}
        self.by_value: defaultdict[tuple[str, str, str], list[Fact]] = defaultdict(list)
        for fact in organisation.facts:
            self.by_value[fact.kind, fact.relation, fact.value].append(fact)


class Drafter:
    """Draws questions at random."""

    def __init__(self, facts: Facts, stream: RandomStream) -> None:
        self.facts, self.stream = facts, stream

    @property
    def makers(self) -> dict[str, Callable[[], Asked | None]]:
        """What draws a question, by type."""
        return {
            "single": lambda: self.chain(1),
            "bridge-2": lambda: self.chain(2),
            "bridge-3": lambda: self.chain(3),
            "bridge-4": lambda: self.chain(4),
            "comparison": self.comparison,
            "yes-no": self.yes_no,
            "same": self.same,
            "sum": self.total,
            "difference": self.difference,
            "list": self.listing,
            "count": lambda: self.listing(counted=True),
            "unanswerable": self.unanswerable,
        }

    def questions(self, counts: Mapping[str, int]) -> Iterator[Asked]:
        """That many of each type, as far as the facts give them; no two alike."""
        makers = self.makers
        seen: set[str] = set()
        for kind, count in counts.items():
            for _ in range(count):
                for _ in range(ATTEMPTS):
                    made = makers[kind]()
                    if made is not None and made.text not in seen:
                        seen.add(made.text)
                        yield made
                        break

    def start(self) -> Path:
        name = self.stream.pick(self.facts.organisation.of_kind(self.stream.pick(STARTS)))
        return Path(self.described(name), name, self.facts.kinds[name], name)

    def described(self, name: str) -> str:
        """A policy that has a newer version is meant by its number; the others are current."""
        version, of, policy = name.partition(" of ")
        if not of or not version.startswith("version"):
            return name
        names = self.facts.organisation.of_kind("policy")
        current = version == "version 2" or f"version 2 of {policy}" not in names
        return f"the current version of {policy}" if current else name

    def hop(self, path: Path, value: Sequence[str] = ()) -> Path | None:
        """One step further; to a value of these kinds, if they are given."""
        ways: list[Path] = []
        for relation in of_kind(path.kind):
            fact = self.facts.stated.get((path.end, relation.name))
            if fact is not None and (relation.value in value if value else relation.value in (*STARTS, "team")):
                ways.append(further(path, relation, fact.value, (fact,), relation.noun, relation.question))
        for relation in () if value else RELATIONS.values():
            if relation.value == path.kind and relation.inverse:
                ways += self._backwards(path, relation)
        ways = [w for w in ways if w.end not in (*path.seen, path.name)]
        return self.stream.pick(ways) if ways else None

    def _backwards(self, path: Path, relation: Relation) -> Iterator[Path]:
        found = self.facts.by_value[relation.subject, relation.name, path.end]
        if _is_list(relation):
            yield from self._one_of_kind(path, found) if relation.subject == "equipment" else ()
        elif len(found) == 1 and (found[0].subject, relation.name) in self.facts.stated:
            yield further(path, relation, found[0].subject, found, relation.inverse, relation.inverse_question)

    def _one_of_kind(self, path: Path, found: Sequence[Fact]) -> Iterator[Path]:
        """The van at a site, where it has one van."""
        kinds: defaultdict[str, list[Fact]] = defaultdict(list)
        for fact in found:
            what = self.facts.stated.get((fact.subject, "what it is"))
            kinds[what.value if what else ""].append(fact)
        for kind, facts in kinds.items():
            if (
                kind
                and len(facts) == 1
                and "" not in kinds
                and (facts[0].subject, facts[0].relation) in self.facts.stated
            ):
                way = "kept at" if facts[0].relation == "site" else "supplied by"
                verb = "is kept at {s}" if facts[0].relation == "site" else "was supplied by {s}"
                relation = RELATIONS["equipment", facts[0].relation]
                yield further(
                    path, relation, facts[0].subject, facts, f"the {kind} {way} {{s}}", f"Which {kind} {verb}?"
                )

    def walk(self, hops: int) -> Path | None:
        path: Path | None = self.start()
        for _ in range(hops):
            path = self.hop(path) if path else None
        return path

    def chain(self, hops: int) -> Asked | None:
        path = self.walk(hops - 1)
        if path is None:
            return None
        kinds = ("word", "town", *MEASURES) if self.stream.chance(0.6) else ()
        last = self.hop(path, kinds)
        if last is None or (hops == 1 and last.steps[0].question.startswith("Which") and not kinds):
            return None
        kind = "single" if hops == 1 else "bridge"
        made = Asked(last.question, kind, (last.end,), last.steps, last.needs, names=(last.name,))
        return made if is_fair(made) else None

    def measured(self, kinds: Sequence[str] = MEASURES) -> tuple[Relation, Fact, Fact] | None:
        """Two values of a relation that can be compared."""
        relation = self.stream.pick([r for r in RELATIONS.values() if r.value in kinds and r.name != "extension"])
        found = [f for f in self.facts.stated.values() if f.about == relation]
        if relation.subject == "policy":  # two versions of one policy are a question of their own
            found = [f for f in found if self.described(f.subject) != f.subject]
        if len(found) < 2 or relation.subject == "team":
            return None
        one, two = self.stream.sample(found, 2)
        return relation, one, two

    def pair(self, kinds: Sequence[str] = MEASURES) -> tuple[Relation, list[Path]] | None:
        """Two things, each with a value that can be compared, now and then reached over a step."""
        found = self.measured(kinds)
        if found is None:
            return None
        relation, *facts = found
        paths: list[Path] = []
        for fact in facts:
            path = Path(self.described(fact.subject), fact.subject, fact.kind, fact.subject)
            if self.stream.chance(0.35):
                path = self.towards(fact) or path
            number = sum(len(p.steps) for p in paths)
            path = _numbered(path, number)
            paths.append(further(path, relation, fact.value, (fact,), relation.noun, relation.question, number))
        return relation, paths

    def towards(self, fact: Fact) -> Path | None:
        """A path of one step that ends at the subject of a fact."""
        for _ in range(ATTEMPTS):
            path = self.walk(1)
            if path is not None and path.end == fact.subject:
                return path
        return None

    def comparison(self) -> Asked | None:
        found = self.pair()
        if found is None:
            return None
        relation, (one, two) = found
        a, b = measure(one.end), measure(two.end)
        most = self.stream.chance(0.5)
        which = ("later" if most else "earlier") if relation.value == "date" else ("higher" if most else "lower")
        answers = (one.seen[-1], two.seen[-1])
        text = f"Which has the {which} value for '{relation.name}': {one.owner} or {two.owner}?"
        operation = ("pick", len(one.steps), len(one.steps) + len(two.steps), "max" if most else "min", *answers)
        return self.of_pair(text, "comparison", answers[0] if (a > b) == most else answers[1], one, two, operation)

    def yes_no(self) -> Asked | None:
        found = self.pair()
        if found is None:
            return None
        relation, (one, two) = found
        word = "earlier" if relation.value == "date" else "lower"
        answer = "yes" if measure(one.end) < measure(two.end) else "no"
        operation = ("order", len(one.steps), len(one.steps) + len(two.steps))
        return self.of_pair(f"Is {one.phrase} {word} than {two.phrase}?", "comparison", answer, one, two, operation)

    def same(self) -> Asked | None:
        relation = self.stream.pick([r for r in RELATIONS.values() if r.value in ("site", "team", "supplier")])
        facts = [f for f in self.facts.stated.values() if f.about == relation and relation.subject != "policy"]
        if len(facts) < 2:
            return None
        paths = []
        for number, fact in enumerate(self.stream.sample(facts, 2)):
            path = Path(self.described(fact.subject), fact.subject, fact.kind, fact.subject)
            paths.append(further(path, relation, fact.value, (fact,), relation.noun, relation.question, number))
        one, two = paths
        text = f"Is {one.phrase} the same as {two.phrase}?"
        return self.of_pair(text, "comparison", "yes" if one.end == two.end else "no", one, two, ("same", 1, 2))

    def total(self) -> Asked | None:
        found = self.pair(("money",))
        if found is None:
            return None
        one, two = found[1]
        answer = f"{one.end[0]}{measure(one.end) + measure(two.end):,.0f}"
        operation = ("sum", len(one.steps), len(one.steps) + len(two.steps))
        return self.of_pair(
            f"What do {one.phrase} and {two.phrase} come to together?", "sum", answer, one, two, operation
        )

    def difference(self) -> Asked | None:
        found = self.pair(("money",))
        if found is None:
            return None
        one, two = sorted(found[1], key=lambda path: -measure(path.end))
        if found[1][0] is not one:
            one, two = _numbered(one, -len(two.steps)), _numbered(two, len(one.steps))
        answer = f"{one.end[0]}{measure(one.end) - measure(two.end):,.0f}"
        operation = ("difference", len(one.steps), len(one.steps) + len(two.steps))
        return self.of_pair(
            f"By how much is {one.phrase} higher than {two.phrase}?", "difference", answer, one, two, operation
        )

    def of_pair(
        self, text: str, type: str, answer: str, one: Path, two: Path, operation: tuple[str | int, ...]
    ) -> Asked | None:
        bridge = "bridge-" if type == "comparison" and len(one.steps + two.steps) > 2 else ""
        steps, needs = one.steps + two.steps, one.needs + two.needs
        made = Asked(text, bridge + type, (answer,), steps, needs, operation, names=(one.name, two.name))
        return made if one.name != two.name and is_fair(made) else None

    def listing(self, counted: bool = False) -> Asked | None:
        """A list that one table holds; or how long it is."""
        relation = self.stream.pick([r for r in RELATIONS.values() if _is_list(r) and r.value != "team"])
        name = self.stream.pick(self.facts.organisation.of_kind(relation.value))
        found = self.facts.by_value[relation.subject, relation.name, name]
        if not 1 < len(found) < 6 or any((f.subject, f.relation) not in self.facts.stated for f in found):
            return None
        question = relation.inverse_question.format(s=name)
        if counted:
            question = "How many" + question.removeprefix("Which")
        items = tuple(f.subject for f in found)
        answer = str(len(items)) if counted else ", ".join(items)
        answers = (answer,) if counted else (answer, join(list(items)))
        needs = (tuple((f.subject, f.relation) for f in found),)
        return Asked(
            question, "count" if counted else "list", answers, (Step(question, answer),), needs,
            ("count", 1) if counted else ("last",), {"1": items}, (name,),
        )  # fmt: skip

    def unanswerable(self) -> Asked | None:
        """A question for a fact that no paper states, or about a thing that does not exist."""
        if self.stream.chance(0.3):
            thing = self.stream.pick(self.facts.organisation.strangers)
            relation = self.stream.pick(of_kind(thing.kind))
            text = relation.question.format(s=thing.name)
            return Asked(text, "unanswerable", (UNKNOWN,), (Step(text),), ((),), names=(thing.name,))
        fact = self.stream.pick(self.facts.silent)
        if fact.kind == "team":
            return None
        path = Path(self.described(fact.subject), fact.subject, fact.kind, fact.subject)
        if self.stream.chance(0.6):
            path = self.towards(fact) or path
        last = further(path, fact.about, "", (), fact.about.noun, fact.about.question)
        made = Asked(last.question, "unanswerable", (UNKNOWN,), last.steps, last.needs, names=(path.name,))
        return made if is_fair(made) else None


def _is_list(relation: Relation) -> bool:
    return relation.inverse.startswith(("the people", "the equipment"))


def further(
    path: Path, relation: Relation, end: str, facts: Sequence[Fact], noun: str, question: str, before: int = 0
) -> Path:
    """The path with one step more; `before` is how many steps of the plan come before its own."""
    first = not path.steps
    inner = path.phrase

    def nested(text: str) -> str:
        """A description such as `the contract with X` needs no `contract` before it."""
        return (text if first else _KIND_WORD.sub("{s}", text)).format(s=inner)

    asked = question.format(s=inner if first else f"#{before + len(path.steps)}")
    return path._replace(
        phrase=nested(noun),
        end=end,
        kind=relation.subject if facts and end == facts[0].subject else relation.value,
        steps=(*path.steps, Step(asked, end)),
        needs=(*path.needs, tuple((f.subject, f.relation) for f in facts)),
        seen=(*path.seen, path.end),
        owner=inner,
        question=nested(question),
    )


def _numbered(path: Path, by: int) -> Path:
    """The path with the references between its steps moved by so many places."""
    move = lambda m: f"#{int(m[1]) + by}"  # noqa: E731
    return path._replace(steps=tuple(Step(re.sub(r"#(\d+)", move, s.question), s.answer) for s in path.steps))


def as_date(value: str) -> date:
    """The day of `day_in_words`."""
    day, month, year = value.split()
    return date(int(year), MONTHS.index(month) + 1, int(day))


def measure(value: str) -> float:
    """A date, sum or number as a number that compares."""
    try:
        return float(as_date(value).toordinal())
    except ValueError:
        return float(re.sub(r"[^\d.]", "", value))


def is_fair(asked: Asked) -> bool:
    """Whether neither the answer nor what a step finds stands in the question, and no step finds what another did."""
    low = asked.text.casefold()
    found = [s.answer for s in asked.steps if s.answer]
    compares = asked.operation[0] in ("pick", "order", "same")
    return (compares or len(set(found)) == len(found)) and not any(a.casefold() in low for a in found)
