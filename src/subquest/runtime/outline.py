"""The outline of a report: sections, each with a question that an executor can answer.

A model writes one section per line, `Title: question`. Small models write lists, JSON, or a report instead, so the
parser takes what it can use. A report without a usable outline has one section, which is the question itself.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from .normalization import folded_words

MAX_SECTIONS = 6
_LONGEST_TITLE = 100
_LONGEST_TASK = 400
_START = re.compile(r"^\s*(?:[-*•+]|#{1,6}|\(?\d{1,2}[.):]|[ivx]{1,4}\.|section\s+\d{1,2}\s*[.:-])\s*", re.IGNORECASE)
_MARKUP = re.compile(r"</?[a-zA-Z_]+>|\*\*|__|`+|[\"“”]")
_SPLIT = re.compile(r"\s*(?::|\||\s[-–—]\s)\s*")


class Planned(NamedTuple):
    """A section to be written."""

    title: str
    task: str
    """A question that can be answered by itself."""


def read_outline(text: str, question: str) -> list[Planned]:
    """The sections that a model planned; one without a title if there are none. Those that share a title have their
    question as one."""
    found: dict[str, Planned] = {}
    for line in text.splitlines():
        section = _section(line)
        if section is not None:
            found.setdefault(" ".join(folded_words(section.task)), section)
    titles = Counter(" ".join(folded_words(section.title)) for section in found.values())
    sections = [
        section
        if titles[" ".join(folded_words(section.title))] == 1
        else Planned(_as_title(section.task), section.task)
        for section in list(found.values())[:MAX_SECTIONS]
    ]
    return sections or [Planned("", question)]


def _section(line: str) -> Planned | None:
    """A line with a title and a question; a question alone is its own title."""
    bare = _START.sub("", _MARKUP.sub("", line)).strip(" ,;{}[]")
    title, *rest = _SPLIT.split(bare, maxsplit=1)
    task = rest[0].strip() if rest else bare
    if not task.endswith("?") or len(task) > _LONGEST_TASK or len(folded_words(task)) < 3:
        return None
    if not rest or not folded_words(title) or len(title) > _LONGEST_TITLE:
        title = task
    return Planned(_as_title(title), task)


def _as_title(text: str) -> str:
    return (text[:1].upper() + text[1:]).rstrip("?")
