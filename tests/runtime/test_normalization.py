"""Numbers as words: what is the same number, and what does not stand in it."""

import pytest

from subquest.runtime.normalization import compared_words, folded_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3,200 people", ["3200", "people"]),
        ("$3,200", ["3200"]),
        ("3\u202f200 and 3\u00a0200", ["3200", "and", "3200"]),
        ("1,234.56", ["1234.56"]),
        ("1.234.567,5", ["1234567.5"]),
        ("2.5 or 2.50 or 2,5", ["2.5", "or", "2.5", "or", "2.5"]),
        ("3.200", ["3.200"]),
        ("10%", ["10", "percent"]),
        ("1914–1918, 1914-18", ["1914", "1918", "1914", "18"]),
        ("1,2,3", ["1", "2", "3"]),
        ("on 2024-05-17", ["on", "2024", "-05", "-17"]),
        ("17.5.2024", ["2024", "-05", "-17"]),
        ("2024-99-17", ["2024", "99", "17"]),
        ("version 1.2.3", ["version", "1.2.3"]),
        ("-5 and (\u22125) and 3-5", ["-5", "and", "-5", "and", "3", "5"]),
        ("In 1914. Then", ["in", "1914", "then"]),
        ("约3,200人", ["约", "3200", "人"]),
    ],
)
def test_a_number_is_one_word(text: str, words: list[str]) -> None:
    assert compared_words(text) == words


def test_the_barrier_still_counts_runs_of_letters_and_digits() -> None:
    assert folded_words("It has 3,200 people") == ["it", "has", "3", "200", "people"]
