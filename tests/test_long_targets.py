"""The long targets of the Makefile in their smallest form, so that a change that breaks one shows in `make test`.

`make docs` is in `test_packaging`, `make demo` in `cli/test_demo`, `make parity` in `parity/test_recorded`; some
benchmarks have tests of their own.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from subquest.cli.bench import benchmarks
from subquest.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]


def loaded(path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A script as a module, gone when the test is over."""
    name = f"long_target_{path.stem}"
    spec = importlib.util.spec_from_loader(name, SourceFileLoader(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.syspath_prepend(str(path.parent))
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(benchmarks()))
def test_every_benchmark_starts(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        loaded(benchmarks()[name], monkeypatch).main(["--help"])
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out


@pytest.mark.slow
def test_a_short_soak(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = loaded(ROOT / "benchmarks" / "soak.py", monkeypatch)
    monkeypatch.setattr(soak, "SLACK", dict.fromkeys(soak.SLACK, 1000.0))  # in so few seconds caches only fill
    figures = soak.main(["--minutes", "0.25", "--clients", "6", "--latency", "0.02"])["figures"]
    assert figures["verdict"]["nothing lost"]
    assert figures["accepted"] >= figures["answered"] > 0
    assert {"ask", "4 searches", "upload", "delete"} <= figures["done"].keys()
    assert figures["retries"]  # the restarts were noticed, by a retry and no more


@pytest.mark.slow
def test_what_fits_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fits = loaded(ROOT / "benchmarks" / "fits.py", monkeypatch)
    step = fits.Optimiser.policy_step

    def small_device(optimiser: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
        if optimiser.policy.lora is None and batch.token_ids.numel() > 50:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return step(optimiser, batch, *args, **kwargs)

    monkeypatch.setattr(fits.Optimiser, "policy_step", small_device)
    options = ["--device", "cpu", "--shapes", "tiny", "--ranks", "4,0", "--micro-tokens", "24,80"]
    figures = fits.main([*options, "--save", str(tmp_path / "fits.json")])
    rows = figures["figures"]["rows"]
    assert json.loads((tmp_path / "fits.json").read_text())["figures"]["rows"] == rows
    sizes = [(row["rank"], row["micro_tokens"], row["checkpointing"]) for row in rows]
    assert sizes == [(r, t, c) for r in (4, 0) for t in (24, 80) for c in (False, True)]
    fitting = [row["peak_gb"] is not None for row in rows]
    assert fitting == [True] * 6 + [False] * 2
    assert all(row["peak_gb"] > 0 for row in rows[:6])
    assert all(row["tokens_s"] == pytest.approx(row["micro_tokens"] / row["seconds"]) for row in rows[:6])
    assert fits.cells(rows[-1])[4] == "out of memory"
    assert len(figures["ratios"]) == 6
    assert {name.rpartition(", ")[2] for name in figures["ratios"]} == {"memory", "time"}
    with pytest.raises(UsageError, match="there is no shape '9b'"):
        fits.main(["--shapes", "9b"])


def test_what_a_soak_calls_flat(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = loaded(ROOT / "benchmarks" / "soak.py", monkeypatch)
    saw = [10.0, 12.0] * 50
    assert abs(soak.growth_of(saw)) < 0.1
    assert soak.growth_of([2.0, 4.0, 6.0, 8.0]) == pytest.approx(6.0)
    assert soak.grown([10.0, 11.0, 12.0]) == pytest.approx(1.2)

    def flat(name: str, values: list[float]) -> bool:
        return bool(soak.is_flat(name, [soak.Sample(*[value] * 6) for value in values]))

    assert flat("memory_mb", [100.0 + 4 * (n % 2) for n in range(100)])
    assert not flat("memory_mb", [100.0 + 0.2 * n for n in range(100)])
    assert flat("descriptors", [50.0] * 99 + [90.0])
    assert not flat("threads", [10.0 + n / 10 for n in range(100)])


@pytest.mark.slow
def test_one_picture_of_each_colour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="the browser's driver is not installed")
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    script = loaded(ROOT / "scripts" / "screenshots", monkeypatch)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "IMAGES", tmp_path / "images")
    monkeypatch.setattr(script, "ARTICLES", 160)
    monkeypatch.setattr(script, "QUESTIONS", 8)
    script.main(["run"])
    pictures = sorted((tmp_path / "images").iterdir())
    assert [picture.name for picture in pictures] == ["run-dark.png", "run-light.png"]


def test_every_target_is_accounted_for() -> None:
    """A new target of the Makefile needs a smallest form too, here or in a test of its own."""
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tested = {"demo", "bench", "docs", "soak", "screenshots", "parity", "fuzz"}
    assert set(targets.split()) - tested == {"test", "quick", "lint", "format", "install", "web", "clean"}
