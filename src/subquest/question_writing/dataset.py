"""Written questions as data: train and dev with their questions and the passages to search.

questions.jsonl     questions with answers, plans and the passages that support each step
corpus.jsonl        all passages of the collection; of a large one those that the questions need and the searches found
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from ..codec import to_dict
from ..data.gold_plans import items_of
from ..metrics import normalize
from ..output_file import complete_file
from ..record import Document, Question
from ..retrieval.index import Index
from .rewording import ADDED_TYPES
from .writing import Written

WHOLE = 100_000
"""Passages up to which a collection is written as a whole."""
REPEATED = "asked before"
GONE = "a passage is no longer in the collection, or says something else"
SHARED = "dev has one of its passages"


class Dataset(NamedTuple):
    questions: dict[str, list[Question]]
    """By split."""
    left_out: Counter[str]
    """Questions that are left out, by reason."""
    passages: dict[str, int]
    """How many were written, by split."""


def write_dataset(written: Sequence[Written], index: Index, out: Path, count: int, dev: float) -> Dataset:
    """Writes the first `count` questions, and those of them that were put otherwise besides. Those about a share of the
    passages go to dev; train needs none of these."""
    left_out: Counter[str] = Counter()
    splits: dict[str, list[Question]] = {"dev": [], "train": []}
    seen: set[str] = set()
    first = 0
    every = round(1 / dev) if dev else 0
    for number, one in enumerate(written):
        for question in one.questions:
            own = question.type not in ADDED_TYPES
            if first >= count and own:
                break
            if (key := normalize(question.question)) in seen:
                left_out[REPEATED] += 1
            elif not _stands(question, index):
                left_out[GONE] += 1
            else:
                seen.add(key)
                first += own
                splits["dev" if every and number % every == every - 1 else "train"].append(question)
    held = {id for question in splits["dev"] for id in question.supporting_ids}
    apart = [q for q in splits["train"] if held.isdisjoint(q.supporting_ids)]
    left_out[SHARED] += len(splits["train"]) - len(apart)
    splits["train"] = apart
    passages = {}
    for split, questions in splits.items():
        if not questions:
            continue
        (out / split).mkdir(parents=True, exist_ok=True)
        # what a search found is no part of the question: an evaluation searches for itself
        plain = [replace(q, split=split, context_ids=()) for q in questions]
        _write_lines(out / split / "questions.jsonl", plain)
        passages[split] = _write_lines(out / split / "corpus.jsonl", _corpus(index, questions))
    return Dataset(splits, +left_out, passages)


def _stands(question: Question, index: Index) -> bool:
    """Whether the collection still has the passages of a question, with the answers of its steps."""
    for n, (id, step) in enumerate(zip(question.supporting_ids, question.decomposition, strict=True), 1):
        passage = index.get(id)
        if passage is None or any(part not in passage.text for part in items_of(question, n) or [step.answer]):
            return False
    return True


def _corpus(index: Index, questions: Sequence[Question]) -> Iterable[Document]:
    if len(index) <= WHOLE:
        return index.documents()
    ids = dict.fromkeys(id for q in questions for id in (*q.supporting_ids, *q.context_ids))
    return (document for id in ids if (document := index.get(id)))


def _write_lines(path: Path, records: Iterable[object]) -> int:
    count = 0
    with complete_file(path) as scratch, scratch.open("wb") as file:
        for record in records:
            file.write(msgspec.json.encode(to_dict(record)) + b"\n")
            count += 1
    return count
