"""English words whatever the locale is."""

from __future__ import annotations

import ast
import re
from datetime import date
from pathlib import Path

import pytest

from subquest.english import MONTHS, WEEKDAYS, counted, day_in_words

SOURCE = Path(__file__).parents[1] / "src" / "subquest"


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [
        (1, "document", "1 document"),
        (0, "document", "0 documents"),
        (12345, "gold trace", "12,345 gold traces"),
        (2, "query", "2 queries"),
        (2, "day", "2 days"),
        (1, "search", "1 search"),
        (2, "search", "2 searches"),
        (3, "process", "3 processes"),
    ],
)
def test_a_number_with_its_noun(count: int, noun: str, text: str) -> None:
    assert counted(count, noun) == text


def test_a_day_with_its_month_in_words() -> None:
    assert day_in_words(date(2024, 5, 7)) == "7 May 2024"
    assert day_in_words(date(1999, 12, 31)) == "31 December 1999"


def test_names_are_in_the_order_of_datetime() -> None:
    assert MONTHS[date(2026, 11, 18).month - 1] == "November"
    assert WEEKDAYS[date(2026, 11, 18).weekday()] == "Wednesday"


def test_no_module_asks_the_locale_for_names_of_months_and_days() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Attribute) and re.fullmatch("(?:month|day)_(?:name|abbr)", node.attr))
        or (isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search("%-?[AaBbcpXx]", node.value))
    ]
    assert found == []
