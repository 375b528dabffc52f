"""The relations of a world: what kinds of entity they join, the type of their values, and their units."""

from __future__ import annotations

from dataclasses import dataclass

from .text_files import read_sections


@dataclass(frozen=True, slots=True)
class Relation:
    """One typed relation. `inverse` names the same fact seen from the other end, where an article may list it."""

    name: str
    subjects: tuple[str, ...]
    value: str
    """entity, date, year, number or word."""
    inverse: str = ""
    several: bool = False
    """Whether a subject may have more than one value."""
    unit: str = ""


def _relation(row: str) -> Relation:
    cells = ["" if cell == "-" else cell for cell in row.split()]
    name, subjects, value, inverse, several, unit = (cells + [""] * 6)[:6]
    return Relation(name, tuple(subjects.split(",")), value, inverse, bool(several), unit)


RELATIONS: dict[str, Relation] = {r.name: r for r in map(_relation, dict(read_sections("relations"))["relations"])}

INVERSES: dict[str, tuple[str, ...]] = {}
"""Inverse name to the relations it lists (children stands for father and mother)."""
for _r in RELATIONS.values():
    if _r.inverse:
        INVERSES[_r.inverse] = (*INVERSES.get(_r.inverse, ()), _r.name)
