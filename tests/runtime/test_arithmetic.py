"""Numbers that follow from others in one step."""

import pytest

from subquest.runtime.arithmetic import follows


@pytest.mark.parametrize(
    ("answer", "sources"),
    [
        ("72 years", ["1889", "1961"]),
        ("54200", ["3200", "51,000 people"]),
        ("1500 mg", ["500 mg", "three"]),
        ("64", ["21 August 1796", "17 August 1861"]),  # before the birthday
        ("129 days", ["9 January 2024", "It closed on May 17, 2024."]),
        ("129", ["from 2024-01-09 to 2024-05-17"]),
        ("26.7", ["4", "15"]),  # percent
        ("20.6", ["34", "41"]),  # growth in percent
        ("6", ["4", "6", "8"]),  # mean
        ("0.412 km", ["412 metres"]),
        ("1352 feet", ["412 m"]),
        ("2 years", ["24 months"]),
        ("68 Fahrenheit", ["20 degrees Celsius"]),
        ("3.2 million", ["3200 thousand"]),
    ],
)
def test_a_number_that_follows(answer: str, sources: list[str]) -> None:
    assert follows(answer.split()[0], answer, sources)


@pytest.mark.parametrize(
    ("answer", "sources"),
    [
        ("73", ["1889", "1961"]),
        ("54300", ["3200", "51,000"]),
        ("4.12 km", ["412 metres"]),
        ("412 kg", ["0.412 kilometres"]),  # another dimension
        ("48", ["9 January 2024", "17 May 2024"]),
        ("7", []),
    ],
)
def test_a_number_that_does_not(answer: str, sources: list[str]) -> None:
    assert not follows(answer.split()[0], answer, sources)
