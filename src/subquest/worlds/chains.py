"""Chains: paths of stated facts from one entity to another, and their words.

A chain of k hops starts at an entity and follows relations whose value is unique in the whole world and stated in some
article. It can be named by a nested noun phrase ("the mayor of the town where X was born"), and each hop is a
sub-question that one article answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from .articles import CORE_FACTS, Article
from .entity import Date, Entity, number
from .programs import Atom, StepRow
from .prose.asking import Asking, asking
from .prose.words import definite, described, possessive
from .region import Region
from .relations import INVERSES, RELATIONS
from .stream import Stream

_COMPOUND = re.compile(r" (of|that|who|whom|whose|where|which|to|by|in|on|at|for|with) ")
"""A noun phrase whose genitive would be ambiguous: "the mother of X's birthplace"."""
PHRASINGS = ("all", "train", "held-out")
TRIVIAL = ("citizenship", "country")
"""Relations that nearly always lead to the region's own country."""
BACKTRACKS = {
    ("capital", "province"),
    ("seat", "province"),
    ("province", "seat"),
    ("twin_town", "twin_town"),
    ("spouse", "spouse"),
    ("father", "spouse"),
    ("mouth", "mouth"),
    ("mother", "spouse"),
    ("children", "spouse"),
    ("stadium", "city"),
    ("album", "performer"),
    ("highest_point", "province"),
}


@dataclass(frozen=True, slots=True)
class Hop:
    """One step: the relation followed, where it leads and which article says so."""

    relation: str
    inverse: bool
    source: Entity
    value: Entity | Date | int | str
    support: str
    """Id of the article that states the fact."""
    answers: tuple[str, ...]
    """Forms of the value, first the one that stands in that article."""


@dataclass(slots=True)
class Chain:
    start: Entity
    hops: list[Hop] = field(default_factory=list)
    named: str = ""
    """How the question names the start; set when the chain is first put into words."""

    @property
    def end(self) -> Entity | Date | int | str:
        return self.hops[-1].value if self.hops else self.start

    @property
    def entity(self) -> Entity:
        if not isinstance(self.end, Entity):
            raise TypeError("the chain ends in a literal")
        return self.end


@dataclass(slots=True)
class Statements:
    """Which article states which fact, for one region."""

    articles: dict[tuple[str, str], dict[Atom, list[str]]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    places: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(article, subject, relation) to where the value first stands in the article's text."""

    def add(self, article: Article) -> None:
        id_ = article.entity.id
        self.titles[id_], self.texts[id_] = article.entity.title, article.text
        for fact, start in article.facts:
            self.places.setdefault((id_, fact.subject, fact.relation), start)
            by_value = self.articles.setdefault((fact.subject, fact.relation), {})
            by_value.setdefault(fact.object, []).append(id_)

    def where(self, subject: Entity, relation: str, value: Atom, prefer: str) -> str | None:
        """An article that states the fact, the preferred one if it does."""
        found = self.articles.get((subject.id, relation), {}).get(value)
        if found is None:
            return subject.id if subject.core and relation in CORE_FACTS[subject.kind] else None
        return prefer if prefer in found else found[0]

    def as_written(self, article: str, subject: str, relation: str, forms: tuple[str, ...]) -> tuple[str, ...]:
        """The forms of a value, with the one that the article uses first."""
        start = self.places.get((article, subject, relation))
        if start is None:
            return forms
        text = self.texts[article]
        used = [f for f in forms if text.startswith(f, start)]
        return tuple(dict.fromkeys([*sorted(used, key=len, reverse=True)[:1], *forms]))


class Words:
    """Puts chains into words, with the phrasings that are allowed."""

    def __init__(self, stream: Stream, phrasings: str) -> None:
        self.stream, self.phrasings = stream, phrasings

    def choose(self, alternatives: tuple[str, ...]) -> str:
        if self.phrasings == "held-out" or len(alternatives) == 1:
            return alternatives[-1]
        return self._weighted(alternatives, alternatives)

    def _weighted(self, fit: Sequence[str], alternatives: tuple[str, ...]) -> str:
        """One of those that fit; the held-out one, which tends to be stiffer, seldom or in training never."""
        share = 0.0 if self.phrasings == "train" else 0.3
        options = [(a, share if a == alternatives[-1] else 1.0) for a in fit]
        return self.stream.weighted(options) if any(w for _, w in options) else alternatives[0]

    def asking(self, hop_relation: str, source: Entity) -> Asking:
        table = asking()
        return table.get(f"{source.kind}.{hop_relation}") or table[hop_relation]

    def mention(self, e: Entity, plain: bool = False) -> str:
        """A start entity as a question names it."""
        name = definite(e)
        if e.kind == "song":
            name = f'"{e.name}"'
        if e.name != e.title:
            return described(e, name)
        if not plain and e.kind in ("film", "book", "album", "song", "painting", "band") and self.stream.chance(0.75):
            return f"the {e.noun} {name}"
        if (
            not plain
            and e.kind in ("company", "newspaper")
            and not name.startswith("the ")
            and self.stream.chance(0.25)
        ):
            return f"the {e.noun} {name}"
        if not plain and e.aliases and e.kind in ("person", "city") and self.stream.chance(0.3):
            return e.aliases[0]
        return name

    def reference(self, e: Entity, n: int) -> str:
        """The answer of step n inside a later sub-question."""
        if e.name != e.title:
            return described(e, f"#{n}")
        return f"the #{n}" if definite(e) != e.name else f"#{n}"

    def fill(self, template: str, x: str, hop: Hop | None, source: Entity) -> str:
        noun = hop.value.noun if hop is not None and isinstance(hop.value, Entity) else ""
        return fill(template, x, source, noun)

    def phrase(self, chain: Chain, upto: int | None = None) -> str:
        """The noun phrase of the chain's end."""
        text = self.start(chain)
        for hop in chain.hops[:upto]:
            text = self.fill(self.fitting(self.asking(hop.relation, hop.source).phrases, text), text, hop, hop.source)
        return text

    def start(self, chain: Chain) -> str:
        chain.named = chain.named or self.mention(chain.start)
        return chain.named

    def fitting(self, alternatives: tuple[str, ...], x: str) -> str:
        """An alternative that stays readable: a long subject stands at the end and never in the genitive."""
        if self.phrasings == "held-out" or len(alternatives) == 1:
            return alternatives[-1]
        fit: Sequence[str] = alternatives
        if len(x.split()) > 5:
            fit = [a for a in alternatives if a.rstrip("?").endswith("{x}")] or alternatives
        if _COMPOUND.search(x) or "'" in x or (x.startswith("the ") and len(x.split()) > 3):
            fit = [a for a in fit if "{x's}" not in a] or alternatives
        return self._weighted(fit, alternatives)

    def question(self, chain: Chain) -> str:
        """The question whose answer is the chain's end."""
        last = chain.hops[-1]
        if len(chain.hops) >= 4 and self.stream.chance(0.6):
            return self._in_two(chain)
        text = self.phrase(chain, len(chain.hops) - 1)
        return self.fill(self.fitting(self.asking(last.relation, last.source).questions, text), text, last, last.source)

    def _in_two(self, chain: Chain) -> str:
        """A long chain as two sentences: one that leads half the way, one that asks the rest."""
        middle = len(chain.hops) // 2
        first = self.phrase(chain, middle)
        bridge = chain.hops[middle - 1].value
        if not isinstance(bridge, Entity):
            raise TypeError("a chain cannot continue from a literal")
        text = "this person" if bridge.kind == "person" else f"this {bridge.noun}"
        rest = chain.hops[middle:]
        for hop in rest[:-1]:
            text = self.fill(self.fitting(self.asking(hop.relation, hop.source).phrases, text), text, hop, hop.source)
        last = rest[-1]
        ask = self.fill(self.fitting(self.asking(last.relation, last.source).questions, text), text, last, last.source)
        return f"{self.stream.pick(('Take', 'Consider', 'Think of'))} {first}. {ask}"

    def sub_question(self, hop: Hop, x: str) -> str:
        return self.fill(self.choose(self.asking(hop.relation, hop.source).questions), x, hop, hop.source)


def fill(template: str, x: str, source: Entity, noun: str = "") -> str:
    out = template.replace("{x's}", possessive(x)).replace("{x}", x).replace("{n}", noun)
    if "{is}" in out:
        out = out.replace("{is}", "was" if "death_date" in source.facts else "is")
    if "{wife}" in out:
        out = out.replace("{wife}", "wife" if source.gender == "male" else "husband")
    if "{region" in out:
        country = source.one("country").name
        out = out.replace("{region's}", possessive(country)).replace("{region}", country)
    return out


class Walker:
    """Finds hops and chains of a region."""

    def __init__(self, region: Region, statements: Statements, stream: Stream) -> None:
        self.region, self.statements, self.stream = region, statements, stream

    def forward(self, e: Entity, relation: str) -> Hop | None:
        value = e.facts.get(relation)
        if value is None or isinstance(value, list) or relation not in RELATIONS:
            return None
        if e.region != self.region.number and relation not in CORE_FACTS.get(e.kind, ()):
            return None
        atom = value.id if isinstance(value, Entity) else value.iso if isinstance(value, Date) else value
        support = self.statements.where(e, relation, atom, e.id)
        if support is None:
            return None
        forms = self.statements.as_written(support, e.id, relation, answer_texts(value, relation, e))
        return Hop(relation, False, e, value, support, forms)

    def backward(self, e: Entity, inverse: str) -> Hop | None:
        """The hop to the only thing on the other side of an inverse relation."""
        if e.region != self.region.number or len(e.many(inverse)) != 1:
            return None
        item = e.many(inverse)[0]
        for relation in INVERSES[inverse]:
            if item.facts.get(relation) is e:
                support = self.statements.where(item, relation, e.id, e.id)
                if support:
                    return Hop(inverse, True, e, item, support, answer_texts(item, inverse))
        return None

    def listed(self, e: Entity, inverse: str) -> list[Entity]:
        """The whole list of an inverse relation, sorted by id, if the entity's own article gives all of it."""
        items = sorted(e.many(inverse), key=lambda i: i.id)
        for item in items:
            for relation in INVERSES[inverse]:
                if item.facts.get(relation) is e or e in item.many(relation):
                    if self.statements.where(item, relation, e.id, e.id) != e.id:
                        return []
                    break
        return items

    def hops(self, e: Entity, last: bool) -> list[Hop]:
        """Hops out of an entity; only to entities unless it is the chain's last."""
        table, out = asking(), []
        for relation in e.facts:
            if relation in INVERSES:
                hop = self.backward(e, relation) if relation in table else None
            else:
                hop = self.forward(e, relation) if relation in table or f"{e.kind}.{relation}" in table else None
            if hop is None:
                continue
            if not last:
                words = table.get(f"{e.kind}.{relation}") or table[relation]
                if not isinstance(hop.value, Entity) or not words.phrases:
                    continue
            out.append(hop)
        return out

    def chain(self, start: Entity, length: int, to_entity: bool = False) -> Chain | None:
        """A random chain of that many hops that never comes back to where it was."""
        chain, seen = Chain(start), {start.id}
        for i in range(length):
            last = i == length - 1
            options = []
            for hop in self.hops(chain.entity, last and not to_entity):
                if isinstance(hop.value, Entity) and (hop.value.id in seen or hop.value.name in start.name):
                    continue
                if chain.hops and self._pointless(chain.hops[-1], hop):
                    continue
                options.append((hop, 0.15 if hop.relation in TRIVIAL else 1.0))
            if not options:
                return None
            hop = self.stream.weighted(options)
            chain.hops.append(hop)
            if isinstance(hop.value, Entity):
                seen.add(hop.value.id)
        return chain

    @staticmethod
    def _pointless(before: Hop, hop: Hop) -> bool:
        if (before.relation, hop.relation) in BACKTRACKS:
            return True
        return before.relation in TRIVIAL and hop.relation in TRIVIAL


def rows(chain: Chain, offset: int) -> list[StepRow]:
    """The chain as program steps; offset is the number of steps before it."""
    out: list[StepRow] = []
    for i, hop in enumerate(chain.hops):
        subject = hop.source.id if i == 0 else f"#{offset + i}"
        out.append(("of" if hop.inverse else "get", subject, hop.relation))
    return out


def answer_texts(value: Entity | Date | int | str, relation: str, subject: Entity | None = None) -> tuple[str, ...]:
    """How an answer may be written, the best form first."""
    if isinstance(value, Entity):
        forms = [value.name, *value.aliases]
        return tuple(dict.fromkeys(forms if value.title == value.name else [*forms, value.title]))
    if isinstance(value, Date):
        return str(value), value.american
    if isinstance(value, int):
        kind = RELATIONS.get(relation)
        if kind is None or kind.value == "year":
            return (str(value),)
        unit = kind.unit
        if unit == "length":
            unit = "km" if subject is not None and subject.kind == "river" else "m"
        longer = {"km": "kilometres", "m": "metres", "km2": "square kilometres", "minutes": "minutes"}.get(unit, "")
        short = {"km2": "km²"}.get(unit, unit)
        plain = number(value)
        texts = [f"{plain} {short}", f"{plain} {longer}", plain] if unit else [plain]
        return tuple(dict.fromkeys([*texts, str(value)]))
    return (value, value.removeprefix("the ")) if value.startswith("the ") else (value,)
