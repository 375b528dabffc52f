"""The paragraphs that come with questions, as a corpus: HotpotQA, 2WikiMultiHopQA, MuSiQue and SQuAD have them.

A question's gold paragraphs and its distractors are in its row. Those of some questions together make a small corpus of
real text, in which every question can be answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ..errors import DataError, UsageError
from ..record import Question
from .formats import to_question
from .question_export import write_rows
from .question_files import question_rows
from .registry import find_file, find_set
from .row_values import as_json

_BODIES = ("sentences", "content", "paragraph_text", "text", "paragraphs")
"""What releases call the text of a paragraph."""


class Paragraph(NamedTuple):
    title: str
    text: str
    gold: bool
    """Whether the release marks it as one that the answer needs."""


def write_paragraphs(source: str, questions: Sequence[Question], out: Path) -> tuple[list[Question], int]:
    """Write the questions' own paragraphs as a corpus; returns the questions with their ids, and how many there are.

    `source` is where the questions were read from: a known set or a file. Paragraphs with the same title and text are
    one document; its id is the title, with a number where several texts have it.
    """
    wanted = {question.id: question for question in questions}
    ids: dict[tuple[str, str], str] = {}
    seen: dict[str, int] = {}
    done: dict[str, Question] = {}
    for row in _rows(source):
        question = wanted.get(_id(row))
        if question is None or question.id in done:
            continue
        paragraphs = paragraphs_of(row)
        if not paragraphs:
            raise UsageError(
                f"{source}: question {question.id!r} comes without paragraphs; index a corpus for it instead"
            )
        for title, text, _ in paragraphs:
            if (title, text) not in ids:
                seen[title] = seen.get(title, 0) + 1
                ids[title, text] = title if seen[title] == 1 else f"{title}#{seen[title]}"
        gold = [p for p in paragraphs if p.gold or p.title in question.supporting_titles or len(paragraphs) == 1]
        done[question.id] = replace(
            question, context_ids=_ids(ids, paragraphs), supporting_ids=question.supporting_ids or _ids(ids, gold)
        )
    missing = next((question.id for question in questions if question.id not in done), None)
    if missing is not None:
        raise DataError(f"{source}: question {missing!r} was not found again")
    write_rows(({"id": id, "title": title, "text": text} for (title, text), id in ids.items()), out)
    return [done[question.id] for question in questions], len(ids)


def paragraphs_of(row: Mapping[str, Any]) -> list[Paragraph]:
    """The paragraphs in a row, in any of the ways that releases write them; none where it has none."""
    metadata = row.get("metadata")
    for fields in (row, metadata if isinstance(metadata, Mapping) else {}):
        given = fields.get("context") or fields.get("paragraphs")
        if isinstance(given, str):
            try:
                given = json.loads(given)
            except ValueError:  # a text: one paragraph
                title = str(fields.get("title") or "").replace("_", " ")
                return [Paragraph(title, given.strip(), gold=True)]
        if isinstance(given, Mapping):  # as columns: a list of titles, and one of texts
            bodies: list[Any] = next((given[name] for name in _BODIES if name in given), [])
            given = list(zip(given.get("title") or [], bodies, strict=False))
        if isinstance(given, list) and given:
            return [paragraph for item in given for paragraph in _paragraph(item)]
    return []


def _paragraph(item: Any) -> Iterator[Paragraph]:
    gold = False
    if isinstance(item, Mapping):
        gold = bool(item.get("is_supporting"))
        item = (item.get("title"), next((item[name] for name in _BODIES if item.get(name)), None))
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise DataError(f"a paragraph is a title and a text, not {item!r:.60}")
    title, body = item
    text = " ".join(str(part).strip() for part in body) if isinstance(body, list) else str(body or "").strip()
    if text:
        yield Paragraph(str(title or "").strip(), text, gold)


def _rows(source: str) -> Iterator[Mapping[str, Any]]:
    path = Path(source).expanduser()
    if path.is_dir():
        raise UsageError(f"--corpus: {source} is a folder; the corpus of a world is its corpus.jsonl")
    if not path.is_file():
        name, _, split = source.partition(":")
        entry = find_set(name)
        assert entry is not None  # the questions came from it
        path = find_file(entry, split)
    for _, row in question_rows(path):
        if isinstance(row, Mapping):
            yield as_json(row)


def _id(row: Mapping[str, Any]) -> str:
    try:
        return to_question(row).id
    except (DataError, KeyError, TypeError, ValueError, SyntaxError):  # skipped when the questions were read
        return ""


def _ids(ids: Mapping[tuple[str, str], str], paragraphs: Sequence[Paragraph]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids[title, text] for title, text, _ in paragraphs))
