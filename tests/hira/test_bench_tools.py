"""The tools benchmark on a few questions: the oracle is right in every seat."""

import asyncio
import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "benchmarks" / "tools.py"


@pytest.mark.slow
def test_the_oracle_answers_in_every_system(monkeypatch):
    monkeypatch.syspath_prepend(str(FILE.parent))
    monkeypatch.setenv("SUBQUEST_ALLOW_HOSTS", "")
    spec = importlib.util.spec_from_file_location("bench_tools", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_tools", module)
    spec.loader.exec_module(module)
    table = asyncio.run(module.compare(3))
    assert {name: row["right"] for name, row in table.items()} == dict.fromkeys(module.SYSTEMS, 1.0)
    assert table["hira"]["interactions"] == table["webthinker"]["interactions"]
    assert table["react-tools"]["main_context"] > table["hira"]["main_context"]
