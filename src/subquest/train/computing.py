"""Computations at the end of a gold plan: the task that hands one to an executor, and the SQL that carries it out.

Models that compute in their heads are often wrong (the days between two dates, sums of long numbers); SQLite is not.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from ..record import Question
from .conclusions import Measure, measure

CALCULATION = "calculation"
"""The type of questions that nobody should answer without computing."""
COMPUTED = frozenset({"sum", "difference", "days", "product", "before", "after"})
"""Operations over results that are a computation."""
_TASKS = {
    "sum": ("How much is {0} + {1}?", "What do {0} and {1} come to together?"),
    "difference": ("How much is {0} - {1}?", "By how much is {0} more than {1}?"),
    "product": ("How much is {1} × {0}?", "How much is {0} times {1}?"),
    "days": ("How many days lie between {0} and {1}?", "How many days are there from {0} to {1}?"),
    "before": ("Which date is {1} days before {0}?", "What is the date {1} days before {0}?"),
    "after": ("Which date is {1} days after {0}?", "What is the date {1} days after {0}?"),
}
_QUERIES = {
    "sum": "{0} + {1}",
    "difference": "{0} - {1}",
    "product": "{0} * {1}",
    "days": "julianday('{1}') - julianday('{0}')",
    "before": "date('{0}', '-{1} days')",
    "after": "date('{0}', '+{1} days')",
}


_RESULTS = {
    "sum": "{0} + {1} = {answer}",
    "difference": "{0} - {1} = {answer}",
    "product": "{1} × {0} = {answer}",
    "days": "{answer} days lie between {0} and {1}.",
    "before": "{answer} is {1} days before {0}.",
    "after": "{answer} is {1} days after {0}.",
}


class Computation(NamedTuple):
    task: str
    sql: str
    result: str
    """What the executor reports."""
    steps: tuple[int, ...]
    """The steps, from 1, whose results it uses."""


def needs_computing(question: Question) -> bool:
    """Whether the answer is computed from what the steps find."""
    return str((question.meta.get("operation") or ("",))[0]) in COMPUTED


def computation(question: Question, results: Sequence[str]) -> Computation | None:
    """The computation that the answer needs, from the results of the steps; None if it needs none, or if a result has
    no number."""
    if not needs_computing(question):
        return None
    name, *operands = question.meta["operation"]
    steps = tuple(given for given in operands if isinstance(given, int))
    told = [results[given - 1] if isinstance(given, int) else str(given) for given in operands]
    values = [measure(text) for text in told]
    known: list[Measure] = [value for value in values if value is not None]
    if len(known) < len(told):
        return None
    if name == "days" and known[0].key > known[1].key:
        told, known = told[::-1], known[::-1]
    query = _QUERIES[name].format(*(value.shown for value in known))
    return Computation(
        random.Random(question.id).choice(_TASKS[name]).format(*told),
        f"SELECT {query}",
        _RESULTS[name].format(*told, answer=question.answers[0]),
        steps,
    )
