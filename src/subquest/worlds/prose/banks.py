"""All phrase banks by kind of entity, compiled on first use."""

from __future__ import annotations

import functools

from . import events, organisations, person, places, works
from .engine import Bank


@functools.cache
def banks() -> dict[str, Bank]:
    out = {"person": Bank(person.BANK, list(person.ORDER), person.LEXICON)}
    for module in (places, works, organisations, events):
        for kind, (text, order) in module.BANKS.items():
            out[kind] = Bank(text, order.split(), module.LEXICON)
    return out
