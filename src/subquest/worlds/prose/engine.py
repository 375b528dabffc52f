"""From facts to sentences: templates, references to the subject, lists, and clause merging.

A template is a clause with slots. `{rel}` tells the fact `rel` of the article's subject and is recorded as stated;
`{rel:adj}`, `{rel:years}`, `{rel:cap}` change its form; `{rel#}` is the length of a list, `{rel#?one/many}` chooses by
it; `{S}` and `{S's}` refer to the subject, `{he}`, `{his}`, `{him}` are its pronouns; `{is}` and `{now/then}` follow
whether the subject still exists; `[word]` is expanded from a lexicon; `a~` becomes a or an.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from ..entity import MONTHS, NOW, Date, Entity, number
from ..relations import INVERSES, RELATIONS
from ..stream import Stream
from .words import PRONOUNS, SMALL_NUMBERS, capitalise, definite, described, join, possessive

BEGINNINGS = ("founded", "opened", "published", "release_date", "song_year", "painted", "formed", "launched", "war_end",
              "battle_date", "first_awarded")  # fmt: skip
WORKS = ("film", "book", "album", "song", "painting")
_SLOT = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}|\[(\w+)\]")


def made_in(work: Entity) -> tuple[int, int]:
    """Sorts works by year; things without a year keep their order."""
    year = next(
        (y for y in map(work.year, ("release_date", "published", "painted", "song_year", "birth_date")) if y), 0
    )
    return year, len(work.id) if year else 0


class Fact(NamedTuple):
    """A fact as an article states it: subject, relation, object (an id, an ISO date, a number or a word), surface."""

    subject: str
    relation: str
    object: str | int
    surface: str


@dataclass(frozen=True, slots=True)
class Template:
    mode: str
    """L lead sentence, v verb phrase, p participle phrase, s sentence, c colour without facts."""
    condition: str
    text: str
    parts: tuple[tuple[str, str], ...]
    """(literal, slot) pairs; lexicon words are slots that begin with a bracket."""
    needs: tuple[str, ...]
    """Relations told by the template."""
    also: tuple[str, ...]
    """Relations it uses without telling all of their value (the year of a date)."""
    inner: bool
    """Whether the subject stands inside the clause, where a bare pronoun would read badly."""


def compile_template(mode: str, condition: str, text: str) -> Template:
    parts: list[tuple[str, str]] = []
    needs: list[str] = []
    also: list[str] = []
    end = 0
    for match in _SLOT.finditer(text):
        slot = match.group(1) if match.group(1) is not None else "[" + match.group(2)
        parts.append((text[end : match.start()], slot))
        end = match.end()
        for name in re.findall(r"[a-z_]+", re.split(r"[:#]", slot)[0]) if slot[0] != "[" else ():
            known = name in RELATIONS or name in INVERSES or name == "alias"
            if known and "/" not in slot.split("?")[0]:
                told = also if slot.endswith((":y", ":citizen")) else needs
                if name not in told:
                    told.append(name)
    parts.append((text[end:], ""))
    rest = tuple(name for name in also if name not in needs)
    return Template(mode, condition, text, tuple(parts), tuple(needs), rest, text.find("{S}") > 0)


class Bank:
    """The templates of one kind of entity, by mode and by the relation they tell."""

    def __init__(self, text: str, order: list[str], lexicon: dict[str, list[str]]) -> None:
        self.order = {relation: i for i, relation in enumerate(order)}
        self.lexicon = lexicon
        self.leads: list[Template] = []
        self.colours: list[Template] = []
        self.telling: dict[str, list[Template]] = {}
        self.templates: list[Template] = []
        for line in filter(None, map(str.strip, text.split("\n"))):
            head, body = line.split("|", 1)
            mode, _, condition = head.partition("?")
            template = compile_template(mode, condition, body.strip())
            self.templates.append(template)
            if mode == "L":
                self.leads.append(template)
            elif mode == "c":
                self.colours.append(template)
            else:
                for relation in template.needs:
                    self.telling.setdefault(relation, []).append(template)


def canonical(value: object) -> str | int:
    """A value as fact files hold it."""
    if isinstance(value, Entity):
        return value.id
    return value.iso if isinstance(value, Date) else value if isinstance(value, int) else str(value)


class Teller:
    """Turns templates into text for one article and remembers which facts the text states."""

    def __init__(self, subject: Entity, stream: Stream, lexicon: dict[str, list[str]]) -> None:
        self.subject, self.stream, self.lexicon = subject, stream, lexicon
        self.extant = not subject.facts.get("death_date")
        self.american = stream.chance(0.3)
        self.quoted = stream.chance(0.3)
        self.long_units = stream.chance(0.5)
        self.stated: list[Fact] = []
        self.mentioned: set[str] = set()
        self.reference = "name"
        general = {"political party": "party", "football club": "club"}.get(subject.noun, "")
        if subject.kind == "company" and stream.chance(0.6):
            general = "company"
        self.short_noun = general or subject.noun

    def tell(self, template: Template) -> str:
        out = []
        for literal, slot in template.parts:
            out.append(literal)
            if slot:
                out.append(self._slot(slot))
        return "".join(out)

    def _expand(self, text: str) -> str:
        return _SLOT.sub(lambda m: self._slot(m.group(1) if m.group(1) is not None else "[" + m.group(2)), text)

    def _slot(self, slot: str) -> str:
        if slot[0] == "[":
            return self._expand(self.stream.pick(self.lexicon[slot[1:]]))
        if slot == "S":
            return self.name()
        if slot == "S's":
            return self.possessive()
        pronouns = PRONOUNS[self.subject.gender]
        if slot in pronouns:
            return pronouns[slot]
        if slot == "is":
            return "is" if self.extant else "was"
        if slot == "noun":
            return self.subject.noun
        if slot[0] == "@":
            return self._chance_date(slot)
        if "#" in slot:
            return self._counted(slot)
        if "/" in slot:
            now, then = slot.split("/")
            return now if self.extant else then
        relation, _, form = slot.partition(":")
        return self.value(relation, form)

    def _counted(self, slot: str) -> str:
        relation, _, form = slot.partition("#")
        n = len(self.subject.many(relation))
        if form == "noun":
            return "child" if n == 1 else "children"
        if form.startswith("?"):
            one, _, many = form[1:].partition("/") if "{" not in form else _split_choice(form[1:])
            return self._expand(one if n == 1 else many)
        word = SMALL_NUMBERS[n] if n < len(SMALL_NUMBERS) else str(n)
        return capitalise(word) if form == ":cap" else word

    def name(self) -> str:
        """The subject as the clause's subject, by the reference chosen for the sentence."""
        e = self.subject
        if self.reference == "pronoun":
            return PRONOUNS[e.gender]["he"]
        if self.reference == "short":
            return e.name.rsplit(" ", 1)[-1] if e.kind == "person" else f"the {self.short_noun}"
        return f'"{e.name}"' if e.kind == "song" else definite(e)

    def possessive(self) -> str:
        if self.reference == "pronoun":
            return PRONOUNS[self.subject.gender]["his"]
        return possessive(self.name())

    def value(self, relation: str, form: str = "") -> str:
        e = self.subject
        if relation == "alias":
            self.stated.append(Fact(e.id, "alias", e.aliases[0], e.aliases[0]))
            return e.aliases[0]
        value = e.facts[relation]
        if relation in INVERSES:
            items = [self._listed(relation, item, form) for item in sorted(e.many(relation), key=made_in)]
            return join(items)
        if isinstance(value, list):
            return join([self._told(e, relation, item) for item in value])
        if form == "y":
            return str(e.year(relation))
        if form == "citizen":
            author = e.one(relation)
            adjective = str(author.one("citizenship").facts["adjective"])
            self.stated.append(Fact(author.id, "citizenship", author.one("citizenship").id, adjective))
            return adjective
        if form == "adj" and isinstance(value, Entity):
            adjective = str(e.one(relation).facts["adjective"])
            self.stated.append(Fact(e.id, relation, canonical(value), adjective))
            return adjective
        text = self._told(e, relation, value, form)
        return capitalise(text) if form == "cap" else text

    def list_item(self, inverse: str, item: Entity) -> str:
        """An entry of a list under the text."""
        return self._listed(inverse, item, "years")

    def _listed(self, inverse: str, item: Entity, form: str) -> str:
        for relation in INVERSES[inverse]:
            if item.facts.get(relation) is self.subject or self.subject in item.many(relation):
                self.stated.append(Fact(item.id, relation, self.subject.id, item.name))
        text = (
            self.title(item)
            if form == "name"
            else self.mention(item, plain=form != "" or len(self.subject.many(inverse)) > 1)
        )
        year = item.year("release_date") or item.year("published") or item.year("painted") or item.year("song_year")
        if form == "years" and year:
            for relation in ("published", "painted", "song_year"):
                if relation in item.facts:
                    self.stated.append(Fact(item.id, relation, year, str(year)))
            return f"{text} ({year})"
        return text

    def _told(self, subject: Entity, relation: str, value: object, form: str = "") -> str:
        if isinstance(value, Entity):
            self.stated.append(Fact(subject.id, relation, value.id, value.name))
            if form == "ref":
                return self._credited(value)
            if form == "name":
                return self.title(value)
            return self.mention(value, plain=relation in value.noun)
        if isinstance(value, Date):
            surface = value.american if self.american else str(value)
            self.stated.append(Fact(subject.id, relation, value.iso, surface))
            return surface
        if isinstance(value, int):
            year = RELATIONS[relation].value == "year"
            surface = str(value) if year else number(value)
            self.stated.append(Fact(subject.id, relation, value, surface))
            if year or form == "raw":
                return surface
            measured = self._with_unit(surface, RELATIONS[relation].unit)
            return measured.replace(" ", "-").removesuffix("s") if form == "adj" else measured
        self.stated.append(Fact(subject.id, relation, str(value), str(value)))
        return str(value)

    def _credited(self, work: Entity) -> str:
        """A work with its author: "the novel X by Y"."""
        author, roll = work.one("author"), self.stream.random()
        title = f'"{work.name}"' if self.quoted else work.name
        if roll < 0.4:
            return f"the {work.noun} {title}"
        self.stated.append(Fact(work.id, "author", author.id, author.name))
        return (
            f"the {work.noun} {title} by {author.name}"
            if roll < 0.7
            else f"{possessive(author.name)} {work.noun} {title}"
        )

    def _chance_date(self, kind: str) -> str:
        """A year or day for colour sentences, never before the subject began."""
        if kind == "@day":
            return f"{self.stream.between(1, 28)} {self.stream.pick(MONTHS)}"
        if kind == "@lifeyear":
            born, died = self.subject.year("birth_date"), self.subject.year("death_date") or NOW
            return str(self.stream.between(born + 22, max(born + 22, min(died - 1, born + 60))))
        if kind == "@railyear":
            return str(self.stream.between(1848, 1912))
        start = max((self.subject.year(r) for r in BEGINNINGS), default=0) or 1800
        return str(self.stream.between(min(max(start + 2, 1790), NOW - 2), NOW - 2))

    def _with_unit(self, surface: str, unit: str) -> str:
        if unit == "length":
            unit = "km" if self.subject.kind == "river" else "m"
        if unit == "minutes":
            return f"{surface} minutes"
        names = {"km": ("km", "kilometres"), "m": ("m", "metres"), "km2": ("km²", "square kilometres")}
        if unit not in names:
            return surface
        return f"{surface} {names[unit][self.long_units]}"

    def title(self, e: Entity) -> str:
        return f'"{e.name}"' if e.kind == "song" or (self.quoted and e.kind in WORKS) else definite(e)

    def mention(self, e: Entity, plain: bool = False) -> str:
        """Another entity by name, sometimes with a word about it (which then is a stated fact as well)."""
        text = self.title(e)
        if e.name != e.title:
            return described(e, text)
        if plain or e.id in self.mentioned:
            return text
        self.mentioned.add(e.id)
        roll = self.stream.random()
        if roll < 0.12 and e.kind == "person" and e.noun != "person":
            self.stated.append(Fact(e.id, "occupation", e.noun, e.noun))
            return f"the {e.noun} {text}"
        if roll < 0.16 and e.kind == "city" and "province" in e.facts:
            province = e.one("province")
            self.stated.append(Fact(e.id, "province", province.id, province.name))
            return f"{text} in {province.name}"
        if (
            roll < 0.2
            and not text.startswith("the ")
            and e.kind in ("company", "film", "book", "album", "band", "team", "painting", "newspaper")
        ):
            return f"the {e.noun} {text}"
        return text


def _split_choice(text: str) -> tuple[str, str, str]:
    """one/many where either side may hold slots with slashes of their own."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if c == "/" and not depth:
            return text[:i], "/", text[i + 1 :]
    raise ValueError(f"no choice in {text!r}")


def applicable(template: Template, entity: Entity, available: set[str]) -> bool:
    if template.condition == "dead" and "death_date" not in entity.facts:
        return False
    if template.condition == "alive" and "death_date" in entity.facts:
        return False
    return all(r in available for r in template.needs) and all(r in entity.facts for r in template.also)
