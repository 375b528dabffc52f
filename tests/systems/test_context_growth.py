"""CoDA's section 3.4 measured: what planners see does not grow with documents, what executors see not with hops."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

pytest.importorskip("numpy", reason="the index needs numpy")

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    sys.path.insert(0, str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location("context_benchmark", BENCHMARKS / "context.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def readings(bench: ModuleType) -> dict:
    found = bench.sweep((1, 3, 6), (3, 8), (100, 300), chains=10)
    return {(r.system, r.hops, r.k, r.words): r for r in found}


@pytest.mark.parametrize("system", ["coda", "decor", "apex"])
def test_planner_peak_is_independent_of_document_length_and_of_top_k(readings: dict, system: str) -> None:
    peaks = {readings[system, 4, k, words].peaks["planner"] for k, words in ((3, 100), (3, 300), (8, 100))}
    assert len(peaks) == 1


@pytest.mark.parametrize(("system", "role"), [("coda", "executor"), ("decor", "filter")])
def test_executor_peak_is_independent_of_hops(readings: dict, system: str, role: str) -> None:
    assert len({readings[system, hops, 3, 100].peaks[role] for hops in (1, 3, 6)}) == 1


def test_the_apex_executor_grows_with_hops_by_known_answers_alone(readings: dict) -> None:
    first, last = (readings["apex", hops, 3, 100].peaks["executor"] for hops in (1, 6))
    assert 0 < last - first <= 5 * 12  # five more known answers of a line each, and never a document of 100 words


def test_the_monolith_grows_with_everything(readings: dict) -> None:
    def peak(hops: int, k: int, words: int) -> int:
        return int(readings["autorefine", hops, k, words].peak)

    assert peak(6, 3, 100) > 1.8 * peak(3, 3, 100) > 1.8 * 1.8 * peak(1, 3, 100)
    assert peak(4, 8, 100) > 2 * peak(4, 3, 100)
    assert peak(4, 3, 300) > 2 * peak(4, 3, 100)
    assert peak(6, 3, 100) > 4 * readings["coda", 6, 3, 100].peak


def test_the_plot_is_a_picture_with_a_line_for_each_system(bench: ModuleType, readings: dict) -> None:
    tree = ElementTree.fromstring(bench.svg("Peak", bench.panels(list(readings.values()))))
    lines = tree.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * (len(bench.SYSTEMS) + 1)
    assert all(len(line.attrib["points"].split()) >= 2 for line in lines)


def test_the_table_names_every_role(bench: ModuleType, readings: dict) -> None:
    text = bench.table(list(readings.values()))
    assert "planner" in text
    assert "synthesizer" in text
    assert len(text.splitlines()) == 1 + len(readings)


def test_parallel_branches_save_the_time_they_share(bench: ModuleType) -> None:
    assert bench.parallel_seconds(0.05, parallel=False, repeats=1) > 2.5 * bench.parallel_seconds(0.05, parallel=True)
