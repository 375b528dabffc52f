"""The parts of an answer that is a list: *wind turbine blades, C7*, *Rosa Lind and Otto Brandt*, one on each line.

A list is split at its lines; one of a single line at its semicolons, else at its commas, slashes or *and*. So
`Smith, John; Holt, Mia` has two parts. Commas inside numbers (1,200) and slashes inside units (km/h) split nothing.
"""

from __future__ import annotations

import re

from .statements import claim_of, words_of

MOST = 20
"""Parts of a list; a longer one is read as a sentence."""
LONGEST = 2000
"""Characters of a list."""
_SPLITS = (
    re.compile(r"\n+"),
    re.compile(r";"),
    re.compile(r",(?!\d)|(?<!\d),|[、，]"),
    re.compile(r"\s/\s|(?<=[^\W\d_]{2})/(?=[^\W\d_a-z][^\W\d_])"),
    re.compile(r"(?:\s+(?:and|as well as)|\s*&)\s+", re.IGNORECASE),
)
_ITEM = re.compile(r"^\s*(?:[-*•+]\s+|\d{1,2}[.)]\s+|(?:and|&)\s+)+", re.IGNORECASE)
_EDGES = " \t.,;"


def parts_of(answer: str, question: str) -> list[str]:
    """The parts of a list; none if an answer is no list.

    Each part is a few words or a list itself, and no two are the same. What the question says itself is a choice that
    it offers.
    """
    for split in _SPLITS if len(answer) <= LONGEST else ():
        parts = [_ITEM.sub("", part).strip(_EDGES) for part in split.split(answer)]
        if len(parts) > 1:
            return parts if len(parts) <= MOST and _are_items(parts, question) else []
    return []


def _are_items(parts: list[str], question: str) -> bool:
    claims, asked = [claim_of(part) for part in parts], words_of(question).line
    if len({claim.line for claim in claims}) < len(claims) or any(claim.negated for claim in claims):
        return False
    if not all(claim.line and claim.line not in asked for claim in claims):
        return False
    return all(claim.short or parts_of(part, question) for part, claim in zip(parts, claims, strict=True))
