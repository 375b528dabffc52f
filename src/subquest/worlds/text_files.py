"""The word and sentence banks of a world: plain text files in `text/`, made to be read and edited by hand.

A file has sections under `[headings]`. Lines that begin with `#` are comments, and an indented line continues the one
before it. A line is one of two things:

    name: a | b | c          a list of words or phrases under a name
    first | a ; b | c        a row of cells; semicolons separate alternatives

The same files give the same world byte for byte: any change to them changes the worlds of every seed.
"""

from __future__ import annotations

import functools
from pathlib import Path

FOLDER = Path(__file__).parent / "text"


@functools.cache
def read_sections(name: str) -> list[tuple[str, list[str]]]:
    """The headings of a file, each with its lines, in order."""
    sections: list[tuple[str, list[str]]] = []
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if not text or line.startswith("#"):
            continue
        if line.startswith("[") and line.endswith("]"):
            sections.append((line[1:-1], []))
        elif line[0] == " ":
            sections[-1][1][-1] += f" {text}"
        else:
            sections[-1][1].append(text)
    return sections


def read_lists(name: str, section: str, separator: str | None = " | ") -> dict[str, tuple[str, ...]]:
    """The lists of a section by name; with None as separator their items are single words."""
    named = (line.partition(":") for line in dict(read_sections(name))[section])
    return {key: tuple(items.strip().split(separator)) for key, _, items in named}


def read_rows(name: str, section: str) -> list[list[str]]:
    """The rows of a section, each as its cells."""
    return [[cell.strip() for cell in line.split("|")] for line in dict(read_sections(name))[section]]


def alternatives(cell: str) -> tuple[str, ...]:
    """What a cell offers to choose from."""
    return tuple(part.strip() for part in cell.split(";"))
