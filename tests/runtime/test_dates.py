"""Dates as texts write them, and days that follow from them."""

from datetime import date

import pytest

from subquest.runtime.dates import date_of, dates_in, day_follows, days_in, with_years_alone
from subquest.runtime.normalization import compared_words
from subquest.runtime.table_queries import only_computes

WRITTEN = [
    "17 May 2024",
    "17th of May 2024",
    "17 may, 2024",
    "May 17, 2024",
    "May 17th 2024",
    "2024-05-17",
    "17.05.2024",
    "17.5.2024",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_one_day_in_all_its_forms(text: str) -> None:
    assert date_of(text) == (2024, 5, 17)
    assert days_in(f"It was sent on {text}, and read.") == [date(2024, 5, 17)]
    assert days_in(" ".join(compared_words(text))) == [date(2024, 5, 17)]
    assert only_computes(f"How many days are there from {text} to 1 June 2024?")


def test_months_and_years_alone() -> None:
    assert dates_in("From Sept. 2019 to March 2021, and again in 1889-1931.") == [
        (2019, 9, 0),
        (2021, 3, 0),
        (1889, 0, 0),
        (1931, 0, 0),
    ]
    assert date_of("1931") == (1931, 0, 0)
    assert date_of("1931 people") == ()


@pytest.mark.parametrize("text", ["05/04/2024", "KVT-2019", "1,931 euros", "2024.5 metres", "31 February 2024"])
def test_what_is_no_day(text: str) -> None:
    assert days_in(text) == []


def test_the_day_of_a_date_is_no_number() -> None:
    assert with_years_alone("17 May 2024").split() == ["2024"]


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("14 May 2025", ["14 April 2025", "30 days"]),
        ("2025-05-14", ["The invoice was sent on April 14, 2025.", "within thirty days, or 30 days"]),
        ("26 May 2025", ["14 April 2025", "six weeks"]),
        ("3 March 2025", ["14 April 2025", "6 weeks"]),
        ("28 February 2025", ["31 January 2025", "a month"]),
        ("3 September 2026", ["3 March 2025", "18 months"]),
        ("2 September 2026", ["3 March 2025", "18 months"]),  # its last day
        ("29 February 2028", ["29 February 2024", "four years"]),
        ("Monday", ["14 April 2025"]),
    ],
)
def test_a_day_that_follows(text: str, sources: list[str]) -> None:
    assert day_follows(text, sources)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("15 May 2025", ["14 April 2025", "30 days"]),
        ("25 May 2025", ["14 April 2025", "six weeks"]),  # weeks end on their day
        ("28 April 2025", ["14 April 2025", "14 working days"]),
        ("14 May 2025", ["14 April 2025"]),
        ("Tuesday", ["14 April 2025"]),
        ("Monday", ["14 April 2025", "15 April 2025"]),  # of which of them?
        ("May 2025", ["14 April 2025", "30 days"]),
    ],
)
def test_a_day_that_does_not(text: str, sources: list[str]) -> None:
    assert not day_follows(text, sources)
