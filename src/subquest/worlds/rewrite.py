"""`subquest world plans`: a file of questions with its gold plans in natural sub-questions (`data/plans.py`)."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..codec import from_dict, to_dict
from ..data.plans import PlanReport, Refused, rewrite_plan
from ..errors import DataError
from ..record import Question, Step
from .folder import parsed

QUESTION = frozenset(f.name for f in dataclasses.fields(Question))
STEP = frozenset(f.name for f in dataclasses.fields(Step))


def read_questions(path: Path) -> Iterator[Question]:
    """Questions of a jsonl or jsonl.gz file in our form; unknown fields are kept in `meta`."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for n, line in enumerate(lines, 1):
                row = parsed(line, f"{path}:{n}")
                try:
                    question = _question(row)
                except DataError as error:
                    raise DataError(f"{path}:{n}: not a question ({error})") from None
                yield question
    except (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a file of lines ({error})") from None


def _question(row: dict[str, Any]) -> Question:
    """Fields without a value count as missing, an id that is a number as a text; fields of a step that ours does not
    have are left out."""
    given = {k: v for k, v in row.items() if v is not None}
    if isinstance(given.get("id"), int):
        given["id"] = str(given["id"])
    known = {k: v for k, v in given.items() if k in QUESTION}
    question = from_dict(Question, {**known, "decomposition": _plan(given.get("decomposition", []))})
    return replace(question, meta={**question.meta, **{k: v for k, v in row.items() if k not in QUESTION}})


def _plan(steps: object) -> object:
    if not isinstance(steps, list):
        return steps
    return [
        {k: v for k, v in step.items() if k in STEP and v is not None} if isinstance(step, dict) else step
        for step in steps
    ]


def rewrite_file(source: Path, out: Path | None) -> PlanReport:
    """Rewrites a file of questions (or only counts, without `out`); refused plans are left out and counted."""
    report = PlanReport()
    if not source.is_file():
        raise DataError(f"{source} does not exist")
    with out.open("w", encoding="utf-8") if out is not None else io.StringIO() as target:
        for question in read_questions(source):
            if not question.decomposition:
                report.refused["no plan"] += 1
                continue
            report.plans += 1
            try:
                natural = rewrite_plan(question, report)
            except Refused as reason:
                report.refused[str(reason)] += 1
                continue
            if natural.decomposition == question.decomposition:
                report.unchanged += 1
            else:
                report.rewritten += 1
            target.write(json.dumps(to_dict(natural), ensure_ascii=False) + "\n")
    return report
