"""Names as they were read: a small model drops or doubles a letter of a name that it copies, and finds nothing then."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

ALIKE = 0.8
"""Least likeness of two spellings of one word (difflib's ratio): one letter in five, about."""
ALIKE_IN_FULL = 0.88
"""The same for full names, which share a word anyway."""
SHORTEST = 4
"""Letters of the shortest name that is looked at."""

_CAPITALS = "".join(filter(str.isupper, map(chr, range(0x3000))))
_NAME = re.compile(rf"\b[{_CAPITALS}]\w{{{SHORTEST - 1},}}")
"""In scripts without capitals no word tells that it is a name, and two that are alike are two words."""
_BEGINNING = re.compile(rf"\w+ [^\W\d_{_CAPITALS}]")
"""How a sentence begins that does not begin with a name."""
_JOINT = re.compile(r"[ –-]")
_FULL_NAME = re.compile(rf"{_NAME.pattern}(?:{_JOINT.pattern}{_NAME.pattern})+")


def as_written(text: str, sources: Sequence[str]) -> str:
    """The text with every name that no source has spelt like the one name in them that is nearly the same.

    Single words must begin with the same letter and end on the same two, so that `American` is not made `America`; full
    names must share a word.
    """
    if all(any(name in source for source in sources) for name in _NAME.findall(text)):
        return text
    names = {name for source in sources for name in _NAME.findall(source)}
    skipped = _BEGINNING.match(text) is not None
    text = _NAME.sub(lambda found: found[0] if skipped and not found.start() else _word(found[0], names), text)
    full = {name for source in sources for name in _full_names(source)}
    return _FULL_NAME.sub(lambda found: _phrase(found[0], full), text)


def _word(name: str, names: set[str]) -> str:
    near = [n for n in names if n[0] == name[0] and n[-2:] == name[-2:]]
    return name if name in names else _only(name, near, ALIKE)


def _phrase(name: str, names: set[str]) -> str:
    words = _JOINT.split(name)
    near = [n for n in names if n[0] == name[0] and _shares(words, _JOINT.split(n))]
    return name if name in names else _only(name, near, ALIKE_IN_FULL)


def _shares(words: Sequence[str], others: Sequence[str]) -> bool:
    return len(words) == len(others) and any(a == b for a, b in zip(words, others, strict=True))


def _only(name: str, near: Sequence[str], alike: float) -> str:
    """The one that is alike; the name itself where there is none, or more than one."""
    best = difflib.get_close_matches(name, near, n=2, cutoff=alike)
    return best[0] if len(best) == 1 else name


def _full_names(source: str) -> Iterator[str]:
    """Names of two words and more, and every run of words in them."""
    for found in _FULL_NAME.finditer(source):
        words = [(m.start(), m.end()) for m in _NAME.finditer(found[0])]
        for first in range(len(words) - 1):
            for last in range(first + 1, len(words)):
                yield found[0][words[first][0] : words[last][1]]
