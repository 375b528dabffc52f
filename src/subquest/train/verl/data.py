"""Questions as verl's rows, with all we know about them, and back.

A row has verl's fields (`data_source`, `prompt`, `ability`, `reward_model`, `extra_info`). `extra_info.subquest` holds
the whole question as JSON, so that plans and supporting titles reach the rewards; `agent_name` names our loop. Rows of
other projects, without that, work too: the question is then what verl's fields say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...codec import from_dict, to_dict
from ...data.formats import to_question
from ...data.question_export import to_verl
from ...record import Question

LOOP = "subquest"
"""The name our agent loop is registered under."""


def to_row(question: Question, index: int) -> dict[str, Any]:
    row = to_verl(question, index)
    row["agent_name"] = LOOP
    row["extra_info"]["subquest"] = json.dumps(to_dict(question), ensure_ascii=False)
    return row


def write_rows(questions: Sequence[Question], path: Path) -> None:
    """A `.jsonl` file that verl's dataset reads (`data.train_files`)."""
    lines = (json.dumps(to_row(q, n), ensure_ascii=False) for n, q in enumerate(questions))
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def question_of(row: Mapping[str, Any]) -> Question:
    """The question of a row as an agent loop gets it: columns as arguments, the prompt under `raw_prompt`."""
    known = (row.get("extra_info") or {}).get("subquest")
    if known:
        return from_dict(Question, json.loads(known))
    prompt = row["prompt"] if "prompt" in row else row["raw_prompt"]
    return to_question({**row, "prompt": list(prompt)})
