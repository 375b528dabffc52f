"""Written organisations as training data: their papers as files, read as an index reads them, and their questions.

    docs/NUMBER/…       the papers, and a long register beside them
    corpus.jsonl        their passages, cut by the readers
    questions.jsonl     questions with answers, plans and the passages that support each step

Questions about registers and those that must be computed are added here, in plain words. A question whose facts cannot
all be found in passages is left out, and one whose query does not give its answer.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..codec import to_dict
from ..data.self_instruct import holds
from ..errors import DataError
from ..output_file import complete_file
from ..readers.columns import same_value
from ..record import Document, Question, Step
from ..retrieval.index import Index
from ..retrieval.ingest import ingest
from ..retrieval.tables import Result
from ..worlds.random_stream import RandomStream
from .computed_questions import COUNTS as COMPUTED
from .computed_questions import ComputingDrafter
from .organisation import Fact
from .papers import Paper
from .questions import Asked, Drafter, Facts, Key
from .registers import Register, asset_register, draw_register
from .table_questions import COUNTS as OF_REGISTERS
from .table_questions import TableDrafter, list_query
from .writing import Written

NOT_READ = "a fact is in no passage"
NOT_GIVEN = "a query does not give its answer"
OF_ASSETS = {"total": 1, "highest": 1, "count": 1, "latest": 1}
"""Questions that are added about an asset register."""


class Dataset(NamedTuple):
    questions: list[Question]
    passages: list[Document]
    left_out: Counter[str]
    """Questions that are left out, by reason."""
    added: Counter[str]
    """Questions that were added, by type."""


class Passages(NamedTuple):
    """The papers as an index holds them."""

    by_file: Mapping[str, Sequence[Document]]
    tables: Mapping[str, str]
    """Names of tables, by file."""
    query: Callable[[str], Result]


def write_split(written: Sequence[Written], out: Path, split: str) -> Dataset:
    """Writes the papers, passages and questions of some organisations into a folder."""
    docs = out / "docs"
    registers = {one.organisation.number: draw_register(one.organisation) for one in written}
    for one in written:
        for paper in (*one.papers, registers[one.organisation.number][1]):
            path = docs / folder_of(one) / paper.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(paper.text, encoding="utf-8")
    left_out: Counter[str] = Counter()
    added: Counter[str] = Counter()
    questions: list[Question] = []
    with read_papers(docs) as read:
        for one in written:
            more = further_questions(one, registers[one.organisation.number][0])
            added.update(asked.type for asked in more)
            for number, asked in enumerate((*one.questions, *more)):
                found = question_of(one, asked, number, split, read)
                if isinstance(found, str):
                    left_out[found] += 1
                else:
                    questions.append(found)
        passages = [passage for some in read.by_file.values() for passage in some]
    _write_lines(out / "corpus.jsonl", passages)
    _write_lines(out / "questions.jsonl", questions)
    return Dataset(questions, passages, left_out, added)


def folder_of(one: Written) -> str:
    return f"{one.organisation.number:05}"


def further_questions(one: Written, register: Register) -> list[Asked]:
    """Questions about the registers of an organisation, and such as must be computed."""
    key = (one.organisation.seed, one.organisation.number)
    facts = Facts(one.organisation, [fact for paper in one.papers for fact in paper.facts])
    made = list(ComputingDrafter(facts, RandomStream(*key, "computing")).questions(COMPUTED))
    for counts, some in ((OF_REGISTERS, register), (OF_ASSETS, asset_register(one.organisation, one.papers))):
        if some is not None:
            stream = RandomStream(*key, some.kind.title)
            made += TableDrafter(some, Drafter(facts, stream), stream).questions(counts)
    return made


@contextlib.contextmanager
def read_papers(docs: Path) -> Iterator[Passages]:
    """The passages of a folder of papers and their tables, as an index holds them."""
    with tempfile.TemporaryDirectory() as scratch, Index.build(Path(scratch) / "papers.sq", []) as index:
        report = ingest(index, [docs])
        if report.problems:
            raise DataError(f"a paper cannot be read: {report.problems[0]}")
        by_file: defaultdict[str, list[Document]] = defaultdict(list)
        for d in sorted(index.documents(), key=lambda d: (d.id.rpartition("#")[0], int(d.id.rpartition("#")[2]))):
            by_file[d.id.rpartition("#")[0]].append(d)
        tables = index.tables.unchanging()
        yield Passages(by_file, {str(table.place["file"]): table.name for table in tables.all()}, tables.query)


def question_of(one: Written, asked: Asked, number: int, split: str, read: Passages) -> Question | str:
    """The question as a record, with the passages that support it; or why it is left out."""
    where = {(f.subject, f.relation): (f, paper) for paper in one.papers for f in paper.facts}
    own = list_query(asked, one.papers)
    queries = {"1": own} if own else asked.queries
    steps, supports, sql = [], dict[str, str](), dict[str, list[str]]()
    for n, (step, keys) in enumerate(zip(asked.steps, asked.needs, strict=True), 1):
        query, support = queries.get(str(n)), list[Document]()
        if query is not None:
            file = f"docs/{folder_of(one)}/{query.file}"
            items = asked.items.get(str(n), ()) if asked.type != "count" else ()
            if not _gives(read, file, query.sql, items or (step.answer,)):
                return NOT_GIVEN
            sql[str(n)] = [file, query.sql]
            support = [d for d in read.by_file[file] if any(holds(d.text, row) for row in query.rows)]
        elif str(n) in asked.rows:
            name, row = asked.rows[str(n)]
            support = [d for d in read.by_file[f"docs/{folder_of(one)}/{name}"] if holds(d.text, row)]
        elif keys:
            support = _support(one, keys, where, read.by_file)
        if not support and (keys or query or asked.rows):
            return NOT_READ
        supports |= {d.id: d.title for d in support}
        steps.append(Step(step.question, step.answer, support[0].title if support else ""))
    meta: dict[str, object] = {"organisation": one.organisation.name, "operation": list(asked.operation)}
    meta |= {"items": dict(asked.items)} if asked.items else {}
    meta |= {"sql": sql} if sql else {}
    meta |= {"plain": asked.plain} if asked.plain else {}
    return Question(
        f"{one.organisation.seed}-{folder_of(one)}-{number}",
        asked.text,
        asked.answers,
        "organisations",
        split,
        len(steps),
        asked.type,
        tuple(dict.fromkeys(supports.values())),
        tuple(supports),
        decomposition=tuple(steps),
        meta=meta,
    )


def _gives(read: Passages, file: str, sql: str, answer: Sequence[str]) -> bool:
    """Whether a query over a table of a file gives an answer: in its first column one item a row."""
    if file not in read.tables:
        return False
    result = read.query(sql.replace("{table}", read.tables[file]))
    return len(result.rows) == len(answer) and all(
        any(same_value(row[0], item) for item in answer) for row in result.rows
    )


def _support(
    one: Written,
    keys: Sequence[Key],
    where: Mapping[Key, tuple[Fact, Paper]],
    by_file: Mapping[str, Sequence[Document]],
) -> list[Document]:
    """One passage that states all facts of a step; none if there is none."""
    facts = [where[key] for key in keys]
    file = f"docs/{folder_of(one)}/{facts[0][1].file}"
    for passage in by_file.get(file, ()):
        if all(states(passage, fact, paper) for fact, paper in facts):
            return [passage]
    return []


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
