"""Stored results: what is kept, when it counts as done, and what the page makes of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from subquest.claims.book import Arm, Book, Claim, Curve, Row, Source
from subquest.claims.page import Page, bootstrap
from subquest.claims.results import Results, digest, unit_of

ARM = Arm("coda@none", "coda", {"": "none"})
IDS = ["a", "b", "c", "d"]


def unit(*em: float, source: str = "world"):
    scores = [{"em": v, "f1": v / 2, "searches": float(n)} for n, v in enumerate(em)]
    return unit_of(source, IDS[: len(em)], [1, 2, 3, 4][: len(em)], scores)


def test_a_unit_keeps_metrics_by_question_and_costs_as_means(tmp_path: Path) -> None:
    Results(tmp_path).add(ARM, "world-1", unit(1, 0, 1, 1), "w")
    found = Results(tmp_path).arm(ARM)
    assert found is not None
    stored = found.units["world-1"]
    assert stored.metric("em") == [1, 0, 1, 1]
    assert stored.metric("f1", hops=3) == [0.5, 0.5]
    assert stored.means == {"searches": 1.5}


def test_done_depends_on_definition_weights_and_questions(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add(ARM, "world-1", unit(1, 0), "w")
    asked = digest("a", "b")
    assert Results(tmp_path).done(ARM, "world-1", asked, "w")
    assert not results.done(ARM, "world-2", asked, "w")
    assert not results.done(ARM, "world-1", digest("a", "c"), "w")
    assert not results.done(ARM, "world-1", asked, "other")
    assert not results.done(replace(ARM, settings={"k": 5}), "world-1", asked, "w")


def test_other_weights_begin_an_arm_anew(tmp_path: Path) -> None:
    results = Results(tmp_path)
    results.add(ARM, "world-1", unit(1, 0), "w")
    results.add(ARM, "world-2", unit(1, 1), "v")
    found = Results(tmp_path).arm(ARM)
    assert found is not None
    assert list(found.units) == ["world-2"]


def made(tmp_path: Path, **changes: object) -> tuple[Book, Results]:
    other = replace(ARM, id="rag@none", system="rag")
    claim = Claim(
        "hierarchy", "CoDA", "Table 2", "it is better", setting="a large model", costs=("searches",),
        row=(Row("CoDA", "coda@none", {"world": 0.407}), Row("RAG", "rag@none")), expect=(("CoDA", "RAG"),),
        curve=(Curve("peco", ("f1",)),),
    )  # fmt: skip
    source = Source("world", "world:seed=1")
    book = Book({"world": source}, {ARM.id: ARM, other.id: other}, {}, (replace(claim, **changes),), tmp_path)
    return book, Results(tmp_path)


def test_the_page_says_what_was_not_run(tmp_path: Path) -> None:
    text = Page(*made(tmp_path)).text()
    assert "| CoDA | *not run* [0.407] |  |" in text
    assert "| CoDA, Table 2 | it is better | *not run* |" in text
    assert "Training `peco`: *not run*" in text


def test_the_page_compares_question_by_question(tmp_path: Path) -> None:
    book, results = made(tmp_path)
    results.add(book.arms["coda@none"], "world", unit(1, 1, 1, 1), "w")
    results.add(book.arms["rag@none"], "world", unit(0, 0, 0, 0), "w")
    results.keep_curve("peco", {"f1": [(1, 0.25), (2, 0.5)]})
    text = Page(book, results).text()
    assert "| CoDA | 1.000 (1.000–1.000; 4) [0.407] | 1.500 |" in text
    assert "CoDA − RAG: worlds +1.000 (+1.000 to +1.000): holds" in text
    assert "| it is better | holds 1 |" in text
    assert "| F1 | 0.250 | 0.500 |" in text


def test_only_questions_of_enough_hops_count(tmp_path: Path) -> None:
    book, results = made(tmp_path, hops=3)
    results.add(book.arms["coda@none"], "world", unit(0, 0, 1, 1), "w")
    assert "| CoDA | 1.000 (1.000–1.000; 2) [0.407] |" in Page(book, results).text()


def test_by_hops(tmp_path: Path) -> None:
    book, results = made(tmp_path, by_hops=True)
    results.add(book.arms["coda@none"], "world", unit(0, 1, 0, 1), "w")
    assert "| CoDA | 0.000 | 1.000 | 0.000 | 1.000 |  |  | 0.500 (" in Page(book, results).text()


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = [1.0] * 300 + [0.0] * 700
    found = bootstrap(values)
    wide = 1.96 * (0.3 * 0.7 / 1000) ** 0.5
    assert (found.mean, found.n) == (0.3, 1000)
    assert found.low == pytest.approx(0.3 - wide, abs=0.004)
    assert found.high == pytest.approx(0.3 + wide, abs=0.004)
