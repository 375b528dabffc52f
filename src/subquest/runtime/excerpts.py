"""Documents cut to what a query needs: the sentences, list items and table rows that say most about it.

The results of one search share a number of tokens. Each of their pieces is worth

    the query's words that it has                  a word counts by how few of all pieces have it
    half of those that only its title has
    1 if it is the first of its result, which says what the rest is about
    minus 1 for each result ranked above its own

and the best pieces are kept while they fit. A piece keeps the heading or the line with a colon above it, and one that
begins with a pronoun the piece before it. What is left out is marked with an ellipsis on a line of its own, so the
sentences that remain can be quoted, and keep their lines (`citation.keep_parts`). A result of which nothing is kept is
left out. Results that fit as they are stay as they are.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..citation import keep_parts
from ..record import Hit
from ..retrieval.splitter import Size
from .relevance import stems
from .statements import sentences
from .table_rows import is_row
from .word_forms import Terms, terms_of

OMITTED = "\n…\n"
_TITLE = 0.5
_FIRST = 1.0
_RANK = 1.0
_ITEM = re.compile(r"\s*(?:[-*+•▪◦]|(?:\d{1,3}|[A-Za-z])[.)])\s")
_ENDED = re.compile(r"[.!?。！？][\"'”’»)\]]*\s*\Z")
_LONGEST_HEADING = 80
"""Characters of a line that is no sentence and says what stands below it."""
_FIRST_WORD = re.compile(r"\W*(\w+)")
_PRONOUNS = frozenset(
    ("he", "her", "hers", "his", "it", "its", "she", "that", "their", "theirs", "these", "they", "this", "those")
)
_count = Size(unit="tokens").count


def leans_on_what_is_before(text: str) -> bool:
    """Whether a text begins with a pronoun."""
    first = _FIRST_WORD.match(text)
    return first is not None and first[1].lower() in _PRONOUNS


class _Piece(NamedTuple):
    start: int
    end: int
    tokens: int
    words: Terms
    above: int | None
    """The heading or the line with a colon that it stands under."""
    pronoun: bool
    """Whether it begins with one, and so is about what the piece before it is about."""


def excerpts(hits: Sequence[Hit], query: str, tokens: int) -> list[Hit]:
    """What the query needs of the results of a search, in about `tokens` together; at least one piece."""
    found = [list(_pieces(hit.document.text)) for hit in hits]
    left = tokens
    if sum(piece.tokens for pieces in found for piece in pieces) <= left:
        return list(hits)
    worth = _worth(hits, found, stems(query))
    kept: list[set[int]] = [set() for _ in hits]
    for n, at in sorted(worth, key=lambda key: (-worth[key], key)):
        needed = _needed(found[n], at, kept[n], left) or (set() if any(kept) else {at})
        kept[n] |= needed
        left -= sum(found[n][i].tokens for i in needed)
    return [_cut(hit, pieces, own) for hit, pieces, own in zip(hits, found, kept, strict=True) if own]


def _pieces(text: str) -> Iterator[_Piece]:
    begin = count = 0
    heading: int | None = None
    lead: int | None = None
    """The line with a colon above a list."""
    for line in text.split("\n"):
        spans = sentences(line)
        listed = bool(_ITEM.match(line)) or is_row(line)
        if spans and listed:
            spans = [(0, spans[-1][1])]
        leads = not listed and line.rstrip().endswith(":")
        bare = not listed and len(spans) == 1 and len(line) <= _LONGEST_HEADING and not _ENDED.search(line)
        if spans and (leads or not (listed or bare)):
            lead = None
        above = heading if lead is None and not bare else lead
        for start, end in spans:
            said = line[start:end]
            pronoun = count > 0 and leans_on_what_is_before(said)
            yield _Piece(begin + start, begin + end, _count(said), terms_of(said), above, pronoun)
            count += 1
        if leads:
            lead = count - 1
        elif bare and lead is None:
            heading = count - 1
        begin += len(line) + 1


def _worth(hits: Sequence[Hit], found: Sequence[Sequence[_Piece]], wanted: Terms) -> dict[tuple[int, int], float]:
    """What each piece is worth, by the number of its result and its own."""
    having = Counter(word for pieces in found for piece in pieces for word in piece.words & wanted)
    total = sum(map(len, found))
    weights = {word: math.log(1 + total / count) for word, count in having.items()}

    def weight(words: Terms) -> float:
        return sum(weights.get(word, 0.0) for word in words)

    worth: dict[tuple[int, int], float] = {}
    for n, (hit, pieces) in enumerate(zip(hits, found, strict=True)):
        title = terms_of(hit.document.title) & wanted
        for at, piece in enumerate(pieces):
            said = weight(piece.words & wanted) + _TITLE * weight(title - piece.words)
            worth[n, at] = said + _FIRST * (at == 0) - _RANK * n
    return worth


def _needed(pieces: Sequence[_Piece], at: int, kept: set[int], most: int) -> set[int]:
    """A piece with those that it cannot be read without, less those that are kept; nothing if they are too long."""
    needed: set[int] = set()
    while at not in kept:
        needed.add(at)
        most -= pieces[at].tokens
        if (above := pieces[at].above) is not None and above not in kept | needed:
            needed.add(above)
            most -= pieces[above].tokens
        if most < 0:
            return set()
        if not pieces[at].pronoun:
            break
        at -= 1
    return needed


def _cut(hit: Hit, pieces: Sequence[_Piece], kept: set[int]) -> Hit:
    document = hit.document
    if len(kept) == len(pieces):
        return hit
    parts: list[tuple[int, int]] = []
    for at in sorted(kept):
        if parts and at - 1 in kept:
            parts[-1] = (parts[-1][0], pieces[at].end)
        else:
            parts.append((pieces[at].start, pieces[at].end))
    meta, text = keep_parts(document.meta, document.text, parts, OMITTED)
    return Hit(replace(document, text=text, meta=meta), hit.score)
