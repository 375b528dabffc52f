"""Choosing questions by what is known about them: `hops>=3`, `type=bridge`, `lang!=zh`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from typing import Any

from ..errors import UsageError, suggest
from ..record import Question

_EXPRESSION = re.compile(r"\s*(\w+)\s*([<>=!]+)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq, "=": operator.eq,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip

_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_FIELDS = frozenset(field.name for field in fields(Question)) - {"meta"}


def select(questions: Sequence[Question], expression: str) -> list[Question]:
    """Those of which a field is as the expression says; raises a UsageError where no question has such a field."""
    field = _parsed(expression)[0]
    known = {*_FIELDS, *(key for question in questions for key in question.meta)}
    if questions and field not in known:
        raise UsageError(f"filter {expression!r}: no question has a field {field!r}; {suggest(field, sorted(known))}")
    return [question for question in questions if _passes(question, expression)]


def _passes(question: Question, expression: str) -> bool:
    """Whether a field of the question, or of its meta, is as the expression says; one that is not known never is."""
    field, sign, wanted = _parsed(expression)
    value = getattr(question, field) if field in _FIELDS else question.meta.get(field)
    if value is None:
        return False
    if isinstance(value, bool):
        if wanted.casefold() not in _TRUTHS:
            raise UsageError(f"filter {expression!r}: {field} is true or false")
        return _COMPARE[sign](value, _TRUTHS[wanted.casefold()])
    if isinstance(value, int | float):
        try:
            return _COMPARE[sign](value, float(wanted))
        except ValueError:
            raise UsageError(f"filter {expression!r}: {field} is a number") from None
    if sign[0] in "<>":  # cells of a table are texts: 9 is below 10 there too
        with suppress(ValueError):
            return _COMPARE[sign](float(str(value)), float(wanted))
    return _COMPARE[sign](str(value), wanted)


def _parsed(expression: str) -> tuple[str, str, str]:
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise UsageError(f"filter {expression!r}: write FIELD OPERATOR VALUE, such as hops>=3")
    field, sign, wanted = match.groups()
    if sign not in _COMPARE:
        raise UsageError(f"filter {expression!r}: there is no operator {sign!r}; there are {', '.join(_COMPARE)}")
    return field, sign, wanted
