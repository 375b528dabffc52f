"""The folder of a world: how it is written, and how its files are checked when they are read.

    corpus.jsonl      articles: id, title, text
    facts.jsonl       the facts that each article states, with their place in its text
    questions.jsonl   questions with gold plans and programs
    redirects.jsonl   other names of articles
    world.json        the recipe, and the checksum of every file; written last

An error names the file and the line. Rows that were read here need no further checks.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ..children import end_with_parent
from ..codec import from_dict, to_dict
from ..errors import DataError
from ..record import Question
from .articles import Article
from .relations import INVERSES, RELATIONS
from .world import Recipe, make_part

FORMAT = 1
"""Increased when the same recipe no longer gives the same bytes."""


class Written(NamedTuple):
    """What `write_world` has written."""

    folder: Path
    articles: int
    questions: int


FILES = ("corpus.jsonl", "facts.jsonl", "questions.jsonl", "redirects.jsonl")


def write_world(out: Path, recipe: Recipe, workers: int = 1) -> Written:
    """Writes a world of any size into a folder, one region after the other."""
    out.mkdir(parents=True, exist_ok=True)
    counts, sums = dict.fromkeys(FILES, 0), {name: hashlib.sha256() for name in FILES}
    handles = {name: (out / f"{name}.part").open("wb") for name in FILES}
    try:
        for blocks in _blocks(recipe, workers):
            for name, block in zip(FILES, blocks, strict=True):
                handles[name].write(block)
                sums[name].update(block)
                counts[name] += block.count(b"\n")
    finally:
        for handle in handles.values():
            handle.close()
    for name in FILES:
        os.replace(out / f"{name}.part", out / name)
    manifest = {
        "format": FORMAT,
        "recipe": asdict(recipe),
        "files": {name: {"lines": counts[name], "sha256": sums[name].hexdigest()} for name in FILES},
    }
    (out / "world.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return Written(out, counts["corpus.jsonl"], counts["questions.jsonl"])


def _blocks(recipe: Recipe, workers: int) -> Iterator[Sequence[bytes]]:
    jobs = [(recipe, i) for i in range(len(recipe.regions))]
    if workers <= 1 or len(jobs) < 3:
        yield from map(_region_blocks, jobs)
        return
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(min(workers, len(jobs)), end_with_parent) as pool:
        yield from pool.imap(_region_blocks, jobs)


def _region_blocks(job: tuple[Recipe, int]) -> tuple[bytes, ...]:
    """A region as the bytes that it adds to each file."""
    part = make_part(*job)
    corpus, facts, redirects = [], [], []
    for article in part.articles:
        e = article.entity
        corpus.append({"id": e.id, "title": e.title, "text": article.text})
        facts.append(fact_row(article))
        redirects += [{"alias": alias, "title": e.title, "id": e.id} for alias in e.aliases]
    questions = [to_dict(q) for q in part.questions]
    return tuple(_lines(rows) for rows in (corpus, facts, questions, redirects))


def fact_row(article: Article) -> dict[str, Any]:
    """An article's line of `facts.jsonl`: each fact with the place of its surface form in the text."""
    e = article.entity
    stated = [[f.subject, f.relation, f.object, start, start + len(f.surface)] for f, start in article.facts]
    row: dict[str, Any] = {"id": e.id, "name": e.name, "kind": e.kind, "aliases": e.aliases, "facts": stated}
    if "adjective" in e.facts:
        row["adjective"] = e.facts["adjective"]
    return row


def _lines(rows: Sequence[Any]) -> bytes:
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
    return "".join(encode(row) + "\n" for row in rows).encode()


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
