"""An evaluation as a matrix: a row for each question, a column for each system, and whether its answer is right."""

from __future__ import annotations

from typing import Any

from ..evaluate.result_table import Scored, scored
from ..runs import RunStore, Summary

RIGHT = ("em", "judge")
"""The first of these that an answer has decides whether it is right."""
_HALF = 0.5
_FAILED = ("failed", "crashed")

Row = dict[str, Any]


def question_matrix(store: RunStore, *, only: str, text: str, dataset: str, offset: int, limit: int) -> Row:
    """A page of the matrix. `only` is `wrong` for questions that some system got wrong, `differs` for those that some
    got right and others did not; the totals of both are counted over all questions of the data set and the text."""
    summaries = {summary.id: summary for summary in store.summaries()}
    found = scored(store)
    rows = [row for row in _rows(found, summaries) if _matches(row, text.lower(), dataset)]
    chosen = [row for row in rows if _wanted(row, only)]
    return {
        "systems": sorted({row.system for row in found}),
        "datasets": sorted({row.dataset for row in found}),
        "total": len(chosen),
        "counts": {name: sum(_wanted(row, name) for row in rows) for name in ("", "wrong", "differs")},
        "rows": chosen[offset : offset + limit],
    }


def _rows(found: list[Scored], summaries: dict[str, Summary]) -> list[Row]:
    rows: dict[tuple[str, str], Row] = {}
    for one in found:
        question = one.question
        row = rows.setdefault(
            (one.dataset, question.id),
            {
                "dataset": one.dataset,
                "id": question.id,
                "question": question.meta.get("asked") or question.question,
                "expected": list(question.answers),
                "cells": {},
            },
        )
        row["cells"][one.system] = _cell(one, summaries[one.episode])
    return list(rows.values())


def _cell(row: Scored, summary: Summary) -> Row:
    supported, parts = row.scores.get("supported"), row.scores.get("parts_supported", 0.0) >= _HALF
    return {
        "episode": row.episode,
        "answer": summary.answer,
        "verdict": _verdict(row, summary),
        "unsupported": supported is not None and supported < _HALF and not parts,
        "parts": parts,
        "f1": row.scores.get("f1"),
    }


def _verdict(row: Scored, summary: Summary) -> str:
    """right, wrong, failed (no answer came about) or unscored."""
    decisive = next((row.scores[name] for name in RIGHT if name in row.scores), None)
    if decisive is not None and decisive >= _HALF:
        return "right"
    if summary.stop_reason in _FAILED:
        return "failed"
    return "unscored" if decisive is None else "wrong"


def _matches(row: Row, text: str, dataset: str) -> bool:
    answers = (cell["answer"] for cell in row["cells"].values())
    return (not dataset or row["dataset"] == dataset) and (
        not text or any(text in words.lower() for words in (row["question"], *row["expected"], *answers))
    )


def _wanted(row: Row, only: str) -> bool:
    right = {cell["verdict"] == "right" for cell in row["cells"].values() if cell["verdict"] != "unscored"}
    return {"": True, "wrong": False in right, "differs": len(right) > 1}[only]
