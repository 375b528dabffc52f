"""The long targets of the Makefile in their smallest form, so that a change that breaks one shows in `make test`.

`make docs` is in `test_packaging`, `make demo` in `cli/test_demo`, `make parity` in `parity/test_recorded`; some
benchmarks have tests of their own.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest

from subquest.cli.bench import benchmarks

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
    seen: list[list[tuple[float, float]]] = []

    def judged(memory: list[tuple[float, float]]) -> dict[str, object]:
        seen.append(memory)
        return {"flat": True, "growth": 1.0}  # in three seconds caches only fill

    monkeypatch.setattr(soak, "judged", judged)
    figures = soak.main(["--minutes", "0.05", "--clients", "2"])["figures"]
    assert figures["exit"] == 0
    assert sum(figures["done"].values()) > 0
    assert all(size > 1 for _, size in seen[0])


@pytest.mark.slow
def test_one_picture_of_each_colour(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("playwright", reason="the browser's driver is not installed")
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    script = loaded(ROOT / "scripts" / "screenshots", monkeypatch)
    monkeypatch.setattr(script, "ROOT", tmp_path)
    monkeypatch.setattr(script, "IMAGES", tmp_path / "images")
    script.main(["run"])
    pictures = sorted((tmp_path / "images").iterdir())
    assert [picture.name for picture in pictures] == ["run-dark.png", "run-light.png"]


def test_every_target_is_accounted_for() -> None:
    """A new target of the Makefile needs a smallest form too, here or in a test of its own."""
    (targets,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    tested = {"demo", "bench", "docs", "soak", "screenshots", "parity"}
    assert set(targets.split()) - tested == {"test", "quick", "lint", "format", "install", "web", "clean"}
