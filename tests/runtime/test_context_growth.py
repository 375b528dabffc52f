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
    found = bench.sweep((1, 3, 6), (3, 8), (100, 300), articles=800, questions=600, sample=3)
    return {(r.system, r.hops, r.k, r.words): r for r in found}


@pytest.mark.slow
@pytest.mark.parametrize("system", ["coda", "decor", "apex", "hira"])
def test_planner_peak_is_independent_of_document_length_and_of_top_k(readings: dict, system: str) -> None:
    peaks = {readings[system, 4, k, words].peaks["planner"] for k, words in ((3, 100), (3, 300), (8, 100))}
    assert len(peaks) == 1


@pytest.mark.parametrize(("system", "role"), [("coda", "executor"), ("decor", "filter"), ("hira", "search")])
def test_executor_peak_is_independent_of_hops(readings: dict, system: str, role: str) -> None:
    """Sub-questions and titles differ in length by some words; a document has a hundred."""
    peaks = [readings[system, hops, 3, 100].peaks[role] for hops in (1, 3, 6)]
    assert max(peaks) - min(peaks) < 25


def test_the_apex_executor_grows_with_hops_by_known_answers_alone(readings: dict) -> None:
    first, last = (readings["apex", hops, 3, 100].peaks["executor"] for hops in (1, 6))
    assert 0 < last - first < 95  # five more known answers of a line each, and never a document of 100 words


def test_the_monolith_grows_with_everything(readings: dict) -> None:
    def peak(hops: int, k: int, words: int) -> int:
        return int(readings["autorefine", hops, k, words].peak)

    assert peak(6, 3, 100) > 1.8 * peak(3, 3, 100) > 1.8 * 1.8 * peak(1, 3, 100)
    assert peak(4, 8, 100) > 2 * peak(4, 3, 100)
    assert peak(4, 3, 300) > 2 * peak(4, 3, 100)
    assert peak(6, 3, 100) > 3.5 * readings["coda", 6, 3, 100].peak


def test_the_oracle_is_a_function_of_the_visible_context(bench: ModuleType) -> None:
    """The same context gives the same step, whoever asks; a fact that is not shown is not known."""
    from _world_oracle import Oracle, world

    from subquest.engine.interface import Message
    from subquest.engine.scripted import Context
    from subquest.train.facts import facts_of

    _, questions = world(3, 320, 40, (2,))
    question, oracle = questions[0], Oracle(questions)
    first, second = facts_of(question)
    prompt = Message("system", "Plan. <task>sub-question</task> or <answer>answer</answer>")
    asked = Message("user", f"Question: {question.question}")

    def step(*told: str) -> str:
        messages = [prompt, asked, *(Message("user", text) for text in told)]
        return oracle(Context(tuple(messages), "whoever", len(told)))

    assert step() == f"<task>{first.task}</task>"
    assert step(f"Doc 1(Title: {second.support}) {first.answer}") == f"<task>{first.task}</task>"
    assert step(f"Doc 1(Title: {first.support}) {first.answer}") == f"<task>{second.task}</task>"
    assert step(first.note, second.note) == f"<answer>{second.answer}</answer>"


def test_the_plot_is_a_picture_with_a_line_for_each_system(bench: ModuleType, readings: dict) -> None:
    tree = ElementTree.fromstring(bench.picture("Peak", bench.panels(list(readings.values()))))
    lines = tree.findall(".//{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * (len(bench.SYSTEMS) + 1)
    assert all(len(line.attrib["points"].split()) >= 2 for line in lines)


def test_the_table_names_every_role(bench: ModuleType, readings: dict) -> None:
    text = bench.table(list(readings.values()))
    assert "planner" in text
    assert "synthesizer" in text
    assert len(text.splitlines()) == 1 + len(readings)


def test_parallel_branches_save_the_time_they_share(bench: ModuleType) -> None:
    one_by_one = bench.parallel_seconds(0.1, parallel=False, repeats=1)  # never less than the sum of all waits
    tries = (bench.parallel_seconds(0.1, parallel=True, repeats=1) for _ in range(10))  # more on a busy machine
    assert any(one_by_one > 2.5 * together for together in tries)
