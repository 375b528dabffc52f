"""The values in a row of a question file: texts, numbers and lists, in all the ways that files write them."""

from __future__ import annotations

import ast
import hashlib
import json
import math
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

from ..errors import DataError
from ..record import Step

Row = Mapping[str, Any]


def as_json(value: Any) -> Any:
    """A value that JSON can hold: parquet has dates, bytes and NaN for missing numbers, JSON has lone surrogates."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(inner) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, bytes) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def required_text(row: Row, field: str) -> str:
    value = row[field]
    if not isinstance(value, str):
        raise DataError(f"{field!r} must be a text, not {value!r:.60}")
    return value.strip()


def optional_text(row: Row, field: str) -> str:
    """A text that may be absent; a number becomes its text, a list of texts one text."""
    value = row.get(field)
    if isinstance(value, list):
        return ", ".join(texts_of(value, field))
    if not isinstance(value, str | int | float | None):
        raise DataError(f"'{field}' must be a text, not {value!r:.60}")
    return "" if value is None else _written(value)


def hops_of(value: Any) -> int | None:
    """A number of hops; tables write it as a text or, where some rows have none, as 2.0."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str | int | float) and float(value) == int(float(value)):
            return int(float(value))
    except (ValueError, OverflowError):
        pass
    raise DataError(f"'hops' must be a whole number, not {value!r:.60}")


def texts_of(values: Any, name: str) -> tuple[str, ...]:
    """A list of texts; numbers, as ids are in many files, become texts, and one text alone is a list of one."""
    if values is None or values == "":
        return ()
    if isinstance(values, str):
        values = _unquoted(values)
    if isinstance(values, str):
        return (values,)
    if not isinstance(values, list | tuple) or not all(type(value) in (str, int) for value in values):
        raise DataError(f"'{name}' must be a list of texts")
    return tuple(map(str, values))


def answers_of(value: Any) -> tuple[str, ...]:
    """Gold answers: one, a list, or the hub's objects (SQuAD's `text`, TriviaQA's `value` and `aliases`)."""
    if isinstance(value, Mapping):
        if not value.keys() & {"text", "value", "aliases"}:
            raise DataError(f"the gold answers are an object ({', '.join(map(str, value))}): give a list of texts")
        value = [*_listed(value.get("value")), *_listed(value.get("text")), *_listed(value.get("aliases"))]
    values = _listed(_unquoted(value) if isinstance(value, str) else value)
    if odd := next((v for v in values if isinstance(v, Mapping | list | tuple)), None):
        raise DataError(f"a gold answer is a text, not {odd!r:.60}")
    texts = (_written(v) for v in values if v is not None)
    return tuple(dict.fromkeys(t for t in texts if t))


def steps_of(steps: Any) -> tuple[Step, ...]:
    """A gold decomposition: objects with a question, or the questions alone, as StrategyQA has them."""
    if steps is None or steps == "":
        return ()
    if not isinstance(steps, list | tuple):
        raise DataError(f"'decomposition' must be a list of steps, not {steps!r:.60}")
    return tuple(_step({"question": step} if isinstance(step, str) else step) for step in steps)


def _step(step: Any) -> Step:
    if not isinstance(step, Mapping) or not isinstance(step.get("question"), str):
        raise DataError(f"a step of 'decomposition' must be a question or an object with one, not {step!r:.60}")
    return Step(step["question"], str(step.get("answer") or ""), str(step.get("support") or ""))


def loaded(value: Any) -> Any:
    """A list that may be written as JSON text, as in some sets on the hub."""
    if isinstance(value, str):
        value = json.loads(value) if value.strip() else None
    return value or []


def parts_of(item: Any, *names: str) -> list[Any]:
    """The parts of a list in order, or of an object by name."""
    return [item.get(name) for name in names] if isinstance(item, Mapping) else list(item)


def id_of(given: Any, text: Any) -> str:
    """The row's own id, or one made from the question's text."""
    return str(given) if given not in (None, "") else hashlib.sha256(str(text).encode()).hexdigest()[:16]


def _written(value: Any) -> str:
    """A value as people write it: 1994.0, which tables with gaps contain, is 1994, and true is yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _unquoted(text: str) -> Any:
    """A list of texts where a table's cell holds one, as JSON or as Python writes it; else the text itself."""
    if not (text.lstrip().startswith("[") and text.rstrip().endswith("]")):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        try:
            found = ast.literal_eval(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return text
    return found if isinstance(found, list) and found and all(isinstance(v, str) for v in found) else text


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
