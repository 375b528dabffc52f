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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from ..codec import checked
from ..errors import DataError, suggest
from ..input_file import parse_json
from ..process import end_with_parent, without_interrupts
from ..record import Question
from .articles import Article
from .programs import Program, parse_program
from .relations import RELATIONS
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

    with without_interrupts():
        started = multiprocessing.get_context("spawn").Pool(min(workers, len(jobs)), end_with_parent)
    with started as pool:
        yield from pool.imap(_region_blocks, jobs)


def _region_blocks(job: tuple[Recipe, int]) -> tuple[bytes, ...]:
    """A region as the bytes that it adds to each file."""
    part = make_part(*job)
    corpus = [article_row(article) for article in part.articles]
    facts = [facts_row(article) for article in part.articles]
    entities = [article.entity for article in part.articles]
    redirects = [{"alias": alias, "title": e.title, "id": e.id} for e in entities for alias in e.aliases]
    return tuple(msgspec.json.Encoder().encode_lines(rows) for rows in (corpus, facts, part.questions, redirects))


class ArticleRow(msgspec.Struct):
    """A line of `corpus.jsonl`."""

    id: str
    title: str
    text: str


StatedFact = tuple[str, str, str | int, int, int]
"""Subject, relation, value, and where the words that state it start and end in the article's text."""


class FactsRow(msgspec.Struct, omit_defaults=True):
    """A line of `facts.jsonl`: what an article is about, and what it states."""

    id: str
    name: str
    kind: str
    aliases: list[str]
    facts: list[StatedFact]
    adjective: str = ""
    """Of countries."""


def article_row(article: Article) -> ArticleRow:
    return ArticleRow(article.entity.id, article.entity.title, article.text)


def facts_row(article: Article) -> FactsRow:
    e = article.entity
    stated = [(f.subject, f.relation, f.object, start, start + len(f.surface)) for f, start in article.facts]
    return FactsRow(e.id, e.name, e.kind, e.aliases, stated, str(e.facts.get("adjective", "")))


def read_articles(folder: Path) -> Iterator[ArticleRow]:
    return _read(folder / "corpus.jsonl", ArticleRow)


def read_facts(folder: Path) -> Iterator[FactsRow]:
    return _read(folder / "facts.jsonl", FactsRow, _check_facts)


def read_articles_with_facts(folder: Path) -> Iterator[tuple[ArticleRow, FactsRow]]:
    for article, facts in zip_longest(read_articles(folder), read_facts(folder)):
        if article is None:
            raise DataError(f"facts.jsonl has a line for {facts.id!r} where corpus.jsonl has no article")
        if facts is None or facts.id != article.id:
            raise DataError(f"facts.jsonl has no line for article {article.id!r} where corpus.jsonl has one")
        yield article, facts


def read_questions(folder: Path) -> Iterator[Question]:
    return _read(folder / "questions.jsonl", Question)


def read_questions_with_programs(folder: Path) -> Iterator[tuple[Question, Program]]:
    """The questions and their programs, which are known to refer to existing relations and steps."""
    found: list[Program] = []
    for question in _read(folder / "questions.jsonl", Question, lambda q: found.append(parse_program(q.meta))):
        yield question, found.pop()


T = TypeVar("T")


def _read(path: Path, kind: type[T], check: Callable[[T], None] | None = None) -> Iterator[T]:
    """The rows of a JSON-lines file. Errors name the file and the line."""
    if not path.is_file():
        raise DataError(f"{path} does not exist: is {path.parent} the folder of a world?")
    with path.open("rb") as lines:
        for n, line in enumerate(lines, 1):
            row = checked(kind, parse_json(line, f"{path}:{n}"), f"{path}:{n}", error=DataError)
            try:
                if check is not None:
                    check(row)
            except DataError as error:
                raise DataError(f"{path}:{n}: {error}") from None
            yield row


_DATE = re.compile(r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])")
_NEEDS = {"date": "a date such as 1950-06-01", "year": "a whole number", "number": "a whole number"}
"""What a relation's value must be; a text where nothing is said."""


def _check_facts(row: FactsRow) -> None:
    """Raises DataError unless every fact has a known relation and a value of its type."""
    for _, relation, value, _, _ in row.facts:
        if relation != "alias" and relation not in RELATIONS:
            raise DataError(f"there is no relation {relation!r}; {suggest(relation, RELATIONS)}")
        kind = "word" if relation == "alias" else RELATIONS[relation].value
        if kind == "date":
            fits = isinstance(value, str) and _DATE.fullmatch(value) is not None
        else:
            fits = isinstance(value, int if kind in _NEEDS else str)
        if not fits:
            raise DataError(f"{relation} must be {_NEEDS.get(kind, 'text')}, not {value!r:.80}")
