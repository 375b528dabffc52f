"""What a run trains on: questions from its sources, and one search over all their passages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ..data import questions_from
from ..errors import ConfigError, DataError
from ..record import Document, Question
from ..retrieval.corpus import read
from ..retrieval.index import Index
from .recipe import DataPart

WORLD = "world:"


class Material(NamedTuple):
    questions: list[Question]
    documents: list[Document]


def load_material(parts: Sequence[DataPart], *, passages_elsewhere: bool = False) -> Material:
    """Questions and passages of all sources. A source's weight repeats or thins its questions.

    Where an index is given for all of them, sources other than worlds need no passages of their own.
    """
    questions: list[Question] = []
    documents: dict[str, Document] = {}
    for part in parts:
        found, passages = _load(part, passages_elsewhere)
        if part.limit:
            found = found[: part.limit]
        questions += _weighted(found, part.weight)
        for document in passages:
            if documents.setdefault(document.id, document) != document:
                raise DataError(f"two passages share the id {document.id!r}; the sources cannot be searched together")
    return Material(questions, list(documents.values()))


def _load(part: DataPart, passages_elsewhere: bool) -> tuple[list[Question], list[Document]]:
    if part.questions.startswith(WORLD):
        return _world(part.questions.removeprefix(WORLD))
    questions = [_natural(q) for q in questions_from(part.questions)]
    corpora = part.corpus
    folder = Path(part.questions)
    if folder.is_dir() and not corpora:
        corpora = (str(folder / "corpus.jsonl"),)
    if not corpora and not passages_elsewhere:
        raise ConfigError(f"the source {part.questions!r} needs a corpus to search, or the recipe an index")
    return questions, list(read(corpora))


def _natural(question: Question) -> Question:
    """With a plan in natural sub-questions (2Wiki has triples); without one where the rules cannot rewrite it."""
    from ..worlds.rewrite import Refused, rewrite_plan

    try:
        return rewrite_plan(question) if question.decomposition else question
    except Refused:
        return replace(question, decomposition=())


def _world(spec: str) -> tuple[list[Question], list[Document]]:
    from ..worlds import make_world

    options: dict[str, Any] = {}
    for pair in filter(None, spec.split(",")):
        key, equals, value = pair.partition("=")
        if not equals:
            raise ConfigError(f"world:{spec}: write it as in world:seed=1,articles=500,questions=1000,split=train")
        # several values are joined by +, as in hops=2+3
        several = value.split("+")
        if key in ("hops", "types"):
            options[key] = tuple(map(int, several)) if key == "hops" else tuple(several)
        else:
            options[key] = int(value) if value.isdigit() else value
    world = make_world(**options)
    name = f"world-{options.get('seed', 0)}"
    # ids of different worlds must not meet in one index
    documents = [replace(d, id=f"{name}/{d.id}") for d in world.documents]
    return [replace(q, dataset=name) for q in world.questions], documents


def _weighted(questions: Sequence[Question], weight: float) -> list[Question]:
    if weight <= 0:
        raise ConfigError(f"a source's weight must be positive, not {weight}")
    whole, share = divmod(weight, 1.0)
    return [*(list(questions) * int(whole)), *questions[: round(len(questions) * share)]]


def open_search(documents: Iterable[Document], folder: Path) -> Index:
    """An index of the passages, built once and found again by their content."""
    passages = list(documents)
    digest = hashlib.sha256()
    for document in passages:
        digest.update(json.dumps([document.id, document.title, document.text]).encode())
    path = folder / f"{digest.hexdigest()[:16]}.sq"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        Index.build(path, passages).close()
    return Index.open(path)
