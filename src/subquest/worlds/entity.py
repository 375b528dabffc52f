"""Entities: the things of a world, and the values their facts can have."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..english import MONTHS

NOW = 2024
"""The year in which the articles of a world are written."""


class Date(NamedTuple):
    """A day. Dates compare in time order."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        return f"{self.day} {MONTHS[self.month - 1]} {self.year}"

    @property
    def american(self) -> str:
        return f"{MONTHS[self.month - 1]} {self.day}, {self.year}"

    @property
    def iso(self) -> str:
        return f"{self.year:04d}-{self.month:02d}-{self.day:02d}"


class Entity:
    """One thing of a world: a person, a town, a film, ... and the facts about it.

    `facts` maps a relation's name to its value: another entity, a list of entities, a number, a date or a word.
    Lists that run against the direction of a relation (the films of a director) have the name of its inverse.
    """

    __slots__ = ("aliases", "core", "facts", "gender", "id", "kind", "name", "noun", "region", "title")

    def __init__(self, id: str, kind: str, name: str, noun: str, region: int, gender: str = "it") -> None:
        self.id, self.kind, self.name, self.noun, self.region, self.gender = id, kind, name, noun, region, gender
        self.title = name
        self.facts: dict[str, Value] = {}
        self.aliases: list[str] = []
        self.core = False
        """Whether other regions may refer to it; everything about it that they may use is always stated."""

    def __repr__(self) -> str:
        return f"<{self.kind} {self.title}>"

    def year(self, relation: str) -> int:
        """The year of a date or year fact; 0 where it has none."""
        value = self.facts.get(relation)
        return value.year if isinstance(value, Date) else value if isinstance(value, int) else 0

    def amount(self, relation: str) -> int:
        """The number a relation gives; 0 where it gives none."""
        value = self.facts.get(relation)
        return value if isinstance(value, int) else 0

    def one(self, relation: str) -> Entity:
        """The entity a relation points at; KeyError where it points at none."""
        value = self.facts[relation]
        if not isinstance(value, Entity):
            raise KeyError(relation)
        return value

    def append(self, relation: str, item: Entity) -> None:
        """Adds to the list of entities that a relation points at."""
        self.facts[relation] = [*self.many(relation), item]

    def many(self, relation: str) -> list[Entity]:
        """The entities a relation points at, as a list that may be empty."""
        value = self.facts.get(relation)
        return value if isinstance(value, list) else [value] if isinstance(value, Entity) else []


Value = Entity | list[Entity] | Date | int | str


def atom(value: Entity | Date | int | str) -> Any:
    """A value as fact files hold it: an id, an ISO date, a number or a word. Those of one relation can be compared."""
    return value.id if isinstance(value, Entity) else value.iso if isinstance(value, Date) else value


def number(value: int) -> str:
    """A number as articles print it, with commas for thousands; not for years."""
    return f"{value:,}"
