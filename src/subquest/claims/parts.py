"""What is asked: the parts of a source, made once and found again."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..process import end_with_parent
from ..record import Question
from .book import Source
from .measure import digest
from .results import questions_digest

if TYPE_CHECKING:
    from ..train.recipe import DataPart


class Part(NamedTuple):
    """A world, or a real set with its passages."""

    name: str
    source: Source
    data: DataPart


class Prepared(NamedTuple):
    questions: list[Question]
    place: Path
    """Where the index lies."""
    digest: str


def parts_of(source: Source, data: Path) -> list[Part]:
    """A source's parts; files are looked for in `data`."""
    from ..train.recipe import DataPart, expanded

    questions = source.questions
    if not questions.startswith("world:"):
        questions = str(data / questions)
    found = expanded((DataPart(questions, tuple(str(data / name) for name in source.corpus)),))
    if len(found) == 1:
        return [Part(source.name, source, found[0])]
    return [Part(f"{source.name}-{n}", source, part) for n, part in enumerate(found, 1)]


def prepare(part: Part, cache: Path) -> Prepared:
    """A part's questions and an index of its passages, made once and found again in `cache`."""
    from ..evaluate.fingerprint import of_index
    from ..train.data import load_material, open_search

    place = cache / f"{digest(repr(part.data), repr(part.source.pictures), _generator())}.pickle"
    if place.is_file():
        return Prepared(*pickle.loads(place.read_bytes()))
    material = load_material((part.data,))
    index = open_search(material.documents, cache)
    index.close()
    questions = [q for q in material.questions if q.answers]
    if part.source.pictures:
        from .pictures import with_pictures

        questions = with_pictures(questions, part.source.pictures, cache / "pictures")
    made = Prepared(questions, Path(index.path), questions_digest(questions, of_index(index.path)))
    building = place.with_suffix(f".{os.getpid()}.tmp")
    building.write_bytes(pickle.dumps(tuple(made)))
    building.replace(place)
    return made


@functools.cache
def _generator() -> str:
    """The code that makes worlds: another one makes other worlds of the same name."""
    from .. import worlds

    files = sorted(Path(worlds.__file__).parent.rglob("*.py"))
    return digest(*(file.read_text(encoding="utf-8") for file in files))


def prepared(parts: Sequence[Part], cache: Path, workers: int, say: Callable[[str], None]) -> dict[str, Prepared]:
    """All parts that are at hand by name, made ready by several processes."""
    at_hand = [p for p in parts if p.data.questions.startswith("world:") or Path(p.data.questions).is_file()]
    for part in parts:
        if part not in at_hand:
            say(f"left out: {part.source.name}: there is no {part.data.questions} (see --data)")
    cache.mkdir(parents=True, exist_ok=True)
    if workers == 1:
        return {p.name: prepare(p, cache) for p in at_hand}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(os.cpu_count() or 1, max(len(at_hand), 1)), context, end_with_parent) as pool:
        made = pool.map(partial(prepare, cache=cache), at_hand)
        return dict(zip((p.name for p in at_hand), made, strict=True))
