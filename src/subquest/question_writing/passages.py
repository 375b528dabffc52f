"""Which passages are asked about: long enough to say something, in an order that takes one of each file in turn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from ..errors import DataError
from ..record import Document
from ..worlds.random_stream import RandomStream

LEAST_WORDS = 30
"""Words of the shortest passage that is asked about."""


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
            f"none of the {count} passages has {LEAST_WORDS} words" if count else "the collection has no passages"
        )
    stream = RandomStream(seed, "passages")
    return list(_in_turn([stream.shuffled(ids) for ids in stream.shuffled(list(files.values()))]))


def _in_turn(files: list[list[str]]) -> Iterator[str]:
    while files:
        for ids in files:
            yield ids.pop()
        files = [ids for ids in files if ids]
