"""Sentences that a model wrote, checked against the quotes they cite.

A sentence is *supported* by quotes if, taken together with the titles of their documents, they contain all of its names
and numbers and most of its words, half of those that are no names and no numbers, both negate or neither does (as in
`statements`), and no number is said about something else (`relevance`). A sentence is given the quotes it cites if they
support it, or else the one quote that does. One that no quote supports is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..record import Evidence
from .excerpts import leans_on_what_is_before
from .normalization import compared_words
from .relevance import misplaces_numbers, stems
from .statements import Left, claim_of, declines, restated, sentences, title_of
from .statements import Sentence as Spoken

FEWEST = 4
"""Words of a sentence; a name or a date by itself states nothing."""
LONGEST = 600
"""Characters of a sentence; a longer one is a list or a text without full stops."""
_CITED = re.compile(r"\s*\[(\d{1,3}(?:\s*[,;]\s*\d{1,3})*)\]")
_MARKUP = re.compile(r"</?[a-zA-Z_]+>|\*\*|__|`+")
LINE_START = re.compile(r"^\s*(?:[-*•+]\s+|\d{1,2}[.)]\s+|answer\s*:\s*)", re.IGNORECASE)


class Checked(NamedTuple):
    """A sentence and the positions of the quotes that support it."""

    text: str
    quotes: tuple[int, ...]


class Check(NamedTuple):
    sentences: tuple[Checked, ...]
    dropped: int
    """Sentences that no quote supports."""


def check_text(text: str, quotes: Sequence[Evidence], *, most: int) -> Check:
    """The supported sentences of a text, at most `most`; a citation `[1]` means the first quote."""
    kept: dict[str, Checked] = {}
    dropped = 0
    for written, cites in _sentences(text):
        sentence = _without_title(written, quotes)
        found = supporting(sentence, quotes, [number - 1 for number in cites])
        if not found:
            dropped += 1
        elif len(kept) < most:
            kept.setdefault(" ".join(compared_words(sentence)), Checked(sentence, found))
    return Check(tuple(kept.values()), dropped)


def _without_title(sentence: str, quotes: Sequence[Evidence]) -> str:
    """A sentence without the title that stands before a quote where quotes are listed, and that models copy; it stays
    where a pronoun follows."""
    titles = (f"{' '.join(quote.title.split())}:" for quote in quotes)
    rest = next((sentence[len(title) :].strip() for title in titles if sentence.startswith(f"{title} ")), "")
    return rest if rest and not leans_on_what_is_before(rest) else sentence


def supporting(sentence: str, quotes: Sequence[Evidence], cites: Sequence[int]) -> tuple[int, ...]:
    """The positions of quotes that support a sentence: those it cites, or one that does by itself."""
    known = tuple(dict.fromkeys(at for at in cites if 0 <= at < len(quotes)))
    if known and is_supported(sentence, [quotes[at] for at in known]):
        alone = next((at for at in known if is_supported(sentence, [quotes[at]])), None)
        return known if alone is None else (alone,)
    return next(((at,) for at, quote in enumerate(quotes) if is_supported(sentence, [quote])), ())


def is_supported(sentence: str, quotes: Iterable[Evidence]) -> bool:
    """Whether quotes, with the titles of their documents, state a sentence."""
    claim = claim_of(sentence)
    if len(claim.line.split()) < FEWEST or declines(sentence) or sentence.rstrip().endswith("?"):
        return False
    given = list(quotes)
    titles = frozenset[str]().union(*(title_of(quote.title).words for quote in given))
    said = frozenset(word for quote in given for word in compared_words(quote.quote))
    left = Left(claim.needed - titles, claim.words - titles)
    if not (claim.words & said):  # a title alone states nothing
        return False
    if not restated(claim, left, Spoken(0, 0, "", said)):
        return False
    plain = stems(" ".join(claim.words - claim.needed)) - stems(" ".join(titles))
    known = stems(" ".join(said))
    return 2 * len(plain & known) >= len(plain) and not any(
        misplaces_numbers(sentence, q.title, q.quote) for q in given
    )


def _sentences(text: str) -> Iterable[tuple[str, list[int]]]:
    """The sentences of a text without their markup, and the citations in or right after each."""
    for line in text.splitlines():
        bare = _MARKUP.sub("", LINE_START.sub("", line)).strip()
        if not bare or line.lstrip().startswith("#"):
            continue
        moved = re.sub(rf"([.!?])((?:{_CITED.pattern})+)\1?", r"\2\1", bare)  # "… in Kestel. [1]" as "… in Kestel [1]."
        for start, end in sentences(moved):
            spoken = moved[start:end]
            cites = [int(n) for found in _CITED.findall(spoken) for n in re.findall(r"\d+", found)]
            words = _CITED.sub("", spoken).strip()
            if compared_words(words) and len(words) <= LONGEST:
                yield words, cites
