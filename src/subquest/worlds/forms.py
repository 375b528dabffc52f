"""The same world in other people's forms: FlashRAG's jsonl and verl's rows.

FlashRAG (also Search-R1): a corpus of `{"id", "contents"}`, whose first line of contents is the title in quotes, and
questions of `{"id", "question", "golden_answers", "metadata"}`. verl: rows with a prompt, a rule reward and extra
information; written as parquet where pyarrow is installed, else as jsonl of the same rows.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .folder import read_lines

FORMS = ("flashrag", "verl")
_FILES = ("flashrag_corpus.jsonl", "flashrag_questions.jsonl", "verl.parquet", "verl.jsonl")


def remove_forms(folder: Path) -> None:
    """Takes away what was written of the world that stood in the folder before."""
    for name in _FILES:
        (folder / name).unlink(missing_ok=True)


def write_form(folder: Path, form: str) -> list[Path]:
    """Writes a form beside a world's own files and returns the paths."""
    if form == "flashrag":
        corpus = _write(folder / "flashrag_corpus.jsonl", map(flashrag_document, read_lines(folder / "corpus.jsonl")))
        asked = _write(
            folder / "flashrag_questions.jsonl", map(flashrag_question, read_lines(folder / "questions.jsonl"))
        )
        return [corpus, asked]
    rows = (verl_row(q, i) for i, q in enumerate(read_lines(folder / "questions.jsonl")) if q.get("answers"))
    if importlib.util.find_spec("pyarrow") is not None:
        return [_write_parquet(folder / "verl.parquet", rows)]
    return [_write(folder / "verl.jsonl", rows)]


def flashrag_document(page: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": page["id"], "contents": f'"{page["title"]}"\n{page["text"]}'}


def flashrag_question(q: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {k: q[k] for k in ("type", "hops", "supporting_titles", "supporting_ids", "decomposition") if k in q}
    return {"id": q["id"], "question": q["question"], "golden_answers": q.get("answers", []), "metadata": metadata}


def verl_row(q: Mapping[str, Any], index: int) -> dict[str, Any]:
    return {
        "data_source": q["dataset"],
        "prompt": [{"role": "user", "content": q["question"]}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": list(q["answers"])}},
        "extra_info": {"split": q["split"], "index": index, "id": q["id"]},
    }


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")
    return path


def _write_parquet(path: Path, rows: Iterator[Mapping[str, Any]]) -> Path:
    import pyarrow  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from pyarrow import parquet  # type: ignore[import-not-found,import-untyped,unused-ignore]

    parquet.write_table(pyarrow.Table.from_pylist(list(rows)), path)
    return path
