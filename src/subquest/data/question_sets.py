"""Reading question sets: one file, a world's folder, or a registered name."""

from __future__ import annotations

import gzip
import io
import json
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, MissingDependency, UsageError
from ..readers.delimited import csv_rows
from ..record import PUBLIC_FILES, Question
from .attached import with_files
from .fields import id_of
from .formats import to_question
from .registry import find, find_file, unknown

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def questions_from(source: str, *, split: str = "") -> list[Question]:
    """Questions of a registry name (`hotpotqa`, `hotpotqa:dev`), a file, or a folder that holds `questions.jsonl`."""
    path = Path(source).expanduser()
    if path.is_dir():
        path = path / "questions.jsonl"
        if not path.is_file():
            raise UsageError(f"the folder {source} holds no questions.jsonl")
    if path.is_file():
        return read_questions(path)
    name, _, asked = source.partition(":")
    entry = find(name)
    if entry is None:
        if "/" in source or source.endswith((*SUFFIXES, ".gz")):
            raise UsageError(f"there is no file {source}")
        raise UsageError(unknown(name))
    questions = read_questions(find_file(entry, asked or split))
    questions = [_of_release(replace(q, dataset=q.dataset or entry.name)) for q in questions]
    return unified(questions) if entry.unify else questions


def _of_release(question: Question) -> Question:
    """Files of a published set are no secret: reading them does not close the web to a run."""
    return replace(question, meta={**question.meta, PUBLIC_FILES: True}) if question.files else question


def read_questions(path: str | Path, *, skip_bad: bool = False, bad: list[str] | None = None) -> list[Question]:
    """All questions of a file in any known form.

    A broken row stops the reading with an error that names file and line; with `skip_bad` it is left out and its
    message is added to `bad`. A row that repeats an earlier one word for word is read once, with a note in `bad`; two
    different rows with one id are an error in either case.
    """
    path = Path(path)
    questions: dict[str, Question] = {}
    for number, row in _rows(path):
        try:
            if isinstance(row, DataError):
                raise row
            question = with_files(to_question(row), path)
        except (DataError, KeyError, TypeError, ValueError, SyntaxError) as error:
            reason = error if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
            message = f"{path}:{number}: {reason}"
            if not skip_bad:
                raise DataError(message) from None
            if bad is not None:
                bad.append(message)
            continue
        if questions.get(question.id, question) != question:
            again = (
                f"the id {question.id!r} was used before by a different question"
                if question.id != id_of(None, question.question)
                else "the question was there before with other answers or fields; "
                "put all its answers into one row, or give each row an id"
            )
            raise DataError(f"{path}:{number}: {again}")
        if question.id in questions and bad is not None:
            bad.append(f"{path}:{number}: repeats question {question.id!r}")
        questions[question.id] = question
    if not questions:
        raise DataError(f"{path}: no questions in it")
    return list(questions.values())


def _rows(path: Path) -> Iterator[tuple[int, Any]]:
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path}: cannot tell the format; known endings are {', '.join(SUFFIXES)} (and .gz)")
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
            return
        with _open(path) as file:
            if suffix == ".jsonl":
                yield from _json_lines(file)
            elif suffix == ".json":
                yield from _json_document(file, path)
            else:
                yield from _table(file, "\t" if suffix == ".tsv" else ",")
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: not readable as UTF-8 text: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")  # a mark at the beginning, as Excel writes it, is no text


def _json_lines(file: IO[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except json.JSONDecodeError as error:
                yield number, DataError(f"not JSON: {error.msg} at column {error.colno}")
            except RecursionError:
                yield number, DataError("nested too deeply")


def _json_document(file: IO[str], path: Path) -> Iterator[tuple[int, Any]]:
    try:
        document = json.load(file)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise DataError(f"{path}: nested too deeply") from None
    if isinstance(document, dict):  # TriviaQA's "Data", others' "data"
        document = next((document[k] for k in ("Data", "data", "questions") if k in document), document)
    if not isinstance(document, list):
        raise DataError(f"{path}: expected a list of questions")
    yield from enumerate(document, 1)


def _table(file: IO[str], delimiter: str) -> Iterator[tuple[int, Any]]:
    """Rows by the names of the first one. One that is longer than that has a delimiter in an unquoted cell."""
    rows = csv_rows(io.BytesIO(file.read().encode()), delimiter)
    names = [name.strip() for name in next(rows, (0, []))[1]]
    for number, cells in rows:
        if any(map(str.strip, cells[len(names) :])):
            yield (
                number,
                DataError(
                    f"{len(cells)} cells, where the first row has {len(names)}; put a text that holds {delimiter!r} "
                    "into quotation marks"
                ),
            )
        elif cells:
            yield number, dict(zip(names, cells + [None] * (len(names) - len(cells)), strict=False))


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise MissingDependency("pyarrow, which reads parquet files,", "hub") from None
    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(1024):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except ArrowException as error:
        raise DataError(f"{path}: not readable as parquet: {error}") from None


def unified(questions: Iterable[Question]) -> list[Question]:
    """Questions with the same text become one that accepts the answers of all, as CoDA does for PopQA."""
    found: dict[str, Question] = {}
    for question in questions:
        key = " ".join(question.question.split()).casefold()
        if key in found:
            answers = tuple(dict.fromkeys((*found[key].answers, *question.answers)))
            found[key] = replace(found[key], answers=answers)
        else:
            found[key] = question
    return list(found.values())


def of_set(name: str, questions: Sequence[Question]) -> list[Question]:
    """The questions under the name of one set; those of several keep the name of their own as `meta["data_source"]`."""
    if len({question.dataset for question in questions}) < 2:
        return [replace(question, dataset=name) for question in questions]
    return [replace(q, dataset=name, meta={**q.meta, "data_source": q.dataset or name}) for q in questions]


def sample(questions: Sequence[Question], size: int, seed: int = 0) -> list[Question]:
    """A fixed random subset in the original order; the same for a seed on every machine."""
    if size >= len(questions):
        return list(questions)
    chosen = sorted(random.Random(f"subquest-sample-{seed}").sample(range(len(questions)), size))
    return [questions[i] for i in chosen]
