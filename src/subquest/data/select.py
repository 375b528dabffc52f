"""Choosing questions by what is known about them: `hops>=3`, `type=bridge`, `lang!=zh`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from ..errors import UsageError
from ..record import Question

_EXPRESSION = re.compile(r"\s*(\w+)\s*(>=|<=|!=|==|=|>|<)\s*(.+?)\s*")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "!=": operator.ne, "==": operator.eq, "=": operator.eq,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip


def passes(question: Question, expression: str) -> bool:
    """Whether a field of the question, or of its meta, is as the expression says; one that is not known never is."""
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise UsageError(f"filter {expression!r}: write FIELD OPERATOR VALUE, such as hops>=3")
    field, sign, wanted = match.groups()
    value = getattr(question, field, None) if hasattr(type(question), field) else question.meta.get(field)
    if value is None:
        return False
    if isinstance(value, int | float):
        try:
            return _COMPARE[sign](value, float(wanted))
        except ValueError:
            raise UsageError(f"filter {expression!r}: {field} is a number") from None
    return _COMPARE[sign](str(value), wanted)
