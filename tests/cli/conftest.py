"""A small corpus, an index of it and a script that answers a two-hop question, for commands."""

import json
from pathlib import Path

import pytest

from subquest import Index

from ..systems.fakes import DOCUMENTS

SCRIPT = [
    ("planner", "<think>The designer first.</think><task>Who designed the Orvane Bridge?</task>"),
    ("planner", "<task>Where was Mila Torrun born?</task>"),
    ("planner", "<answer>Kestel</answer>"),
    ("executor", "<search>Orvane Bridge designer</search>"),
    ("executor", "<refine>It was Mila Torrun.</refine><result>Mila Torrun</result>"),
    ("executor", "<search>Mila Torrun born</search>"),
    ("executor", "<refine>She was born in Kestel.</refine><result>Kestel</result>"),
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with `docs.sq` and `script.jsonl`."""
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Index.build(tmp_path / "docs.sq", DOCUMENTS).close()
    monkeypatch.setenv(
        "SUBQUEST_CACHE", str(tmp_path / "cache")
    )  # after the index: its kernel is compiled into the cache
    monkeypatch.delenv("SUBQUEST_SMOLLM2", raising=False)
    lines = [json.dumps({"role": role, "reply": reply}) for role, reply in SCRIPT]
    (tmp_path / "script.jsonl").write_text("\n".join(lines))
    return tmp_path
