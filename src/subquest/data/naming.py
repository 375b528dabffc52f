"""Names of question sets in a table, so that each set that was asked for has a row of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path


def named(sources: Sequence[str]) -> dict[str, str]:
    """Each source once, by its name: that of the registry, or the file's or folder's without its endings.

    Where two have the same name both get a longer one: with the split (`hotpotqa:dev`), or with the folders above.
    """
    distinct = {_place(source): source for source in reversed(sources)}
    names = {source: _names(source) for source in sorted(distinct.values(), key=list(sources).index)}
    chosen = {source: next(longer) for source, longer in names.items()}
    while alike := {name for name, count in Counter(chosen.values()).items() if count > 1}:
        chosen = {source: next(names[source], source) if name in alike else name for source, name in chosen.items()}
    return {name: source for source, name in chosen.items()}


def _place(source: str) -> str:
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _names(source: str) -> Iterator[str]:
    """Names from the shortest to one that nothing else has."""
    path = Path(source).expanduser()
    if not path.exists():
        yield source.partition(":")[0]
        yield source
        return
    *folders, last = path.resolve().parts
    stem = last.split(".")[0] or last
    for count in range(len(folders)):
        yield "/".join((*folders[len(folders) - count :], stem))
    yield str(path.resolve())
