"""Drafts: questions before they have an id, and what all types of question share in making them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..record import Step
from .chains import Chain, Statements, Walker, program_of
from .entity import Entity
from .phrasing import Phraser
from .programs import Atom, StepRow
from .random_stream import RandomStream
from .region import Region
from .relations import RELATIONS

START_KINDS = (
    "film", "film", "book", "book", "album", "song", "band", "painting", "company", "company", "city", "river",
    "university", "team", "stadium", "museum", "bridge", "ship", "ship", "award", "newspaper", "party", "battle", "war",
    "treaty", "mountain", "province",
)  # fmt: skip
"""Kinds of entity that a question may start from besides people; those named twice are twice as likely."""


class Plan(NamedTuple):
    """How a question is answered: its sub-questions, the same as a program, and the article that supports each."""

    steps: list[Step]
    program: list[StepRow]
    supports: list[str]


@dataclass(slots=True)
class Draft:
    """A question before it has an id."""

    text: str
    answers: tuple[str, ...]
    type: str
    plan: Plan
    operation: list[Atom]
    """What is done with the values of the steps, see `programs`."""
    items: dict[int, list[str]] = field(default_factory=dict)
    """By step (from 1), the names in the list that the step finds."""


class Drafter:
    """What makers of questions draw from: a region, the facts its articles state and the words to ask for them."""

    def __init__(self, region: Region, statements: Statements, phrasings: str = "all") -> None:
        self.region, self.statements = region, statements
        self.stream = RandomStream(region.seed, region.number, "questions")
        self.walker = Walker(region, statements, self.stream)
        self.phraser = Phraser(self.stream, phrasings)
        self.people = region.kinds["person"]
        self._owners: dict[str, list[Entity]] = {}

    def start(self) -> Entity:
        """A random entity for a question to start from."""
        kinds = self.region.kinds
        if self.stream.chance(0.35):
            return self.stream.pick(self.people)
        return self.stream.pick(kinds[self.stream.pick(START_KINDS)])

    def plan(self, *chains: Chain) -> Plan:
        """The plan that follows the chains one after the other."""
        plan = Plan([], [], [])
        for chain in chains:
            offset = len(plan.steps)
            for i, hop in enumerate(chain.hops):
                x = self.phraser.start(chain) if i == 0 else self.phraser.reference(hop.source, offset + i)
                plan.steps.append(Step(self.phraser.sub_question(hop, x), hop.answers[0], self.title(hop.support)))
                plan.supports.append(hop.support)
            plan.program.extend(program_of(chain, offset))
        return plan

    def title(self, article: str) -> str:
        if article in self.statements.titles:
            return self.statements.titles[article]
        for core in self.region.neighbours:
            for entity in core.entities:
                if entity.id == article:
                    return entity.title
        raise KeyError(article)

    def chain_to(self, relation: str, length: int) -> Chain | None:
        """A chain of that many hops of which the last follows the relation."""
        kinds = [k for k in RELATIONS[relation].subjects if self.region.kinds.get(k)]
        if length == 1:
            start = self.stream.pick(self.region.kinds[self.stream.pick(kinds)])
            chain = Chain(start)
        else:
            walked = self.walker.chain(self.start(), length - 1, to_entity=True)
            if walked is None or walked.entity.kind not in kinds or walked.entity.region != self.region.number:
                return None
            chain = walked
        hop = self.walker.forward(chain.entity, relation)
        if hop is None:
            return None
        chain.hops.append(hop)
        return chain

    def owners(self, inverse: str) -> list[Entity]:
        """Entities with at least two things on the other side of an inverse relation."""
        if inverse not in self._owners:
            self._owners[inverse] = [e for e in self.region.entities if len(e.many(inverse)) > 1]
        return self._owners[inverse]
