"""Names as they were read: a small model drops or doubles a letter of a name that it copies, and finds nothing then."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

ALIKE = 0.85
"""Least likeness of two spellings of one name (difflib's ratio): one letter in six, about."""
SHORTEST = 4
"""Letters of the shortest name that is looked at."""

_NAME = re.compile(rf"\b[^\W\d_a-z]\w{{{SHORTEST - 1},}}")


def as_written(text: str, sources: Sequence[str]) -> str:
    """The text with every name that no source has spelt like the one name in them that is nearly the same.

    Both must begin with the same letter and end on the same two, so that `American` is not made `America`.
    """
    if all(any(name in source for source in sources) for name in _NAME.findall(text)):
        return text
    names = {name for source in sources for name in _NAME.findall(source)}

    def spelt(found: re.Match[str]) -> str:
        name = found[0]
        if name in names:
            return name
        near = [n for n in names if n[0] == name[0] and n[-2:] == name[-2:]]
        best = difflib.get_close_matches(name, near, n=2, cutoff=ALIKE)
        return best[0] if len(best) == 1 else name

    return _NAME.sub(spelt, text)
