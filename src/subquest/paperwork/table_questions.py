"""Questions that need a query over a whole register, each with the query, and some that one row answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from ..english import MONTHS, day_in_words
from ..record import Step
from ..worlds.grammar import join
from ..worlds.random_stream import RandomStream
from .organisation import Fact
from .papers import Paper
from .questions import ATTEMPTS, Asked, Drafter, TableQuery, as_date, measure
from .registers import ASSETS, Field, Register
from .relations import of_kind

COUNTS: Mapping[str, int] = {
    "count": 2, "total": 2, "highest": 2, "latest": 1, "list": 1, "ranking": 1, "row": 2, "after-step": 1,
    "before-step": 1, "difference": 1,
}  # fmt: skip
"""Questions of each kind that are drawn for an organisation."""
LISTED = 6
"""Most items of a list."""


class Selection(NamedTuple):
    """Some rows of a register: in words, as a condition, and themselves."""

    words: str
    condition: str
    rows: tuple[Mapping[str, str], ...]
    name: str
    """The name in its words."""


class Found(NamedTuple):
    """What is asked of some rows, in several wordings with `{np}` for the rows; its answer and the query."""

    wordings: tuple[str, ...]
    answers: tuple[str, ...]
    query: str
    items: tuple[str, ...] = ()


class TableDrafter:
    """Draws questions about a register at random."""

    def __init__(self, register: Register, drafter: Drafter, stream: RandomStream) -> None:
        self.register, self.drafter, self.stream = register, drafter, stream
        self.kind = register.kind
        self.things = [f for f in self.kind.fields if f.role and register.full(f)]
        self.measures = [f for f in self.kind.fields if f.kind in ("money", "number") and register.full(f)]
        self.dates = [f for f in self.kind.fields if f.kind == "date" and register.full(f)]

    def questions(self, counts: Mapping[str, int]) -> Iterator[Asked]:
        """That many of each kind, as far as the register gives them; no two alike."""
        makers: Mapping[str, Callable[[], Asked | None]] = {
            **{kind: self._alone(kind, make) for kind, make in self._asked_of_rows.items()},
            "row": self.one_row,
            "after-step": self.after_step,
            "before-step": self.before_step,
            "difference": self.difference,
        }
        seen: set[str] = set()
        for kind, count in counts.items():
            for _ in range(count if self.things else 0):
                for _ in range(ATTEMPTS):
                    made = makers[kind]()
                    if made is not None and seen.isdisjoint((made.text, made.steps[0].question)):
                        seen |= {made.text, made.steps[0].question}
                        yield made
                        break

    @property
    def _asked_of_rows(self) -> dict[str, Callable[[Selection], Found | None]]:
        return {
            "count": self.count,
            "total": self.total,
            "highest": self.highest,
            "latest": self.latest,
            "list": self.listing,
            "ranking": self.ranking,
        }

    def selection(self, field: Field | None = None, value: str = "") -> Selection:
        """Rows with some value, now and then in some time too; with this value, if it is given."""
        field = field or self.stream.pick(self.things)
        value = value or self.stream.pick(self.register.rows)[field.label]
        words = field.phrase.format(v=value)
        condition = f"{field.column} = {_quoted(value)}"
        rows = tuple(row for row in self.register.rows if row[field.label] == value)
        if self.dates and self.stream.chance(0.4):
            when = self.dates[0]
            said, first, last = self._span([as_date(row[when.label]) for row in rows])
            words = f"{words} {when.phrase} {said}"
            condition = f"{condition} AND {when.column} BETWEEN '{first}' AND '{last}'"
            rows = tuple(row for row in rows if first <= as_date(row[when.label]) <= last)
        return Selection(words, condition, rows, value)

    def _span(self, days: Sequence[date]) -> tuple[str, date, date]:
        """A time in which one of these days lies, in words, and its first and last day."""
        day = self.stream.pick(days)
        way = self.stream.below(3)
        if way == 0:
            return f"in {day.year}", date(day.year, 1, 1), date(day.year, 12, 31)
        if way == 1:
            last = (date(day.year, day.month, 28) + timedelta(4)).replace(day=1) - timedelta(1)
            return f"in {MONTHS[day.month - 1]} {day.year}", date(day.year, day.month, 1), last
        first, last = day - timedelta(self.stream.between(20, 200)), day + timedelta(self.stream.between(20, 200))
        return f"between {day_in_words(first)} and {day_in_words(last)}", first, last

    def count(self, some: Selection) -> Found | None:
        wordings = ("How many {np} are there?", "What is the number of {np}?", "How many {np} were there in all?")
        return Found(wordings, (str(len(some.rows)),), f"SELECT count(*) FROM {{table}} WHERE {some.condition}")

    def total(self, some: Selection) -> Found | None:
        if not self.measures or len(some.rows) < 3:
            return None
        field = self.stream.pick(self.measures)
        amounts = [int(measure(row[field.label])) for row in some.rows]
        if self.stream.chance(0.25) and sum(amounts) % len(amounts) == 0:
            word, query, amount = "average", "avg", sum(amounts) // len(amounts)
        else:
            word, query, amount = "total", "sum", sum(amounts)
        wordings: tuple[str, ...] = (f"What is the {word} {field.phrase} of the {{np}}?",)
        if word == "average":
            wordings += (f"On average, what is the {field.phrase} of the {{np}}?",)
        elif field.kind == "money":
            wordings += ("What do the {np} come to together?", "How much are the {np} in all?")
        else:
            wordings += (f"What does the {field.phrase} of the {{np}} add up to?",)
        answer = self._amount(field, amount)
        return Found(wordings, (answer,), f"SELECT {query}({field.column}) FROM {{table}} WHERE {some.condition}")

    def _amount(self, field: Field, amount: int) -> str:
        return f"{self.register.currency if field.kind == 'money' else ''}{amount:,}"

    def highest(self, some: Selection) -> Found | None:
        if not self.measures or len(some.rows) < 3:
            return None
        field, most = self.stream.pick(self.measures), self.stream.chance(0.6)
        row = _most(some.rows, field, most)
        word = "highest" if most else "lowest"
        wordings = (
            f"Which of the {{np}} has the {word} {field.phrase}?",
            f"Of the {{np}}, which one has the {word} {field.phrase}?",
            f"Which is the {self.kind.noun} with the {word} {field.phrase} among the {{np}}?",
        )
        return Found(wordings, (row[self.kind.key],), self._ordered(self._key, field, most, some))

    @property
    def _key(self) -> str:
        return Field(self.kind.key, "", "").column

    def _ordered(self, wanted: str, by: Field, most: bool, some: Selection) -> str:
        order = f"ORDER BY {by.column}{' DESC' if most else ''} LIMIT 1"
        return f"SELECT {wanted}, {by.column} FROM {{table}} WHERE {some.condition} {order}"

    def latest(self, some: Selection) -> Found | None:
        if not self.dates or len(some.rows) < 3:
            return None
        field, last = self.dates[0], self.stream.chance(0.6)
        days = sorted(as_date(row[field.label]) for row in some.rows)
        word = "last" if last else "first"
        done = "" if field.phrase in some.words else f" {field.phrase}"
        wordings = (f"When was the {word} of the {{np}}{done}?", f"On which day was the {word} of the {{np}}{done}?")
        query = f"SELECT {'max' if last else 'min'}({field.column}) FROM {{table}} WHERE {some.condition}"
        return Found(wordings, (day_in_words(days[-1] if last else days[0]),), query)

    def listing(self, some: Selection) -> Found | None:
        if not 1 < len(some.rows) <= LISTED:
            return None
        items = tuple(row[self.kind.key] for row in some.rows)
        wordings = ("Which {np} are there?", "Which are the {np}?", "What are the numbers of the {np}?")
        query = f"SELECT {self._key} FROM {{table}} WHERE {some.condition}"
        return Found(wordings, (", ".join(items), join(list(items))), query, items)

    def ranking(self, some: Selection) -> Found | None:
        others = [field for field in self.things if f"{field.column} =" not in some.condition]
        if not others:
            return None
        field = self.stream.pick(others)
        often = Counter(row[field.label] for row in some.rows).most_common(2)
        if len(often) < 2 or often[0][1] == often[1][1]:
            return None
        wordings = (
            f"Which {field.role} has the most {{np}}?",
            f"Which {field.role} comes up most often among the {{np}}?",
        )
        query = (
            f"SELECT {field.column}, count(*) FROM {{table}} WHERE {some.condition} "
            f"GROUP BY {field.column} ORDER BY count(*) DESC LIMIT 1"
        )
        return Found(wordings, (often[0][0],), query)

    def _alone(self, kind: str, make: Callable[[Selection], Found | None]) -> Callable[[], Asked | None]:
        """A question of one step."""

        def maker() -> Asked | None:
            some = self.selection()
            found = make(some)
            if found is None:
                return None
            text, task = self._worded(found, f"{self.kind.plural} {some.words}")
            step = Step(task, found.answers[0])
            items = {"1": found.items} if found.items else {}
            queries = {"1": self._query(found.query, some.rows)}
            return Asked(text, kind, found.answers, (step,), ((),), ("last",), items, (some.name,), queries=queries)

        return maker

    def _worded(self, found: Found, words: str) -> tuple[str, str]:
        """Two wordings: of the question, and of the task that it becomes."""
        text, task = (self.stream.sample(found.wordings, 2) * 2)[:2]
        return text.replace("{np}", words), task.replace("{np}", words)

    def _query(self, query: str, rows: Sequence[Mapping[str, str]]) -> TableQuery:
        return TableQuery(self.register.file, query, tuple(row[self.kind.key] for row in rows))

    def one_row(self) -> Asked | None:
        """What one row says: nobody needs a query for it."""
        row, field = self.stream.pick(self.register.rows), self.stream.pick(self.kind.fields)
        key = row[self.kind.key]
        if self.kind is ASSETS or field.kind == "date" or not row[field.label]:
            return None
        what, asks = field.role or field.phrase, "who" if field.kind == "person" else "what"
        texts = (
            f"{asks.capitalize()} is the {what} of {self.kind.noun} {key}?",
            f"For {self.kind.noun} {key}, {asks} is the {what}?",
        )
        text, task = self.stream.sample(texts, 2)
        answer = row[field.label]
        return Asked(
            text, "row", (answer,), (Step(task, answer),), ((),), rows={"1": (self.register.file, key)}, names=(key,)
        )

    def after_step(self) -> Asked | None:
        """First who or what is meant, then a query about it."""
        path = self.drafter.walk(1)
        fields = [f for f in self.things if path and any(row[f.label] == path.end for row in self.register.rows)]
        if path is None or not fields:
            return None
        field = self.stream.pick(fields)
        some = self.selection(field, path.end)
        found = self.stream.pick(list(self._asked_of_rows.values()))(some)
        if found is None:
            return None
        described = f"{self.kind.plural} {some.words.replace(path.end, path.phrase, 1)}"
        text, task = self._worded(found, described)[0], self._worded(found, f"{self.kind.plural} {some.words}")[1]
        steps = (*path.steps, Step(task.replace(path.end, "#1", 1), found.answers[0]))
        items = {"2": found.items} if found.items else {}
        made = Asked(
            text, "bridge", found.answers, steps, (*path.needs, ()), ("last",), items, (path.name,),
            queries={"2": self._query(found.query, some.rows)},
        )  # fmt: skip
        return made if path.end not in text and found.answers[0] != path.end else None

    def before_step(self) -> Asked | None:
        """First a query for a person, site or supplier, then what the papers say about it."""
        some = self.selection()
        others = [field for field in self.things if f"{field.column} =" not in some.condition]
        if not others or not self.measures or len(some.rows) < 3:
            return None
        role, by, most = self.stream.pick(others), self.stream.pick(self.measures), self.stream.chance(0.6)
        row = _most(some.rows, by, most)
        who = row[role.label]
        facts = [self.drafter.facts.stated.get((who, relation.name)) for relation in of_kind(role.kind)]
        known = [fact for fact in facts if fact is not None and fact.value not in (who, some.name)]
        if not known:
            return None
        fact: Fact = self.stream.pick(known)
        extreme = f"the {'highest' if most else 'lowest'} {by.phrase}"
        described = f"the {role.role} of the {self.kind.noun} with {extreme} among the {self.kind.plural} {some.words}"
        asks = "Who" if role.kind == "person" else "Which"
        steps = (
            Step(f"{asks} is {described}?", who),
            Step(fact.about.question.format(s="#1"), fact.value),
        )
        query = self._ordered(role.column, by, most, some)
        return Asked(
            fact.about.question.format(s=described), "bridge", (fact.value,), steps,
            ((), ((fact.subject, fact.relation),)), names=(some.name,),
            queries={"1": self._query(query, some.rows)},
        )  # fmt: skip

    def difference(self) -> Asked | None:
        """By how much the total of some rows is above that of others."""
        if not self.measures:
            return None
        field, by = self.stream.pick(self.things), self.stream.pick(self.measures)
        values = list(dict.fromkeys(row[field.label] for row in self.register.rows))
        if len(values) < 2:
            return None
        found = []
        for value in self.stream.sample(values, 2):
            rows = [row for row in self.register.rows if row[field.label] == value]
            found.append((sum(int(measure(row[by.label])) for row in rows), value, rows))
        (more, one, one_rows), (less, two, two_rows) = sorted(found, key=lambda each: -each[0])
        if more == less:
            return None
        steps, queries = list[Step](), dict[str, TableQuery]()
        for number, (amount, value, rows) in enumerate(((more, one, one_rows), (less, two, two_rows)), 1):
            words = f"{self.kind.plural} {field.phrase.format(v=value)}"
            steps.append(Step(f"What is the total {by.phrase} of the {words}?", self._amount(by, amount)))
            condition = f"{field.column} = {_quoted(value)}"
            queries[str(number)] = self._query(f"SELECT sum({by.column}) FROM {{table}} WHERE {condition}", rows)
        words = f"{self.kind.plural} {field.phrase.format(v=one)}"
        other = f"those {field.phrase.format(v=two)}"
        text = f"By how much is the total {by.phrase} of the {words} above that of {other}?"
        answer = self._amount(by, more - less)
        return Asked(
            text,
            "difference",
            (answer,),
            tuple(steps),
            ((), ()),
            ("difference", 1, 2),
            names=(one, two),
            queries=queries,
        )


def list_query(asked: Asked, papers: Sequence[Paper]) -> TableQuery | None:
    """The query for a list, or its length, that the rows of one table of the papers give."""
    (keys,) = asked.needs if len(asked.needs) == 1 else ((),)
    where = {(f.subject, f.relation): (f, paper) for paper in papers for f in paper.facts}
    if asked.type not in ("list", "count") or not keys or any(key not in where for key in keys):
        return None
    fact, paper = where[keys[0]]
    key = {"person": "name", "equipment": ASSETS.key}[fact.kind]
    wanted = "count(*)" if asked.type == "count" else key
    column = Field(fact.relation, "", "").column
    query = f"SELECT {wanted} FROM {{table}} WHERE {column} = {_quoted(fact.value)}"
    return TableQuery(paper.file, query, tuple(subject for subject, _ in keys))


def _most(rows: Sequence[Mapping[str, str]], field: Field, most: bool) -> Mapping[str, str]:
    return (max if most else min)(rows, key=lambda row: measure(row[field.label]))


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
