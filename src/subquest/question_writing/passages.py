"""Which passages are asked about, and which names in them: passages that are long enough to say something, one of each
file in turn."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ..errors import DataError
from ..record import Document
from ..retrieval.analysis import STOP_WORDS
from ..worlds.random_stream import RandomStream

LEAST_WORDS = 30
"""Words of the shortest passage that is asked about."""
IN_TITLE = 4
"""How much more often than others a name is asked about that stands in the title."""

_NAME = re.compile(r"[A-Z][\w'’-]*\w(?: (?:(?:of|the|and|&|for) ){0,2}[A-Z][\w'’-]*\w)*")
_CODE = re.compile(r"[A-Z][A-Z-]*\d+")
_FIRST = {word.decode() for word in STOP_WORDS["english"]} | {"after", "before", "dear", "during", "note", "since"}
"""Words that begin a sentence with a capital without being a name."""


def says_enough(passage: Document) -> bool:
    return len(passage.text.split()) >= LEAST_WORDS


def draw_passages(documents: Iterable[Document], seed: int) -> list[str]:
    """Ids of all passages that say enough, by the seed; a file is asked again only when all others have been."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    count = 0
    for document in documents:
        count += 1
        if says_enough(document):
            files[str(document.meta.get("file") or document.id)].append(document.id)
    if not files:
        raise DataError(
            f"no passage has {LEAST_WORDS} words (of {count})" if count else "the collection has no passages"
        )
    stream = RandomStream(seed, "passages")
    return list(_in_turn([stream.shuffled(ids) for ids in stream.shuffled(list(files.values()))]))


def _in_turn(files: list[list[str]]) -> Iterator[str]:
    while files:
        for ids in files:
            yield ids.pop()
        files = [ids for ids in files if ids]


def subject_of(passage: Document, stream: RandomStream) -> str:
    """A name in a passage to ask about: one of several words, a code, or the title; empty if there is none."""
    title = re.sub(r"\s*\([^)]*\)$", "", passage.title).strip()
    found: Counter[str] = Counter()
    for name in _NAME.findall(passage.text):
        words = name.split()
        while words and words[0].casefold() in _FIRST:
            del words[0]
        name = " ".join(words)
        if len(words) > 1 or _CODE.match(name) or name == title:
            found[name] += IN_TITLE if name in title else 1
    return stream.weighted(list(found.items())) if found else ""
