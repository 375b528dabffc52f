"""The checker of a world: every fact is stated in its article, no two facts contradict, every answer follows from them.

It uses nothing of the generator, only the files of a world. Facts are read from `facts.jsonl` and each is verified at
its place in the text of `corpus.jsonl`; the questions' programs are then run over those facts alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ..english import MONTHS
from ..input_file import read_json
from ..record import Question
from .entity import number
from .programs import Atom, FactBase, Program, StepRow, Undecided, resolve, run_operation, run_steps, year_of
from .relations import INVERSES, RELATIONS
from .world_folder import (
    ArticleRow,
    FactsRow,
    read_articles_with_facts,
    read_facts,
    read_questions_with_programs,
)


@dataclass(slots=True)
class Report:
    """What a check found; a world is sound when there are no problems."""

    articles: int = 0
    facts: int = 0
    questions: int = 0
    problems: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    relations: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    hops: Counter[int] = field(default_factory=Counter)

    @property
    def sound(self) -> bool:
        return not self.problems


def check_world(folder: Path, limit: int = 50) -> Report:
    """Checks a world's folder; stops collecting after `limit` problems."""
    checker = Checker(limit)
    for row in read_facts(folder):
        checker.names[row.id] = Name(row.name, row.adjective)
    report = checker.run(read_articles_with_facts(folder), read_questions_with_programs(folder))
    if report.sound:
        report.problems += _missing(folder, report)
    return report


def _missing(folder: Path, report: Report) -> list[str]:
    """Files that have more or fewer rows than `world.json` says."""
    path = folder / "world.json"
    if not path.exists():
        return []
    manifest = read_json(path)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    there = {"corpus.jsonl": report.articles, "facts.jsonl": report.articles, "questions.jsonl": report.questions}
    out = []
    for name, count in there.items():
        entry = files.get(name) if isinstance(files, dict) else None
        expected = entry.get("lines") if isinstance(entry, dict) else None
        if expected != count:
            out.append(f"{name} has {count} rows, world.json says {expected}")
    return out


class Name(NamedTuple):
    """How an entity is named in texts; countries also have an adjective."""

    name: str
    adjective: str


class Checker:
    """Collects the facts of all articles, then judges them and the questions."""

    def __init__(self, limit: int) -> None:
        self.report, self.limit = Report(), limit
        self.base = FactBase()
        self.names: dict[str, Name] = {}
        self.titles: dict[str, str] = {}
        self.stated: dict[tuple[str, str, Atom], list[str]] = {}
        self.asked: set[str] = set()

    def run(
        self, articles: Iterable[tuple[ArticleRow, FactsRow]], questions: Iterable[tuple[Question, Program]]
    ) -> Report:
        for article, facts in articles:
            self._check_article(article, facts)
        self._check_contradictions()
        for question, program in questions:
            if len(self.report.problems) >= self.limit:
                break
            self._check_question(question, program)
        return self.report

    def _problem(self, message: str) -> None:
        if len(self.report.problems) < self.limit:
            self.report.problems.append(message)

    def _check_article(self, article: ArticleRow, row: FactsRow) -> None:
        self.report.articles += 1
        self.report.kinds[row.kind] += 1
        text, id_, title = article.text, article.id, article.title
        if title in self.titles:
            self._problem(f"{id_}: the title {title!r} is also that of {self.titles[title]}")
        self.titles[title] = id_
        for subject, relation, value, start, end in row.facts:
            self.report.facts += 1
            self.report.relations[relation] += 1
            if not self._is_stated(subject, relation, value, text[start:end]):
                self._problem(f"{id_}: {relation} = {value!r} is not stated at {start}:{end} ({text[start:end]!r})")
            if relation == "alias":
                continue
            self.base.add(subject, relation, value)
            where = self.stated.setdefault((subject, relation, value), [])
            if id_ not in where:
                where.append(id_)

    def _is_stated(self, subject: str, relation: str, value: Atom, surface: str) -> bool:
        """Whether the words at the fact's place state its value (or, in a list, its subject)."""
        kind = "word" if relation == "alias" else RELATIONS[relation].value
        if kind == "date":
            year, month, day = (int(p) for p in str(value).split("-"))
            name = MONTHS[month - 1]
            return surface in (f"{day} {name} {year}", f"{name} {day}, {year}")
        if kind == "year":
            return surface == str(value)
        if kind == "number":
            return surface == number(int(value))
        if kind == "word":
            return surface == value
        other, own = self.names.get(str(value)), self.names.get(subject)
        return (other is not None and surface in other) or (own is not None and surface == own.name)

    def _check_contradictions(self) -> None:
        forward = self.base.forward
        ordered = {later: [(e, gap) for e, then, gap in ORDERED if then == later] for _, later, _ in ORDERED}
        made = {relation: (when, begin, gap) for relation, when, begin, gap in MADE_BY}
        for (subject, relation), values in forward.items():
            if len(values) > 1 and not RELATIONS[relation].several:
                self._problem(f"{subject}: {relation} has {len(values)} values: {sorted(map(str, values))}")
                continue
            if RELATIONS[relation].value == "entity":
                for value in values:
                    if value not in self.names:
                        self._problem(f"{subject}: {relation} points at {value!r}, which has no article")
            for earlier, gap in ordered.get(relation, ()):
                before = forward.get((subject, earlier))
                if before and year_of(next(iter(values))) < year_of(next(iter(before))) + gap:
                    self._problem(f"{subject}: {relation} comes too early after {earlier}")
            if relation in made:
                when, begin, gap = made[relation]
                then = forward.get((subject, when))
                for maker in values:
                    born = forward.get((str(maker), begin))
                    if then and born and year_of(next(iter(then))) < year_of(next(iter(born))) + gap:
                        self._problem(f"{subject}: {when} is before {relation} {maker} could do it")
            if relation == "capital":
                self._check_capital(subject, str(next(iter(values))))

    def _check_capital(self, country: str, city: str) -> None:
        for province in self.base.forward.get((city, "province"), ()):
            if country not in self.base.forward.get((str(province), "country"), {country}):
                self._problem(f"{country}: its capital {city} lies in another country")

    def _says(self, answer: str, value: Atom, relation: str) -> bool:
        """Whether an answer is one of the forms of a value; a unit may follow a number."""
        return any(answer == t or answer.startswith(f"{t} ") for t in self._texts(value, relation))

    def _texts(self, value: Atom, relation: str) -> tuple[str, ...]:
        """How the value is written: a name, a date in both orders, a number without its unit."""
        if isinstance(value, str) and value in self.names:
            return (self.names[value].name,)
        kind = RELATIONS[relation].value if relation in RELATIONS else "number"
        if kind == "date":
            year, month, day = (int(p) for p in str(value).split("-"))
            return f"{day} {MONTHS[month - 1]} {year}", f"{MONTHS[month - 1]} {day}, {year}"
        return (number(int(value)) if kind == "number" and isinstance(value, int) else str(value),)

    def _check_question(self, q: Question, program: Program) -> None:
        self.report.questions += 1
        self.report.types[q.type] += 1
        self.report.hops[q.hops or 0] += 1
        if q.id in self.asked:
            self._problem(f"{q.id}: another question has the same id")
        self.asked.add(q.id)
        if tuple(map(self.titles.get, q.supporting_titles)) != q.supporting_ids:
            self._problem(f"{q.id}: {q.supporting_titles} are not the titles of {q.supporting_ids}")
        steps, operation = program.program, program.operation
        if q.hops != len(steps):
            self._problem(f"{q.id}: {q.hops} hops, but {len(steps)} steps")
        try:
            values = run_steps(steps, self.base)
            answer = run_operation(operation, values)
        except Undecided as reason:
            if q.type != "unanswerable":
                self._problem(f"{q.id}: not decided by the articles: {reason}")
            return
        if q.type == "unanswerable":
            self._problem(f"{q.id}: the articles do answer it: {answer}")
            return
        relation = steps[-1][2] if operation[0] == "last" else ""
        if not q.answers or not self._says(q.answers[0], answer, relation):
            expected = self._texts(answer, relation)[0]
            self._problem(f"{q.id}: the articles give {expected!r}, the question says {q.answers[:1]}")
        self._check_steps(q, steps, values)

    def _check_steps(self, q: Question, steps: list[StepRow], values: list[Any]) -> None:
        if len(q.decomposition) != len(steps):
            self._problem(f"{q.id}: {len(q.decomposition)} sub-questions for {len(steps)} steps")
            return
        for i, ((action, subject, relation), value, step) in enumerate(
            zip(steps, values, q.decomposition, strict=True), 1
        ):
            support = self.titles.get(step.support)
            if support is None or support not in q.supporting_ids:
                self._problem(f"{q.id}: step {i} is supported by {step.support!r}, which is not a supporting article")
                continue
            source = str(resolve(subject, values))
            needed = [(source, relation, value)] if action == "get" else [
                (thing, r, source)
                for thing in (value if action == "all" else [value])
                for r in INVERSES[relation]
                if source in self.base.forward.get((thing, r), ())
            ]  # fmt: skip
            for fact in needed:
                if support not in self.stated.get(fact, ()):
                    self._problem(f"{q.id}: step {i}: article {support} does not state {fact}")
            if action != "all" and not self._says(step.answer, value, relation):
                self._problem(
                    f"{q.id}: step {i} says {step.answer!r}, the articles {self._texts(value, relation)[0]!r}"
                )


ORDERED = (
    ("birth_date", "death_date", 1), ("birth_date", "marriage_year", 15), ("birth_date", "award_year", 15),
    ("war_start", "war_end", 0),
)  # fmt: skip
"""(earlier relation, later relation, least number of years between them) of one subject."""

MADE_BY = (
    ("father", "birth_date", "birth_date", 15), ("mother", "birth_date", "birth_date", 15),
    ("director", "release_date", "birth_date", 15), ("author", "published", "birth_date", 15),
    ("painter", "painted", "birth_date", 15), ("founder", "founded", "birth_date", 15),
    ("educated_at", "birth_date", "founded", -20), ("builder", "launched", "founded", 0),
    ("publisher", "published", "founded", 0), ("studio", "release_date", "founded", 0),
    ("war", "battle_date", "war_start", 0), ("ended_war", "signed_on", "war_start", 0),
    ("first_climber", "first_ascent", "birth_date", 10), ("architect", "opened", "birth_date", 15),
    ("based_on", "release_date", "published", 0), ("sequel", "published", "published", -400),
)  # fmt: skip
"""(relation, date of the subject, date of the other, least number of years between them)."""
