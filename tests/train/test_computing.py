"""Computations at the end of a plan, carried out by SQLite and compared with numbers worked out by hand."""

from __future__ import annotations

import pytest

from subquest.readers.columns import same_value
from subquest.record import Question
from subquest.retrieval.tables import compute
from subquest.runtime.table_queries import only_computes
from subquest.train.computing import computation, needs_computing


@pytest.mark.parametrize(
    ("operation", "results", "answer", "sql"),
    [
        (["sum", 1, 2], ["€15,805", "€1,440"], "€17,245", "SELECT 15805 + 1440"),
        (["difference", 2, 3], ["NRD-E61", "£34,200", "£9,160"], "£25,040", "SELECT 34200 - 9160"),
        (["product", 1, "3"], ["€32,150"], "€96,450", "SELECT 32150 * 3"),
        (
            ["days", 1, 2], ["17 May 2024", "9 January 2024"], "129",
            "SELECT julianday('2024-05-17') - julianday('2024-01-09')",
        ),
        (["before", 1, 2], ["1 May 2026", "60"], "2 March 2026", "SELECT date('2026-05-01', '-60 days')"),
        (["after", "3 May 2025", 1], ["34"], "6 June 2025", "SELECT date('2025-05-03', '+34 days')"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("id", ["a", "b", "c"])
def test_what_is_computed(id: str, operation: list[str | int], results: list[str], answer: str, sql: str) -> None:
    asked = computation(Question(id, "?", (answer,), meta={"operation": operation}), results)
    assert asked is not None
    assert asked.sql == sql
    assert only_computes(asked.task), asked.task
    ((value,),) = compute(asked.sql).rows
    assert same_value(value, answer)
    assert answer in asked.result
    assert asked.steps == tuple(n for n in operation if isinstance(n, int))


def test_nothing_to_compute() -> None:
    assert not needs_computing(Question("a", "?", ("x",)))
    assert computation(Question("a", "?", ("x",), meta={"operation": ["last"]}), ["x"]) is None
    assert computation(Question("a", "?", ("£3",), meta={"operation": ["sum", 1, 2]}), ["£1", "unknown"]) is None
