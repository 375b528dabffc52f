"""Chains: paths of stated facts from one entity to another.

A chain of k hops starts at an entity and follows relations whose value is unique in the whole world and stated in some
article. It can be named by a nested noun phrase ("the mayor of the town where X was born", see `phrasing`), and each
hop is a sub-question that one article answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .articles import CORE_FACTS, Article
from .entity import Date, Entity, atom
from .programs import Atom, StepRow
from .question_texts import answer_texts, asking
from .random_stream import RandomStream
from .region import Region
from .relations import INVERSES, RELATIONS

TRIVIAL = ("citizenship", "country")
"""Relations that nearly always lead to the region's own country."""
BACKTRACKS = {
    ("capital", "province"), ("seat", "province"), ("province", "seat"), ("twin_town", "twin_town"),
    ("spouse", "spouse"), ("father", "spouse"), ("mother", "spouse"), ("children", "spouse"), ("mouth", "mouth"),
    ("stadium", "city"), ("album", "performer"), ("highest_point", "province"),
}  # fmt: skip
"""Pairs of relations of which the second leads back or nowhere new."""


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
    """Forms of the value, first the one that the article uses."""


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
    positions: dict[tuple[str, str, str], int] = field(default_factory=dict)
    """(article, subject, relation) to the first position of the value in the article's text."""

    def add(self, article: Article) -> None:
        id_ = article.entity.id
        self.titles[id_], self.texts[id_] = article.entity.title, article.text
        for fact, start in article.facts:
            self.positions.setdefault((id_, fact.subject, fact.relation), start)
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
        start = self.positions.get((article, subject, relation))
        if start is None:
            return forms
        text = self.texts[article]
        used = [f for f in forms if text.startswith(f, start)]
        return tuple(dict.fromkeys([*sorted(used, key=len, reverse=True)[:1], *forms]))


class Walker:
    """Finds hops and chains of a region."""

    def __init__(self, region: Region, statements: Statements, stream: RandomStream) -> None:
        self.region, self.statements, self.stream = region, statements, stream

    def forward(self, e: Entity, relation: str) -> Hop | None:
        value = e.facts.get(relation)
        if value is None or isinstance(value, list) or relation not in RELATIONS:
            return None
        if e.region != self.region.number and relation not in CORE_FACTS.get(e.kind, ()):
            return None
        support = self.statements.where(e, relation, atom(value), e.id)
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
        out = []
        for relation in e.facts:
            wording = asking(relation, e.kind)
            if wording is None:
                continue
            hop = self.backward(e, relation) if relation in INVERSES else self.forward(e, relation)
            if hop is not None and (last or (isinstance(hop.value, Entity) and wording.phrases)):
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


def program_of(chain: Chain, offset: int = 0) -> list[StepRow]:
    """The chain as program steps; offset is the number of steps before it."""
    out: list[StepRow] = []
    for i, hop in enumerate(chain.hops):
        subject = hop.source.id if i == 0 else f"#{offset + i}"
        out.append(("of" if hop.inverse else "get", subject, hop.relation))
    return out
