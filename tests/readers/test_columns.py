"""What the cells of a column hold."""

from __future__ import annotations

import pytest

from subquest.readers.columns import date_in, same_value


@pytest.mark.parametrize(
    ("cell", "day"),
    [
        ("2024-05-17", "2024-05-17"),
        ("17 May 2024", "2024-05-17"),
        ("17th May, 2024", "2024-05-17"),
        ("May 17, 2024", "2024-05-17"),
        ("3 Sept. 2024", None),
        ("3 Sep. 2024", "2024-09-03"),
        ("17.5.2024", "2024-05-17"),
        ("05/04/2024", None),
        ("31 April 2024", None),
        ("17 May 2024, noon", None),
        ("2024", None),
        ("", None),
    ],
)
def test_dates(cell: str, day: str | None) -> None:
    assert date_in(cell) == day


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("4421", "€4,421", True),
        ("129.0", "129", True),
        ("2026-03-02", "2 March 2026", True),
        ("Kelm  Yard", "kelm yard", True),
        ("4421", "4420", False),
        ("007", "7", False),
    ],
)
def test_values_that_are_written_differently(one: str, other: str, same: bool) -> None:
    assert same_value(one, other) is same
