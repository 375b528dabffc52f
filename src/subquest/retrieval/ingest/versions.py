"""Which files are older versions of others, by their names: `report-v1.docx` beside `report-v2.docx`.

Both have the same name but for the version and stand in one folder, or the older one in a folder below or above it,
such as an archive. Dates in names are no versions: the minutes of May do not replace those of April.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import NamedTuple

_VERSION = re.compile(
    r"[\s._(-]*(?<![a-z])(?:v|ver|version|rev|revision)[\s._-]*(\d{1,4}(?:[._]\d{1,4}){0,3})(?![a-z\d])\)?",
    re.IGNORECASE,
)


class Versioned(NamedTuple):
    base: str
    """The name without the version and the suffix."""
    number: tuple[int, ...]


def version_in(name: str) -> Versioned | None:
    """The version that the name of a file gives; None without one."""
    stem = PurePosixPath(name).name
    stem = stem.rsplit(".", 1)[0] if re.search(r"\.[A-Za-z]{1,8}$", stem) else stem
    found = _VERSION.search(stem)
    if found is None:
        return None
    base = re.sub(r"[\W_]+", " ", stem[: found.start()] + " " + stem[found.end() :]).strip().casefold()
    return Versioned(base, tuple(int(part) for part in re.split(r"[._]", found[1])))


def newer_versions(names: Iterable[str]) -> dict[str, str]:
    """The newest version of each file that has a newer one."""
    groups: dict[str, list[tuple[tuple[int, ...], str]]] = {}
    for name in names:
        if (version := version_in(name)) is not None:
            groups.setdefault(version.base, []).append((version.number, name))
    newer: dict[str, str] = {}
    for group in groups.values():
        group.sort()
        for at, (number, name) in enumerate(group):
            after = [other for later, other in group[at + 1 :] if later > number and are_related(name, other)]
            if after:
                newer[name] = after[-1]
    return newer


def are_related(one: str, other: str) -> bool:
    """Whether one file stands in the folder of the other, or below it."""
    first, second = PurePosixPath(one).parent, PurePosixPath(other).parent
    return first.is_relative_to(second) or second.is_relative_to(first)
