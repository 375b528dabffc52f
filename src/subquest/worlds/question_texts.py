"""How questions ask for facts: the tables of `text/questions.txt`.

`{x}` is the subject, `{x's}` its possessive, `{n}` the common noun of the value ("town", "novel"), `{is}` follows
whether the subject is still alive, `{wife}` is the word for the spouse, `{region}` the country whose war it was. A
relation of one kind of entity alone is written `kind.relation`. Of several alternatives the last one that needs no
genitive is held out for test phrasings.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from .entity import Date, Entity, number
from .grammar import possessive
from .relations import RELATIONS
from .templates import UNITS
from .text_files import alternatives, read_rows


class Asking(NamedTuple):
    """The wording of one relation: questions for its value, and noun phrases for the thing at its end."""

    questions: tuple[str, ...]
    phrases: tuple[str, ...] = ()


class Listing(NamedTuple):
    """The wording of an inverse relation: the rest of "How many ..." and "Which ...", the whole list, one item."""

    verb: str
    whole: str
    item: str


class Comparison(NamedTuple):
    """How two values of a relation are compared: the question's first words, a verb for the smaller, for the larger."""

    who: str
    less: str
    more: str
    yes_no: str


class Superlative(NamedTuple):
    """How the first and the last item of a list are asked for, by a relation of the items."""

    inverse: str
    relation: str
    least: tuple[str, ...]
    most: tuple[str, ...]


def _held_out_last(cell: str) -> tuple[str, ...]:
    """The alternatives with one that takes any subject at the end: a genitive would be ambiguous after a long one."""
    found = list(alternatives(cell))
    plain = [text for text in found if "{x's}" not in text]
    if "{x's}" in found[-1] and plain:
        found.remove(plain[-1])
        found.append(plain[-1])
    return tuple(found)


ASKING = {name: Asking(*map(_held_out_last, cells)) for name, *cells in read_rows("questions", "relations")}
LISTINGS = {inverse: Listing(*cells) for inverse, *cells in read_rows("questions", "lists")}
EVENTS: dict[str, str] = dict(read_rows("questions", "events"))
"""Relations that date an event, and the event's noun phrase."""
COMPARISONS = {relation: Comparison(*cells) for relation, *cells in read_rows("questions", "comparisons")}
SAME = {relation: alternatives(cell) for relation, cell in read_rows("questions", "same")}
"""Relations of which two values may be the same, and how to ask whether they are."""
KINSHIP = {name: tuple(path.split()) for name, path in read_rows("questions", "kinship")}
"""Words for relatives, and the relations that lead to them."""
SUPERLATIVES = [
    Superlative(inverse, relation, alternatives(least), alternatives(most))
    for inverse, relation, least, most in read_rows("questions", "superlatives")
]


@functools.cache
def asking(relation: str, kind: str) -> Asking | None:
    """The wording of a relation of this kind of entity; None where no question asks for it."""
    return ASKING.get(f"{kind}.{relation}") or ASKING.get(relation)


def fill(template: str, x: str, source: Entity, noun: str = "") -> str:
    """The template about `x`, which names the entity `source`; `noun` is the common noun of the answer."""
    out = template.replace("{x's}", possessive(x)).replace("{x}", x).replace("{n}", noun)
    if "{is}" in out:
        out = out.replace("{is}", "was" if "death_date" in source.facts else "is")
    if "{wife}" in out:
        out = out.replace("{wife}", "wife" if source.gender == "male" else "husband")
    if "{region" in out:
        country = source.one("country").name
        out = out.replace("{region's}", possessive(country)).replace("{region}", country)
    return out


def answer_texts(value: Entity | Date | int | str, relation: str, subject: Entity | None = None) -> tuple[str, ...]:
    """How an answer may be written, the best form first."""
    if isinstance(value, Entity):
        names = [value.name, *value.aliases]
        return tuple(dict.fromkeys(names if value.title == value.name else [*names, value.title]))
    if isinstance(value, Date):
        return str(value), value.american
    if isinstance(value, int):
        kind = RELATIONS.get(relation)
        if kind is None or kind.value == "year":
            return (str(value),)
        unit = kind.unit
        if unit == "length":
            unit = "km" if subject is not None and subject.kind == "river" else "m"
        plain = number(value)
        texts = [*(f"{plain} {name}" for name in UNITS.get(unit, ())), plain, str(value)]
        return tuple(dict.fromkeys(texts))
    return (value, value.removeprefix("the ")) if value.startswith("the ") else (value,)
