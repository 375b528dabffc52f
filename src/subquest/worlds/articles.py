"""Articles: which facts an article states, in what order, and how its sentences are put together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .entity import Entity
from .grammar import capitalise, fix_articles
from .random_stream import RandomStream
from .region import Region
from .relations import INVERSES, RELATIONS
from .templates import Fact, Renderer, Template, banks, year_made

LABELS = {
    "elevation": "Elevation", "population": "Population", "area": "Area", "founded": "Founded", "length": "Length",
    "running_time": "Running time", "release_date": "Released", "pages": "Pages", "published": "Published",
    "tracks": "Tracks", "capacity": "Capacity", "opened": "Opened", "launched": "Launched", "height": "Height",
    "depth": "Depth", "employees": "Employees", "students": "Students", "first_ascent": "First ascent",
}  # fmt: skip
"""Relations that a table below the text may state."""
LISTS = {
    "directed": "Films as director", "starred_in": "Filmography", "books": "Bibliography", "recordings": "Discography",
    "paintings": "Paintings", "scored": "Film scores", "fleet": "Fleet", "films_of": "Films",
}  # fmt: skip
"""Inverse relations that a list below the text may state."""
BIRTH = frozenset(("birth_date", "birth_place", "father", "mother"))
"""Stated by verbs that say "was born", which cannot follow a participle that says it too."""


class Stated(NamedTuple):
    """A fact and where the article's text states it."""

    fact: Fact
    start: int


class Article(NamedTuple):
    """An entity's page: its text and the facts it states."""

    entity: Entity
    text: str
    facts: tuple[Stated, ...]


CORE_FACTS = {
    "country": ("capital", "language", "currency", "independence"),
    "province": ("country", "seat"),
    "city": ("province", "founded", "population"),
    "university": ("city", "founded"),
}
"""Facts that questions of other regions may use: always stated in the entity's own article."""


def spread_facts(region: Region) -> dict[str, set[str]]:
    """Decides which article states a fact: its subject's, its object's, both, and for a few facts none.

    Returns, by entity id, the relations that the entity's article leaves out.
    """
    s = RandomStream(region.seed, region.number, "spread")
    hidden: dict[str, set[str]] = {e.id: set() for e in region.entities}
    for entity in region.entities:
        for name in entity.facts:
            if name in INVERSES and not s.chance(0.72):
                hidden[entity.id].add(name)
    for entity in region.entities:
        kept = CORE_FACTS.get(entity.kind, ()) if entity.core else ()
        for name in entity.facts:
            relation = RELATIONS.get(name)
            if relation is None or name in kept:
                continue
            if relation.inverse:
                others = entity.many(name)
                listed = all(o.region == region.number and relation.inverse not in hidden[o.id] for o in others)
                if listed and others and s.chance(0.08):
                    hidden[entity.id].add(name)
            elif s.chance(0.05) and name not in ("citizenship", "occupation", "country", "noun"):
                hidden[entity.id].add(name)
    return hidden


def write_articles(region: Region, noise: float = 1.0) -> Iterator[Article]:
    """The region's articles, one an entity, in the order of its entities."""
    hidden = spread_facts(region)
    for entity in region.entities:
        yield ArticleWriter(entity, RandomStream(region.seed, "article", entity.id), hidden[entity.id], noise).write()


class ArticleWriter:
    """Writes one article."""

    def __init__(self, entity: Entity, stream: RandomStream, hidden: set[str], noise: float) -> None:
        self.entity, self.stream, self.noise = entity, stream, noise
        self.bank = banks()[entity.kind]
        self.renderer = Renderer(entity, stream, self.bank.lexicon)
        facts = entity.facts
        self.left = {r for r in self.bank.order if r in facts and r not in hidden}
        if entity.aliases:
            self.left.add("alias")
        self.text = ""
        self.facts: list[Stated] = []
        self.last = "name"
        self.sentences = 0

    def write(self) -> Article:
        self._add_sentence(self.renderer.render(self._pick(self._possible_leads())))
        tail = self._choose_blocks()
        for clause in self._with_colour(self._choose_clauses()):
            self._write_clause(clause)
        for block in tail:
            self._add_block(block)
        return Article(self.entity, self.text, tuple(self.facts))

    def _possible_leads(self) -> list[Template]:
        e, left = self.entity, self.left
        found = [t for t in self.bank.leads if t.applies(e, left)]
        if not found:  # everything that a lead could state is hidden: open with what any entity has
            left = {r for r in self.bank.order if r in e.facts} | ({"alias"} if e.aliases else set())
            found = [t for t in self.bank.leads if t.applies(e, left)]
        return found

    def _pick(self, templates: list[Template]) -> Template:
        template = self.stream.pick(templates)
        self.left.difference_update(template.needs)
        return template

    def _choose_blocks(self) -> list[tuple[str, list[str]]]:
        """Facts stated in a table or a list after the text instead of in a sentence."""
        s, out = self.stream, []
        for relation, label in LISTS.items():
            if relation in self.left and len(self.entity.many(relation)) >= 3 and s.chance(0.3):
                self.left.discard(relation)
                out.append((label, [relation]))
        rows = [r for r in LABELS if r in self.left]
        if len(rows) >= 2 and s.chance(0.12):
            self.left.difference_update(rows)
            out.append(("", rows))
        return out

    def _choose_clauses(self) -> list[list[Template]]:
        """The templates that state all that is left, those of one sentence together."""
        s, order, out = self.stream, self.bank.order, []
        jitter = 0.5 if s.chance(0.5) else 3.0
        queue = sorted(self.left, key=lambda r: order[r])
        keys = {r: order[r] + s.random() * jitter for r in queue}
        queue.sort(key=lambda r: (keys[r], r))
        while queue:
            first = self._choose_template(queue[0])
            queue = [r for r in queue[1:] if r in self.left]
            if first is None:
                continue
            sentence = [first]
            wants = sentence[0].mode == "p" or (sentence[0].mode == "v" and s.chance(0.42))
            if wants and queue:
                born = first.needs[0] in ("birth_date", "birth_place") and first.mode == "p"
                verb = self._choose_verb([r for r in queue if not born or r not in BIRTH])
                if verb is not None:
                    sentence.append(verb)
                    queue = [r for r in queue if r in self.left]
            out.append(sentence)
        return out

    def _choose_template(self, relation: str) -> Template | None:
        """A phrase for the relation; None where every phrase also states a relation that was stated already."""
        fit = [t for t in self.bank.by_relation[relation] if t.applies(self.entity, self.left)]
        if not fit:
            self.left.discard(relation)
            return None
        more = [t for t in fit if len(t.needs) > 1]
        template = self.stream.pick(more if more and self.stream.chance(0.5) else fit)
        if template.mode == "p" and not self._has_other_verb(template):
            template = self.stream.pick([t for t in fit if t.mode != "p"] or fit)
        self.left.difference_update(template.needs)
        return template

    def _has_other_verb(self, participle: Template) -> bool:
        rest = self.left.difference(participle.needs)
        if participle.needs[0] in ("birth_date", "birth_place"):
            rest = rest.difference(BIRTH)
        return any(
            t.mode == "v" and all(r in rest for r in t.needs) for q in rest for t in self.bank.by_relation.get(q, ())
        )

    def _choose_verb(self, queue: list[str]) -> Template | None:
        for relation in queue:
            fit = [t for t in self.bank.by_relation[relation] if t.mode == "v" and all(r in self.left for r in t.needs)]
            if fit:
                return self._pick(fit)
        return None

    def _with_colour(self, clauses: list[list[Template]]) -> list[list[Template]]:
        """Adds sentences without facts, so that articles are as long as encyclopaedia paragraphs."""
        s, out = self.stream, list(clauses)
        wanted = int(self.noise * (s.between(4, 9) - 0.42 * len(clauses)) + 0.5)
        fit = [t for t in self.bank.colours if t.applies(self.entity, self.left)]
        for template in s.sample(fit, max(0, wanted)):
            out.insert(s.between(0, len(out)), [template])
        return out

    def _write_clause(self, clause: list[Template]) -> None:
        s, renderer, first = self.stream, self.renderer, clause[0]
        renderer.reference = self._choose_reference(first)
        if first.mode in ("s", "c"):
            text = renderer.render(first)
        elif first.mode == "p" and len(clause) > 1:
            participle = renderer.render(first)
            subject = renderer.name()
            verb = renderer.render(clause[1])
            front = s.chance(0.6) or renderer.reference == "pronoun"
            text = f"{participle}, {subject} {verb}." if front else f"{subject}, {participle}, {verb}."
        elif first.mode == "p":
            text = f"{renderer.name()} was {renderer.render(first)}."
        elif len(clause) > 1:
            text = self._coordinated(first, clause[1])
        else:
            text = f"{renderer.name()} {renderer.render(first)}."
        self._add_sentence(text)

    def _coordinated(self, first: Template, second: Template) -> str:
        s, renderer = self.stream, self.renderer
        subject, one, roll = renderer.name(), renderer.render(first), s.random()
        if roll < 0.5:
            return f"{subject} {one} and {renderer.render(second)}."
        if roll < 0.65 and renderer.reference != "pronoun":
            link = "who" if self.entity.kind == "person" else "which"
            return f"{subject}, {link} {one}, {renderer.render(second)}."
        renderer.reference = "pronoun"
        joint = ", and" if roll < 0.85 else ";"
        return f"{subject} {one}{joint} {renderer.name()} {renderer.render(second)}."

    def _choose_reference(self, template: Template) -> str:
        s, roll = self.stream, self.stream.random()
        person = self.entity.kind == "person"
        pronoun = 0.5 if person else 0.3
        if self.last in ("s", "pronoun2") and person:
            pronoun = 0.15
        if template.mode == "s" and not person:
            pronoun = 0.12
        if roll < pronoun and not template.inner:
            self.last = "pronoun2" if self.last == "pronoun" else "pronoun"
            return "pronoun"
        self.last = "s" if template.mode == "s" else "name"
        full = 0.1 if person else 0.3 if self.sentences > 1 else 0.0
        return "name" if s.chance(full) or not self._can_shorten() else "short"

    def _can_shorten(self) -> bool:
        return self.entity.kind not in ("country", "treaty", "war", "battle")

    def _add_sentence(self, text: str) -> None:
        text = capitalise(fix_articles(text))
        self.sentences += 1
        start = len(self.text) + 1 if self.text else 0
        self.text = f"{self.text} {text}" if self.text else text
        for fact in self.renderer.stated:
            at = text.find(fact.surface)
            if at < 0:
                raise LookupError(f"{fact.surface!r} is not in {text!r}")
            self.facts.append(Stated(fact, start + at))
        self.renderer.stated.clear()

    def _add_block(self, block: tuple[str, list[str]]) -> None:
        """A list of works or a table of figures, one line an entry."""
        label, relations = block
        if label:
            self._add_line(f"{label}:")
            for item in sorted(self.entity.many(relations[0]), key=year_made):
                self._add_line(f"- {self.renderer.listed(relations[0], item, 'years')}")
        else:
            for relation in relations:
                value = self.renderer.value(relation)
                self._add_line(f"{LABELS[relation]}: {value}")

    def _add_line(self, line: str) -> None:
        start = len(self.text) + 1
        self.text = f"{self.text}\n{line}"
        for fact in self.renderer.stated:
            self.facts.append(Stated(fact, start + line.index(fact.surface)))
        self.renderer.stated.clear()
