"""Question sets as commands ask for them: opened by name or path, named, filtered, sampled."""

from __future__ import annotations

import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..errors import UsageError, suggest
from ..record import PUBLIC_FILES, Question
from .question_files import SUFFIXES, read_questions
from .registry import find_file, find_set, unknown_set


def questions_from(source: str) -> list[Question]:
    """Questions of a registry name (`hotpotqa`, `hotpotqa:dev`), a file, or a folder that holds `questions.jsonl`."""
    path = Path(source).expanduser()
    if path.is_dir():
        path = path / "questions.jsonl"
        if not path.is_file():
            raise UsageError(f"the folder {source} holds no questions.jsonl")
    if path.is_file():
        return read_questions(path)
    name, _, split = source.partition(":")
    entry = find_set(name)
    if entry is None:
        if "/" in source or source.endswith((*SUFFIXES, ".gz")):
            raise UsageError(f"there is no file {source}")
        raise UsageError(unknown_set(name))
    questions = read_questions(find_file(entry, split))
    questions = [_published(replace(q, dataset=q.dataset or entry.name)) for q in questions]
    return merge_repeated(questions) if entry.unify else questions


def _published(question: Question) -> Question:
    """Files of a published set are not private: reading them does not cut a run off from the web."""
    return replace(question, meta={**question.meta, PUBLIC_FILES: True}) if question.files else question


def merge_repeated(questions: Iterable[Question]) -> list[Question]:
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


def with_dataset(name: str, questions: Sequence[Question]) -> list[Question]:
    """The questions under one data set's name; where they come from several, `meta["data_source"]` keeps their own."""
    if len({question.dataset for question in questions}) < 2:
        return [replace(question, dataset=name) for question in questions]
    return [replace(q, dataset=name, meta={**q.meta, "data_source": q.dataset or name}) for q in questions]


def sample_questions(questions: Sequence[Question], size: int, seed: int = 0) -> list[Question]:
    """A fixed random subset in the original order; the same for a seed on every machine."""
    if size >= len(questions):
        return list(questions)
    chosen = sorted(random.Random(f"subquest-sample-{seed}").sample(range(len(questions)), size))
    return [questions[i] for i in chosen]


def name_sources(sources: Sequence[str]) -> dict[str, str]:
    """Each source once, by a name for tables: that of the registry, or the file's or folder's without its endings.

    Where two have the same name both get a longer one: with the split (`hotpotqa:dev`), or with the folders above.
    """
    distinct = {_absolute(source): source for source in reversed(sources)}
    names = {source: _names(source) for source in sorted(distinct.values(), key=list(sources).index)}
    chosen = {source: next(longer) for source, longer in names.items()}
    while shared := {name for name, count in Counter(chosen.values()).items() if count > 1}:
        chosen = {source: next(names[source], source) if name in shared else name for source, name in chosen.items()}
    return {name: source for source, name in chosen.items()}


def _absolute(source: str) -> str:
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _names(source: str) -> Iterator[str]:
    """Names from the shortest to one that nothing else has."""
    path = Path(source).expanduser()
    if not path.exists():
        yield source.partition(":")[0]
        yield source
        return
    *folders, last = path.resolve().parts
    stem = last.split(".")[0] or last
    for count in range(len(folders)):
        yield "/".join((*folders[len(folders) - count :], stem))
    yield str(path.resolve())


_EXPRESSION = re.compile(r"\s*(\w+)\s*([<>=!]+)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq, "=": operator.eq,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_FIELDS = frozenset(Question.__struct_fields__) - {"meta"}


def filter_questions(questions: Sequence[Question], expression: str) -> list[Question]:
    """Those that an expression such as `hops>=3`, `type=bridge` or `lang!=zh` is true of.

    A question that lacks the field is left out; a field that no question has raises a UsageError.
    """
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise UsageError(f"filter {expression!r}: write FIELD OPERATOR VALUE, such as hops>=3")
    field, sign, wanted = match.groups()
    if sign not in _COMPARE:
        raise UsageError(f"filter {expression!r}: there is no operator {sign!r}; there are {', '.join(_COMPARE)}")
    known = {*_FIELDS, *(key for question in questions for key in question.meta)}
    if questions and field not in known:
        raise UsageError(f"filter {expression!r}: no question has a field {field!r}; {suggest(field, sorted(known))}")
    try:
        return [q for q in questions if _matches(_value(q, field), sign, wanted)]
    except ValueError as error:
        raise UsageError(f"filter {expression!r}: {field} is {error}") from None


def _value(question: Question, field: str) -> Any:
    return getattr(question, field) if field in _FIELDS else question.meta.get(field)


def _matches(value: Any, sign: str, wanted: str) -> bool:
    """Whether a value compares as wanted; raises ValueError with what the value is where they cannot be compared."""
    if value is None:
        return False
    if isinstance(value, bool):
        if wanted.casefold() not in _TRUTHS:
            raise ValueError("true or false")
        return _COMPARE[sign](value, _TRUTHS[wanted.casefold()])
    if isinstance(value, int | float):
        try:
            number = float(wanted)
        except ValueError:
            raise ValueError("a number") from None
        return _COMPARE[sign](value, number)
    if sign[0] in "<>":  # cells of a table are texts: 9 is below 10 there too
        with suppress(ValueError):
            return _COMPARE[sign](float(str(value)), float(wanted))
    return _COMPARE[sign](str(value), wanted)
