"""The rows of a world's files, looked at before they are used: what is wrong with one is told with its file and line.

Whatever reads a world may trust its rows after this. An error further on is then a defect of ours and not of the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..codec import from_dict
from ..errors import DataError
from ..record import Question
from .relations import INVERSES, RELATIONS

Row = dict[str, Any]

_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_REFERENCE = re.compile(r"#([0-9]{1,4})(?:\.[0-9]{1,4}|&([0-9]{1,4}))?")
_VALUES = {"date": "a date as 1950-06-01", "year": "a whole number", "number": "a whole number"}
"""What a relation's value has to be; a text where nothing is said."""
_ARGUMENTS = {
    "last": "", "count": "n", "both": "nn", "same": "nn", "years": "nn", "age": "nn", "order": "nn", "best": "mnn",
    "pick": "nnmss",
}  # fmt: skip
"""What follows an operation's name: the number of a step (n), min or max (m), an id or `#n` (s)."""


def read_lines(path: Path, wrong: Callable[[Row], str] = lambda row: "") -> Iterator[Row]:
    """The objects of a JSON-lines file; `wrong` says what is wrong with one. Errors name the file and the line."""
    if not path.is_file():
        raise DataError(f"{path} does not exist: is {path.parent} the folder of a world?")
    with path.open("rb") as lines:
        for n, line in enumerate(lines, 1):
            row = parsed(line, f"{path}:{n}")
            if why := wrong(row):
                raise DataError(f"{path}:{n}: {why}; is this row as `subquest world make` writes it?")
            yield row


def parsed(line: str | bytes, place: str) -> Row:
    """The object that a line holds."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, numbers or nesting beyond what Python takes
        raise DataError(f"{place}: not JSON ({error})") from None
    if not isinstance(row, dict):
        raise DataError(f"{place}: expected an object")
    return row


def read_pages(folder: Path) -> Iterator[Row]:
    """The articles of a world: `id`, `title` and `text`."""
    return read_lines(folder / "corpus.jsonl", wrong_page)


def read_facts(folder: Path) -> Iterator[Row]:
    """What each article states."""
    return read_lines(folder / "facts.jsonl", wrong_facts)


def read_articles(folder: Path) -> Iterator[tuple[Row, Row]]:
    """Each article with what it states."""
    for page, facts in zip_longest(read_pages(folder), read_facts(folder)):
        if page is None:
            raise DataError(f"facts.jsonl has a line for {facts['id']!r} where corpus.jsonl has no article")
        if facts is None or facts["id"] != page["id"]:
            raise DataError(f"facts.jsonl has no line for article {page['id']!r} where corpus.jsonl has one")
        yield page, facts


def read_asked(folder: Path) -> Iterator[Question]:
    """The questions of a world, each with its program in `meta`."""
    rows = read_lines(folder / "questions.jsonl", lambda row: wrong_question(row) or wrong_program(row.get("meta", {})))
    return (from_dict(Question, row) for row in rows)


def wrong_page(row: Row) -> str:
    """What is wrong with an article; empty where nothing."""
    return _no_text(row, "id", "title", "text")


def wrong_facts(row: Row) -> str:
    """What is wrong with a row of `facts.jsonl`; empty where nothing."""
    if why := _no_text({"adjective": "", **row}, "id", "name", "kind", "adjective"):
        return why
    if not _is_texts(row.get("aliases")):
        return "`aliases` is not a list of texts"
    facts = row.get("facts")
    if not isinstance(facts, list):
        return "`facts` is not a list"
    return next(filter(None, map(_wrong_fact, facts)), "")


def wrong_question(row: Row) -> str:
    """What is wrong with a question; empty where nothing."""
    try:
        from_dict(Question, row)
    except DataError as error:
        return str(error)
    return ""


def wrong_program(meta: Mapping[str, Any]) -> str:
    """What is wrong with the program of a question; empty where nothing."""
    steps, operation = meta.get("program"), meta.get("operation")
    if not isinstance(steps, list) or not steps:
        return "`meta.program` is not a list of steps"
    for n, step in enumerate(steps, 1):
        if not _is_texts(step) or len(step) != 3:
            return f"step {n} of the program is not an action, a subject and a relation: {step!r:.80}"
        action, subject, relation = step
        if action not in ("get", "of", "all"):
            return f"step {n} of the program: {action!r} is not get, of or all"
        if relation not in (RELATIONS if action == "get" else INVERSES):
            return f"step {n} of the program: there is no relation {relation!r} to {action}"
        if not _is_subject(subject, n - 1):
            return f"step {n} of the program: {subject!r} is no step before it"
    if not isinstance(operation, list) or not _is_operation(operation, len(steps)):
        return f"`meta.operation` is not one of {', '.join(_ARGUMENTS)} with what belongs to it: {operation!r:.80}"
    return ""


def _no_text(row: Row, *names: str) -> str:
    missing = [name for name in names if not isinstance(row.get(name), str)]
    return f"`{missing[0]}` is not a text" if missing else ""


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong_fact(fact: object) -> str:
    """A fact is a subject, a relation, a value and the place in the text, from and to."""
    if not isinstance(fact, list) or len(fact) != 5 or not _is_texts(fact[:2]) or not all(map(_is_whole, fact[3:])):
        return f"not a subject, a relation, a value, a start and an end: {fact!r:.80}"
    relation, value = fact[1:3]
    if relation != "alias" and relation not in RELATIONS:
        return f"there is no relation {relation!r}"
    kind = "word" if relation == "alias" else RELATIONS[relation].value
    if kind == "date":
        fits = isinstance(value, str) and _DATE.fullmatch(value) is not None
    else:
        fits = _is_whole(value) if kind in _VALUES else isinstance(value, str)
    return "" if fits else f"{relation} = {value!r:.80} is not {_VALUES.get(kind, 'a text')}"


def _is_subject(subject: str, before: int) -> bool:
    """Whether a text is an id, or refers to the steps before."""
    if not subject.startswith("#"):
        return True
    match = _REFERENCE.fullmatch(subject)
    return match is not None and all(1 <= int(n) <= before for n in match.groups() if n)


def _is_operation(operation: Sequence[object], steps: int) -> bool:
    name, *rest = operation or [""]
    arguments = _ARGUMENTS.get(name) if isinstance(name, str) else None
    return (
        arguments is not None
        and len(arguments) == len(rest)
        and all(_fits(kind, value, steps) for kind, value in zip(arguments, rest, strict=True))
    )


def _fits(kind: str, value: object, steps: int) -> bool:
    if kind == "n":
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= steps
    if kind == "m":
        return value in ("min", "max")
    return isinstance(value, str) and _is_subject(value, steps) and not re.match(r"#[0-9]*[.&]", value)
