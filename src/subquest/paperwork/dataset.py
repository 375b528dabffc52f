"""Written organisations as training data: their papers as files, read as an index reads them, and their questions.

    docs/NUMBER/…       the papers
    corpus.jsonl        their passages, cut by the readers
    questions.jsonl     questions with answers, plans and the passages that support each step

A question whose facts cannot all be found in passages is left out.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..codec import to_dict
from ..data.self_instruct import holds
from ..errors import DataError
from ..output_file import complete_file
from ..record import Document, Question, Step
from ..retrieval.index import Index
from ..retrieval.ingest import ingest
from .organisation import Fact
from .papers import Paper
from .questions import Asked, Key
from .writing import Written

NOT_READ = "a fact is in no passage"


class Dataset(NamedTuple):
    questions: list[Question]
    passages: list[Document]
    left_out: Counter[str]
    """Questions that are left out, by reason."""


def write_split(written: Sequence[Written], out: Path, split: str) -> Dataset:
    """Writes the papers, passages and questions of some organisations into a folder."""
    docs = out / "docs"
    for one in written:
        for paper in one.papers:
            path = docs / folder_of(one) / paper.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(paper.text, encoding="utf-8")
    passages = read_papers(docs)
    by_file: defaultdict[str, list[Document]] = defaultdict(list)
    for passage in passages:
        by_file[passage.id.rpartition("#")[0]].append(passage)
    left_out: Counter[str] = Counter()
    questions: list[Question] = []
    for one in written:
        for number, asked in enumerate(one.questions):
            found = question_of(one, asked, number, split, by_file)
            if found is None:
                left_out[NOT_READ] += 1
            else:
                questions.append(found)
    _write_lines(out / "corpus.jsonl", passages)
    _write_lines(out / "questions.jsonl", questions)
    return Dataset(questions, passages, left_out)


def folder_of(one: Written) -> str:
    return f"{one.organisation.number:05}"


def read_papers(docs: Path) -> list[Document]:
    """The passages of a folder of papers, as an index holds them."""
    with tempfile.TemporaryDirectory() as scratch, Index.build(Path(scratch) / "papers.sq", []) as index:
        report = ingest(index, [docs])
        if report.problems:
            raise DataError(f"a paper cannot be read: {report.problems[0]}")
        return sorted(index.documents(), key=lambda d: (d.id.rpartition("#")[0], int(d.id.rpartition("#")[2])))


def question_of(
    one: Written, asked: Asked, number: int, split: str, by_file: dict[str, list[Document]]
) -> Question | None:
    """The question as a record, with the passages that support it; None if one is missing."""
    where = {(f.subject, f.relation): (f, paper) for paper in one.papers for f in paper.facts}
    steps, ids = [], list[str]()
    for step, keys in zip(asked.steps, asked.needs, strict=True):
        support = _support(one, keys, where, by_file) if keys else []
        if support is None:
            return None
        ids += [d.id for d in support]
        steps.append(Step(step.question, step.answer, support[0].title if support else ""))
    titles = {d.id: d.title for documents in by_file.values() for d in documents if d.id in ids}
    meta: dict[str, object] = {"organisation": one.organisation.name, "operation": list(asked.operation)}
    meta |= {"items": dict(asked.items)} if asked.items else {}
    meta |= {"plain": asked.plain} if asked.plain else {}
    unique = tuple(dict.fromkeys(ids))
    return Question(
        f"{one.organisation.seed}-{folder_of(one)}-{number}",
        asked.text,
        asked.answers,
        "organisations",
        split,
        len(steps),
        asked.type,
        tuple(dict.fromkeys(titles[i] for i in unique)),
        unique,
        decomposition=tuple(steps),
        meta=meta,
    )


def _support(
    one: Written,
    keys: Sequence[Key],
    where: dict[Key, tuple[Fact, Paper]],
    by_file: dict[str, list[Document]],
) -> list[Document] | None:
    """One passage that states all facts of a step; None if there is none."""
    facts = [where[key] for key in keys]
    file = f"docs/{folder_of(one)}/{facts[0][1].file}"
    for passage in by_file.get(file, ()):
        if all(states(passage, fact, paper) for fact, paper in facts):
            return [passage]
    return None


def states(passage: Document, fact: Fact, paper: Paper) -> bool:
    """Whether a passage has a fact: its value and its subject, in a table in the same row."""
    if paper.topic:
        return holds(passage.text, fact.value)
    rows = passage.text.split("\n") if paper.kind in ("person", "equipment", "supplier") else [passage.text]
    name = fact.subject.split()[-1] if fact.kind == "person" else fact.subject
    return any(holds(row, fact.value) and holds(row, name) for row in rows)


def _write_lines(path: Path, records: Iterable[object]) -> None:
    with complete_file(path) as scratch, scratch.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(to_dict(record), ensure_ascii=False) + "\n" for record in records)
