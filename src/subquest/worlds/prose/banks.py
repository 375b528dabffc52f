"""All phrase banks by kind of entity, compiled on first use."""

from __future__ import annotations

import functools

from . import colour, events, organisations, person, places, works
from .engine import Bank


@functools.cache
def banks() -> dict[str, Bank]:
    out = {"person": Bank(person.BANK + colour.PERSON, list(person.ORDER), colour.LEXICON | person.LEXICON)}
    for module in (places, works, organisations, events):
        for kind, (text, order) in module.BANKS.items():
            shared = colour.SHARED.get(kind, "")
            out[kind] = Bank(text + shared, order.split(), colour.LEXICON | module.LEXICON)
    return out
