"""All phrase banks by kind of entity, compiled on first use."""

from __future__ import annotations

import functools

from . import buildings, colour, events, organisations, person, places, works
from .engine import Bank


@functools.cache
def banks() -> dict[str, Bank]:
    out = {"person": Bank(person.BANK + colour.PERSON, person.ORDER.split(), colour.LEXICON | person.LEXICON)}
    for module in (places, works, organisations, buildings, events):
        for kind, (text, order) in module.BANKS.items():
            shared = colour.SHARED.get(kind, "")
            out[kind] = Bank(text + shared, order.split(), colour.LEXICON | module.LEXICON)
    return out
