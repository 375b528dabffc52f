"""Release forms of the sets that need the web and tools: GAIA, WebWalkerQA, Humanity's Last Exam, SimpleQA, BrowseComp.

HiRA published the same sets as JSON lists with `Question` and `answer`; the set's own fields stand beside them.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import re
from collections.abc import Mapping
from itertools import cycle
from typing import Any

from ..errors import DataError
from ..record import Question
from .fields import Row, answers_of, id_of, text_in, word_in

_MEDIA = re.compile(
    r"\b(?:image|picture|photo(?:graph)?|video|youtube|audio|sound|speech|vision|visual|ocr|colou?r)s?\b", re.IGNORECASE
)
"""Tools that look or listen."""


def gaia(row: Row) -> Question:
    """GAIA's release, and HiRA's copies of it, which have the answer as `answer`.

    `type` is HiRA's split of the set (seed 001, appendix): *file* where a file comes with the question, *multimodal*
    where none does and the tools that the annotator used look or listen, *text* otherwise.
    """
    files = (word_in(row, "file_name"),) if row.get("file_name") else ()
    tools = str(_object(row, "Annotator Metadata").get("Tools") or "")
    return Question(
        id=id_of(row.get("task_id") or row.get("id"), row["Question"]),
        question=text_in(row, "Question"),
        answers=answers_of(row.get("Final answer", row.get("answer"))),
        dataset="gaia",
        type="file" if files else "multimodal" if _MEDIA.search(tools) else "text",
        level=word_in(row, "Level"),
        files=files,
        meta={"tools": tools} if tools else {},
    )


def webwalkerqa(row: Row) -> Question:
    info = _object(row, "info")
    return Question(
        id=id_of(row.get("id"), _asked(row)),
        question=_asked(row),
        answers=answers_of(row.get("answer")),
        dataset="webwalkerqa",
        type=word_in(info, "type"),
        meta={
            "difficulty": info.get("difficulty_level", ""),
            "lang": info.get("lang", ""),
            "domain": info.get("domain", ""),
            "source_website": info.get("source_website", []),
            "root_url": row.get("root_url", ""),
        },
    )


def hle(row: Row) -> Question:
    """Humanity's Last Exam; its pictures stand in the row as `data:` URLs."""
    files = (word_in(row, "image"),) if row.get("image") else ()
    known = ("category", "answer_type", "raw_subject")
    return Question(
        id=id_of(row.get("id"), _asked(row)),
        question=_asked(row),
        answers=answers_of(row.get("answer")),
        dataset="hle",
        type="multimodal" if files else "text",
        files=files,
        meta={key: row[key] for key in known if row.get(key)},
    )


def simpleqa(row: Row) -> Question:
    meta = _object(row, "metadata")
    return Question(
        id_of(row.get("id"), row["problem"]),
        text_in(row, "problem"),
        answers_of(row["answer"]),
        "simpleqa",
        type=word_in(meta, "answer_type"),
        meta=meta,
    )


def browsecomp(row: Row) -> Question:
    """BrowseComp's release has question and answer encrypted, with a key made of the row's `canary`."""
    canary = text_in(row, "canary")
    question = _decrypted(text_in(row, "problem"), canary)
    topic = word_in(row, "problem_topic")
    return Question(
        id_of(row.get("id"), question),
        question,
        answers_of(_decrypted(text_in(row, "answer"), canary)),
        "browsecomp",
        meta={"topic": topic} if topic else {},
    )


def hira(row: Row) -> Question:
    """A row of HiRA's lists: the set is told by the fields that only its release has."""
    if "info" in row or "root_url" in row:
        return webwalkerqa(row)
    if {"answer_type", "category"} <= row.keys():
        return hle(row)
    if "Level" in row or "Annotator Metadata" in row:
        return gaia(row)
    files = (word_in(row, "file_name"),) if row.get("file_name") else ()
    return Question(
        id_of(row.get("id"), row["Question"]), text_in(row, "Question"), answers_of(row["answer"]), files=files
    )


def _asked(row: Row) -> str:
    return text_in(row, "question" if "question" in row else "Question")


def _object(row: Row, field: str) -> Mapping[str, Any]:
    """An object that may be absent, or written as a text."""
    value = row.get(field) or {}
    if isinstance(value, str):
        value = ast.literal_eval(value)
    if not isinstance(value, Mapping):
        raise DataError(f"{field!r} must be an object, not {value!r:.60}")
    return value


def _decrypted(text: str, canary: str) -> str:
    try:
        content = base64.b64decode(text, validate=True)
        key = cycle(hashlib.sha256(canary.encode()).digest())
        return bytes(a ^ b for a, b in zip(content, key, strict=False)).decode()
    except ValueError:
        raise DataError("the text cannot be decrypted with the row's 'canary'") from None
