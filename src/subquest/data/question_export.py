"""Export of question sets and worlds in the formats other projects read: ours, FlashRAG's and verl's.

`formats` reads all three back: ours with every field, FlashRAG's with the rest in `metadata`, verl's with what a
trainer needs (answers, split, hops) and the question's own id.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..codec import to_dict
from ..errors import MissingDependency, UsageError, suggest
from ..output_file import complete_file
from ..record import Question
from .question_files import iterate_questions

OUTPUTS = (".jsonl", ".jsonl.gz", ".parquet")


def to_subquest(question: Question, index: int) -> dict[str, Any]:
    """Our own row: fields that say nothing are left out."""
    return {"id": question.id, "question": question.question, "answers": list(question.answers), **_rest(question)}


def to_flashrag(question: Question, index: int) -> dict[str, Any]:
    """FlashRAG's row: `golden_answers`, and everything else in `metadata`."""
    metadata = {**dict(question.meta), **{k: v for k, v in _rest(question).items() if k != "meta"}}
    return {
        "id": question.id,
        "question": question.question,
        "golden_answers": list(question.answers),
        "metadata": metadata,
    }


def to_verl(question: Question, index: int) -> dict[str, Any]:
    """verl's row: a chat prompt, the rule that rewards it and the answers it accepts."""
    return {
        "data_source": question.dataset,
        "prompt": [{"role": "user", "content": question.question}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": list(question.answers)}},
        "extra_info": {
            "index": index,
            "split": question.split,
            "id": question.id,
            "question": question.question,
            "hops": question.hops,
        },
    }


FORMATS: Mapping[str, Callable[[Question, int], dict[str, Any]]] = {
    "subquest": to_subquest,
    "flashrag": to_flashrag,
    "verl": to_verl,
}


def write_questions(questions: Iterable[Question], path: str | Path, format: str = "subquest") -> None:
    """Writes a file, which appears under its name only when it is complete."""
    path = Path(path)
    if format not in FORMATS:
        raise UsageError(f"unknown format {format!r}; {suggest(format, FORMATS)}")
    write_rows((FORMATS[format](question, index) for index, question in enumerate(questions)), path)


def write_rows(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Writes rows as parquet or JSON lines, by the file's ending."""
    if not path.name.endswith(OUTPUTS):
        raise UsageError(f"{path}: cannot tell the format; known endings are {', '.join(OUTPUTS)}")
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    with complete_file(path) as scratch:
        if path.suffix == ".parquet":
            _parquet(rows, scratch)
        else:
            _lines(rows, scratch, packed=path.suffix == ".gz")


WORLD_FORMATS = ("flashrag", "verl")
_WORLD_FILES = ("flashrag_corpus.jsonl", "flashrag_questions.jsonl", "verl.parquet", "verl.jsonl")


def export_world(folder: Path, format: str) -> list[Path]:
    """Writes a world beside its own files in another format and returns the paths.

    verl's questions are those with answers, as parquet where pyarrow is installed and else as JSON lines.
    """
    questions = iterate_questions(folder / "questions.jsonl")
    if format == "verl":
        path = folder / ("verl.parquet" if importlib.util.find_spec("pyarrow") is not None else "verl.jsonl")
        write_questions((q for q in questions if q.answers), path, "verl")
        return [path]
    corpus, asked = (folder / name for name in _WORLD_FILES[:2])
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        pages = map(json.loads, lines)
        _lines(({"id": p["id"], "contents": f'"{p["title"]}"\n{p["text"]}'} for p in pages), corpus, packed=False)
    write_questions(questions, asked, "flashrag")
    return [corpus, asked]


def remove_world_exports(folder: Path) -> None:
    """Deletes what `export_world` wrote for the world that was in the folder before."""
    for name in _WORLD_FILES:
        (folder / name).unlink(missing_ok=True)


def _lines(rows: Iterable[Mapping[str, Any]], path: Path, *, packed: bool) -> None:
    lines: Iterator[str] = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    with path.open("wb") as raw:
        # without name and time in its header the same rows give the same bytes
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed else raw
        with io.TextIOWrapper(file, encoding="utf-8") as text:
            text.writelines(lines)


def _parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise MissingDependency("pyarrow, which writes parquet files,", "hub") from None
    try:
        parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as error:
        raise UsageError(f"the rows do not fit one parquet table ({error}); write .jsonl instead") from None


def _rest(question: Question) -> dict[str, Any]:
    """What a question says besides its id, text and answers."""
    row = {k: v for k, v in to_dict(question).items() if v not in (None, "", [], {}, ())}
    return {k: v for k, v in row.items() if k not in ("id", "question", "answers")}
