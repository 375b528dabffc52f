"""From facts to sentences: the templates of the banks in `text/`, and the renderer that fills them for one article.

A bank has a line `order: ...`, which names the relations of its kind in the order in which articles state them, and
templates of the form `mode| text` or `mode?condition| text`. The mode is L (lead sentence), v (verb phrase),
p (participle phrase), s (sentence) or c (colour, a sentence without facts); the condition is `dead` or `alive`.

A template is a clause with slots. `{rel}` states the fact `rel` of the article's subject and is recorded as stated;
`{rel:adj}`, `{rel:years}`, `{rel:cap}` change its form; `{rel#}` is the length of a list, `{rel#?one/many}` chooses by
it; `{S}` and `{S's}` refer to the subject, `{he}`, `{his}`, `{him}` are its pronouns; `{is}` and `{now/then}` follow
whether the subject still exists; `{@year}` and the like are random dates; `[word]` is expanded from the lists under
`[words]`; `a~` becomes a or an.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..english import MONTHS
from .entity import NOW, Date, Entity, atom, number
from .grammar import PRONOUNS, SMALL_NUMBERS, capitalise, definite, described, join, possessive
from .random_stream import RandomStream
from .relations import INVERSES, RELATIONS
from .text_files import read_lists, read_sections

FILES = ("people", "places", "works", "organisations", "buildings", "history")
BEGINNINGS = ("founded", "opened", "published", "release_date", "song_year", "painted", "formed", "launched", "war_end",
              "battle_date", "first_awarded")  # fmt: skip
"""Dates before which nothing is said to have happened to the subject."""
WORKS = ("film", "book", "album", "song", "painting")
UNITS = {"km": ("km", "kilometres"), "m": ("m", "metres"), "km2": ("km²", "square kilometres"),
         "minutes": ("minutes", "minutes")}  # fmt: skip
"""Short and long form of each unit."""
_SLOT = re.compile(r"\{((?:[^{}]|\{[^{}]*\})*)\}|\[(\w+)\]")


class Fact(NamedTuple):
    """A fact as an article states it; `surface` is how the text writes the value (or, in a list, the subject)."""

    subject: str
    relation: str
    object: str | int
    surface: str


@dataclass(frozen=True, slots=True)
class Template:
    mode: str
    condition: str
    text: str
    parts: tuple[tuple[str, str], ...]
    """(literal, slot) pairs; lexicon words are slots that begin with a bracket."""
    needs: tuple[str, ...]
    """Relations that the template states."""
    also: tuple[str, ...]
    """Relations that it uses without stating all of their value (the year of a date)."""
    inner: bool
    """Whether the subject is inside the clause, where a pronoun would read badly."""

    def applies(self, entity: Entity, available: set[str]) -> bool:
        """Whether it can be said of the entity while these relations are left to state."""
        if self.condition and (self.condition == "dead") != ("death_date" in entity.facts):
            return False
        return all(r in available for r in self.needs) and all(r in entity.facts for r in self.also)


def compile_template(line: str) -> Template:
    head, _, text = line.partition("|")
    mode, _, condition = head.partition("?")
    text = text.strip()
    parts: list[tuple[str, str]] = []
    needs: list[str] = []
    also: list[str] = []
    end = 0
    for match in _SLOT.finditer(text):
        slot = _slot_of(match)
        parts.append((text[end : match.start()], slot))
        end = match.end()
        for name in re.findall(r"[a-z_]+", re.split(r"[:#]", slot)[0]) if slot[0] != "[" else ():
            known = name in RELATIONS or name in INVERSES or name == "alias"
            if known and "/" not in slot.split("?")[0]:
                (also if slot.endswith((":y", ":citizen")) else needs).append(name)
    parts.append((text[end:], ""))
    needs = list(dict.fromkeys(needs))
    rest = tuple(name for name in dict.fromkeys(also) if name not in needs)
    return Template(mode, condition, text, tuple(parts), tuple(needs), rest, text.find("{S}") > 0)


def _slot_of(match: re.Match[str]) -> str:
    return match.group(1) if match.group(1) is not None else "[" + match.group(2)


class Bank:
    """The templates of one kind of entity, by mode and by the relation they state."""

    def __init__(self, order: Sequence[str], lines: Sequence[str], lexicon: Mapping[str, Sequence[str]]) -> None:
        self.order = {relation: i for i, relation in enumerate(order)}
        self.lexicon = lexicon
        self.templates = [compile_template(line) for line in lines]
        self.leads = [t for t in self.templates if t.mode == "L"]
        self.colours = [t for t in self.templates if t.mode == "c"]
        self.by_relation: dict[str, list[Template]] = {}
        for template in self.templates:
            for relation in template.needs if template.mode not in ("L", "c") else ():
                self.by_relation.setdefault(relation, []).append(template)


@functools.cache
def banks() -> dict[str, Bank]:
    """The bank of each kind of entity, compiled on first use."""
    out = {}
    for name in FILES:
        lexicon = read_lists("colour", "words") | read_lists(name, "words")
        for kind, (order, *lines) in read_sections(name):
            if kind != "words":
                colour = (shared for kinds, shared in read_sections("colour") if kind in kinds.split())
                out[kind] = Bank(order.split()[1:], sum(colour, lines), lexicon)
    return out


def year_made(work: Entity) -> tuple[int, int]:
    """Sorts works by year; things without a year keep their order."""
    dates = map(work.year, ("release_date", "published", "painted", "song_year", "birth_date"))
    year = next(filter(None, dates), 0)
    return year, len(work.id) if year else 0


class Renderer:
    """Turns templates into text for one article and remembers which facts the text states."""

    def __init__(self, subject: Entity, stream: RandomStream, lexicon: Mapping[str, Sequence[str]]) -> None:
        self.subject, self.stream, self.lexicon = subject, stream, lexicon
        self.extant = not subject.facts.get("death_date")
        self.american = stream.chance(0.3)
        self.quoted = stream.chance(0.3)
        self.long_units = stream.chance(0.5)
        self.stated: list[Fact] = []
        self.mentioned: set[str] = set()
        self.reference = "name"
        """How the next clause refers to the subject: name, short or pronoun."""
        general = {"political party": "party", "football club": "club"}.get(subject.noun, "")
        if subject.kind == "company" and stream.chance(0.6):
            general = "company"
        self.short_noun = general or subject.noun

    def render(self, template: Template) -> str:
        out = []
        for literal, slot in template.parts:
            out.append(literal)
            if slot:
                out.append(self._slot(slot))
        return "".join(out)

    def _expand(self, text: str) -> str:
        return _SLOT.sub(lambda match: self._slot(_slot_of(match)), text)

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
            return self._random_date(slot)
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
            one, many = _split_choice(form[1:])
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
            return self._state(e, "alias", e.aliases[0], e.aliases[0])
        value = e.facts[relation]
        if relation in INVERSES:
            return join([self.listed(relation, item, form) for item in sorted(e.many(relation), key=year_made)])
        if isinstance(value, list):
            return join([self._value(e, relation, item) for item in value])
        if form == "y":
            return str(e.year(relation))
        if form == "citizen":
            author = e.one(relation)
            country = author.one("citizenship")
            return self._state(author, "citizenship", country, str(country.facts["adjective"]))
        if form == "adj" and isinstance(value, Entity):
            return self._state(e, relation, value, str(value.facts["adjective"]))
        text = self._value(e, relation, value, form)
        return capitalise(text) if form == "cap" else text

    def _state(self, subject: Entity, relation: str, value: Entity | Date | int | str, surface: str) -> str:
        """Records a fact as stated by these words."""
        self.stated.append(Fact(subject.id, relation, atom(value), surface))
        return surface

    def listed(self, inverse: str, item: Entity, form: str) -> str:
        """One item of a list that an inverse relation gives."""
        for relation in INVERSES[inverse]:
            if item.facts.get(relation) is self.subject or self.subject in item.many(relation):
                self._state(item, relation, self.subject, item.name)
        if form == "name":
            text = self.title(item)
        else:
            text = self.mention(item, plain=form != "" or len(self.subject.many(inverse)) > 1)
        year = item.year("release_date") or item.year("published") or item.year("painted") or item.year("song_year")
        if form == "years" and year:
            for relation in ("published", "painted", "song_year"):
                if relation in item.facts:
                    self._state(item, relation, year, str(year))
            return f"{text} ({year})"
        return text

    def _value(self, subject: Entity, relation: str, value: Entity | Date | int | str, form: str = "") -> str:
        if isinstance(value, Entity):
            self._state(subject, relation, value, value.name)
            if form == "ref":
                return self._credited(value)
            return self.title(value) if form == "name" else self.mention(value, plain=relation in value.noun)
        if isinstance(value, Date):
            return self._state(subject, relation, value, value.american if self.american else str(value))
        if isinstance(value, int):
            year = RELATIONS[relation].value == "year"
            surface = self._state(subject, relation, value, str(value) if year else number(value))
            if year or form == "raw":
                return surface
            measured = self._with_unit(surface, RELATIONS[relation].unit)
            return measured.replace(" ", "-").removesuffix("s") if form == "adj" else measured
        return self._state(subject, relation, value, value)

    def _credited(self, work: Entity) -> str:
        """A work with its author: "the novel X by Y"."""
        author, roll = work.one("author"), self.stream.random()
        title = f'"{work.name}"' if self.quoted else work.name
        if roll < 0.4:
            return f"the {work.noun} {title}"
        self._state(work, "author", author, author.name)
        if roll < 0.7:
            return f"the {work.noun} {title} by {author.name}"
        return f"{possessive(author.name)} {work.noun} {title}"

    def _random_date(self, kind: str) -> str:
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
        return f"{surface} {UNITS[unit][self.long_units]}" if unit in UNITS else surface

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
            return f"the {self._state(e, 'occupation', e.noun, e.noun)} {text}"
        if roll < 0.16 and e.kind == "city" and "province" in e.facts:
            province = e.one("province")
            return f"{text} in {self._state(e, 'province', province, province.name)}"
        labelled = ("company", "film", "book", "album", "band", "team", "painting", "newspaper")
        return f"the {e.noun} {text}" if roll < 0.2 and not text.startswith("the ") and e.kind in labelled else text


def _split_choice(text: str) -> tuple[str, str]:
    """one/many, where either side may hold slots with slashes of their own."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "{") - (c == "}")
        if c == "/" and not depth:
            return text[:i], text[i + 1 :]
    raise ValueError(f"no choice in {text!r}")
