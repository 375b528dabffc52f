"""`subquest bench search-quality` with a judge, on a corpus of four passages."""

from __future__ import annotations

import gzip
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from subquest import assemble
from subquest.engine.interface import Message
from subquest.errors import UsageError

BENCHMARK = Path(__file__).resolve().parents[2] / "benchmarks" / "search_quality.py"
PASSAGES = {
    "a": "The bridge was built by Mira.",
    "b": "The bridge is long.",
    "c": "Mira was born in Oslo.",
    "d": "Rain.",
}
QUESTION = {"question": "Where was the builder of the bridge born?", "supporting_ids": ["a", "c"]}


class Sure:
    """A judge that is for Mira."""

    name, context_window = "sure", None
    asked = 0

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        Sure.asked += len(prompts)
        return [(0.0, -9.0, -9.0, -9.0) if "Mira" in p[-1].content else (-9.0, -9.0, 0.0, -9.0) for p in prompts]

    async def close(self) -> None:
        pass


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("search_quality", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    Sure.asked = 0
    monkeypatch.setattr(assemble, "open_engine", lambda spec, options: Sure())
    return module


def written(path: Path, lines: Sequence[Any]) -> None:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("musique", "hotpotqa"):
        written(tmp_path / f"{name}_corpus.jsonl.gz", [{"id": i, "title": "", "text": t} for i, t in PASSAGES.items()])
        written(tmp_path / f"{name}_test500.jsonl.gz", [QUESTION])
    return tmp_path


def test_a_judge_is_asked_once(bench: ModuleType, data: Path, tmp_path: Path) -> None:
    command = ["--data", str(data), "--sets", "musique,hotpotqa", "--encoder", "none", "--judge", "sure:"]
    command += ["--verdicts", str(tmp_path / "verdicts.jsonl")]
    first = bench.main(command)
    asked = Sure.asked
    assert asked >= 2 * 3  # the passages that search finds, of two sets
    rows = first["figures"]["musique"]
    assert rows["bm25, judged, trust 0.7"] == {"R@2": 100.0, "R@5": 100.0}
    tuned = bench.main([*command, "--tune"])["figures"]
    assert Sure.asked == asked
    assert tuned["mean"]["bm25, judged, trust 1.0"] == {"R@2": 100.0, "R@5": 100.0}
    assert tuned["mean"]["bm25"] == rows["bm25"] == tuned["musique"]["bm25, judged, trust 0.0"]
    with pytest.raises(UsageError, match="verdicts of another judge"):
        bench.main([*command, "--judge", "other:"])
    (other := tmp_path / "other.gguf").write_bytes(b"other weights")
    with pytest.raises(UsageError, match="verdicts of another judge"):
        bench.main([*command, "--adapter", str(other)])


def test_what_is_reranked_can_be_named(bench: ModuleType, data: Path) -> None:
    command = ["--data", str(data), "--sets", "musique", "--encoder", "none", "--judge", "sure:"]
    rows = bench.main([*command, "--reranked", "bm25"])["figures"]["musique"]
    assert [name for name in rows if "judged" in name] == ["bm25, judged, trust 0.7"]


def test_facts_of_a_world(bench: ModuleType) -> None:
    spec = "world:seed=931,articles=160,questions=20,hops=2"
    found = bench.main(["--worlds", spec])["figures"][spec]
    assert 50 < found["bm25"] <= found["auto"] <= 100


def test_means(bench: ModuleType) -> None:
    figures = {"x": {"a": {"R@2": 1.0}, "b": {"R@2": 5.0}}, "y": {"a": {"R@2": 2.0}}}
    assert bench.means(figures) == {"a": {"R@2": 1.5}}
