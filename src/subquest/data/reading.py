"""Reading question sets: one file, a world's folder, or a registered name."""

from __future__ import annotations

import csv
import gzip
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from ..errors import DataError, MissingDependency, UsageError
from ..record import Question
from .attached import with_files
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
    questions = [replace(q, dataset=q.dataset or entry.name) for q in questions]
    return unified(questions) if entry.unify else questions


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
            raise DataError(f"{path}:{number}: the id {question.id!r} was used before by a different question")
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
                rows = csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ",")
                yield from enumerate(rows, 2)
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError) as error:
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


def _json_document(file: IO[str], path: Path) -> Iterator[tuple[int, Any]]:
    try:
        document = json.load(file)
    except json.JSONDecodeError as error:
        raise DataError(f"{path}:{error.lineno}: not JSON: {error.msg}") from None
    if isinstance(document, dict):  # TriviaQA's "Data", others' "data"
        document = next((document[k] for k in ("Data", "data", "questions") if k in document), document)
    if not isinstance(document, list):
        raise DataError(f"{path}: expected a list of questions")
    yield from enumerate(document, 1)


def _parquet(path: Path) -> Iterator[tuple[int, Any]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise MissingDependency("pyarrow, which reads parquet files,", "hub") from None
    number = 0
    for batch in parquet.ParquetFile(path).iter_batches(1024):
        for row in batch.to_pylist():
            number += 1
            yield number, row


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
