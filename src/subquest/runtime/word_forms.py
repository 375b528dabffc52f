"""Words by their stems, with what Porter's rules leave apart: `won` is `win`, `birth` is `born`, a director directs."""

from __future__ import annotations

import functools

from ..retrieval.analysis import Analysis

Terms = frozenset[bytes]

_FAMILIES = """
begin began begun; born birth; bring brought; build built; buy bought; choose chose chosen choice; come came;
die death dead; draw drew drawn; drive drove driven; fight fought; fly flew flown flight; give gave given;
grow grew grown growth; hold held; keep kept; know knew known; lead led; lose lost loss; make made; marry marriage;
meet met; pay paid; ride rode ridden; run ran; sell sold sale; send sent; shoot shot; sing sang sung song; speak spoke
spoken speech; spend spent; stand stood; steal stole stolen; swim swam swum; take took taken; teach taught; tell told;
think thought; win won winner; write wrote written writer
"""
"""Forms that stemming does not bring together. Those that are also other words (found, left, rose) are left out."""
_AGENT = 6
"""Letters of a word in -er or -or, at least, that may say who does something."""
_stems = Analysis().terms


_FIRST = {
    stem: _stems(family.split()[0])[0]
    for family in _FAMILIES.replace("\n", " ").split(";")
    for word in family.split()[1:]
    for stem in _stems(word)
}


def term_list(text: str) -> list[bytes]:
    """The stems of a text's words, in order."""
    return [_FIRST.get(stem, _deed(stem)) for stem in _stems(text)]


@functools.lru_cache(maxsize=16384)
def terms_of(text: str) -> Terms:
    return frozenset(term_list(text))


def _deed(stem: bytes) -> bytes:
    """What somebody does: `direct` for a director. Words that only end alike lose their ending everywhere."""
    return stem[:-2] if len(stem) >= _AGENT and stem.endswith((b"er", b"or")) else stem
