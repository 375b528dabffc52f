"""What variants with adapters are asked: the parts of a source, each with its questions and an index, made once."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..process import end_with_parent
from ..record import Question
from ..train.recipe import DataPart, expanded
from .design import Source
from .pictures import with_pictures
from .results import questions_digest
from .stamps import digest


class Part(NamedTuple):
    """A world, or a real set with its passages."""

    name: str
    source: Source
    data: DataPart


class Prepared(NamedTuple):
    questions: list[Question]
    place: Path
    """Where the index is."""
    digest: str


def parts_of(source: Source, data: Path) -> list[Part]:
    """A source's parts: one per world, or the source itself; files are looked for in `data`."""
    dataset = source.dataset if source.dataset.startswith("world:") else str(data / source.dataset)
    found = expanded((DataPart(dataset, tuple(str(data / name) for name in source.corpus), limit=source.limit),))
    if len(found) == 1:
        return [Part(source.name, source, found[0])]
    return [Part(f"{source.name}-{n}", source, part) for n, part in enumerate(found, 1)]


def prepare(part: Part, cache: Path) -> Prepared:
    """A part's questions and an index of its passages, made once and kept in `cache`."""
    from ..evaluate.fingerprint import of_index
    from ..train.data import load_material, open_search

    cache = cache.resolve()  # places in it are kept: a cache that was moved is prepared again
    key = digest(repr(part.data), repr(part.source.pictures), _generator(), str(cache))
    place = cache / f"{key}.pickle"
    if place.is_file():
        return Prepared(*pickle.loads(place.read_bytes()))
    material = load_material((part.data,))
    index = open_search(material.documents, cache, material.papers)
    index.close()
    questions = [q for q in material.questions if q.answers]
    if part.source.pictures:
        questions = with_pictures(questions, part.source.pictures, cache / "pictures")
    made = Prepared(questions, Path(index.path), questions_digest(questions, of_index(index.path)))
    building = place.with_suffix(f".{os.getpid()}.tmp")
    building.write_bytes(pickle.dumps(tuple(made)))
    building.replace(place)
    return made


@functools.cache
def _generator() -> str:
    """The code that generates worlds: another version generates other worlds under the same name."""
    from .. import worlds

    files = sorted(f for f in Path(worlds.__file__).parent.rglob("*") if f.is_file() and f.suffix != ".pyc")
    return digest(*(file.read_bytes().hex() for file in files))


def prepare_all(
    parts: Sequence[Part], cache: Path, report: Callable[[str], None], processes: int = 1
) -> dict[str, Prepared]:
    """By name, all parts whose files exist."""
    available = [p for p in parts if p.data.questions.startswith("world:") or Path(p.data.questions).is_file()]
    for part in parts:
        if part not in available:
            report(f"skipped: {part.source.name}: there is no {part.data.questions} (see --data)")
    cache.mkdir(parents=True, exist_ok=True)
    if processes == 1:
        return {p.name: prepare(p, cache) for p in available}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, max(len(available), 1)), context, end_with_parent) as pool:
        made = pool.map(partial(prepare, cache=cache), available)
        return dict(zip((p.name for p in available), made, strict=True))
