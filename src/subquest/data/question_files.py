"""Question files: JSON lines, JSON, CSV, TSV and parquet, packed or not, in any published format."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ..english import counted
from ..errors import DataError, MissingDependency, UsageError
from ..input_file import check_input, parse_json
from ..readers.tables import csv_rows
from ..record import Question
from .attachments import with_files
from .formats import to_question
from .row_values import id_of

SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")


def read_questions(path: str | Path, *, skip_bad: bool = False, bad: list[str] | None = None) -> list[Question]:
    """All questions of a file in any known format.

    A broken row, or one whose id an earlier, different row has, raises an error that names the file and the line; with
    `skip_bad` it is skipped and its message is added to `bad`. A row that repeats an earlier one word for word is read
    once, with a note in `bad`.
    """
    path = Path(path)
    questions: dict[str, Question] = {}
    for number, question in _parsed_rows(path):
        place = f"{path}:{number}"
        if not isinstance(question, DataError) and questions.get(question.id, question) != question:
            question = _repeated(place, question)
        if isinstance(question, DataError):
            if not skip_bad:
                raise question
            if bad is not None:
                bad.append(str(question))
            continue
        if question.id in questions and bad is not None:
            bad.append(f"{place}: repeats question {question.id!r}")
        questions[question.id] = question
    if not questions:
        raise DataError(f"{path}: no questions in it")
    return list(questions.values())


def _repeated(place: str, question: Question) -> DataError:
    """What is wrong with a row whose id an earlier, different row has."""
    if question.id == id_of(None, question.question):
        return DataError(
            f"{place}: the question occurs earlier with other answers or fields; "
            "put all its answers into one row, or give each row an id"
        )
    return DataError(f"{place}: the id {question.id!r} is used earlier by a different question")


def iterate_questions(path: Path) -> Iterator[Question]:
    """The questions of a file, one at a time and with any repeated ids; a broken row raises an error."""
    for _, question in _parsed_rows(path):
        if isinstance(question, DataError):
            raise question
        yield question


def _parsed_rows(path: Path) -> Iterator[tuple[int, Question | DataError]]:
    """Each row of a file by its number: the question in it, or what is wrong with it."""
    for number, row in question_rows(path):
        found: Question | DataError
        try:
            if isinstance(row, DataError):
                raise row
            found = with_files(to_question(row), path)
        except (DataError, KeyError, TypeError, ValueError, SyntaxError) as error:
            reason = error if isinstance(error, DataError) else f"{type(error).__name__}: {error}"
            found = DataError(f"{path}:{number}: {reason}")
        yield number, found


def question_rows(path: Path) -> Iterator[tuple[int, Any]]:
    """The number and the values of each row of a file, in whatever format it was published."""
    name = path.name.removesuffix(".gz")
    suffix = Path(name).suffix.lower()
    if suffix not in SUFFIXES:
        raise UsageError(f"{path}: cannot tell the format; known endings are {', '.join(SUFFIXES)} (and .gz)")
    check_input(path, "the questions in")
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
    return path.open(encoding="utf-8-sig", newline="")  # skips the byte order mark that Excel writes


def _json_lines(file: IO[str]) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            try:
                yield number, parse_json(line, "")
            except DataError as error:
                yield number, DataError(str(error).removeprefix(": "))


def _json_document(file: IO[str], path: Path) -> Iterator[tuple[int, Any]]:
    document = parse_json(file.read(), str(path))
    if isinstance(document, dict):  # TriviaQA's "Data", others' "data"
        document = next((document[k] for k in ("Data", "data", "questions") if k in document), document)
    if not isinstance(document, list):
        raise DataError(f"{path}: expected a list of questions")
    yield from enumerate((row for entry in document for row in _squad_rows(entry)), 1)


def _squad_rows(entry: Any) -> Iterator[Any]:
    """SQuAD's release nests questions in paragraphs and paragraphs in articles: each question as a row of its own."""
    if not isinstance(entry, dict) or "paragraphs" not in entry or "question" in entry:
        yield entry
        return
    for paragraph in entry["paragraphs"]:
        for question in paragraph["qas"]:
            yield {**question, "title": entry.get("title") or "", "context": paragraph["context"]}


def _table(file: IO[str], delimiter: str) -> Iterator[tuple[int, Any]]:
    """Rows by the names in the first one. A longer row has a delimiter in an unquoted cell."""
    rows = csv_rows(io.BytesIO(file.read().encode()), delimiter)
    names = [name.strip() for name in next(rows, (0, []))[1]]
    for number, cells in rows:
        if any(map(str.strip, cells[len(names) :])):
            problem = f"{counted(len(cells), 'cell')}, where the first row has {len(names)}"
            yield number, DataError(f"{problem}; put a text that holds {delimiter!r} into quotation marks")
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
