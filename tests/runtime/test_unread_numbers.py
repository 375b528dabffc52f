"""Numbers of a result that stand in nothing that was read."""

import pytest

from subquest.runtime.unread_numbers import unread_numbers


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("£67,300", ""),
        ("in 2024, on 2024-05-17", ""),
        ("999 and 1.5", ""),
        ("£6,730", "6730 stands nowhere in what you have read, but 67300 does"),
        ("1931", "1931 stands nowhere in what you have read"),
        ("4001 4002 4003 4004", "; ".join(f"{n} stands nowhere in what you have read" for n in (4001, 4002, 4003))),
        ("7" * 900, "7" * 20 + " stands nowhere in what you have read"),
    ],
)
def test_what_stands_nowhere_is_told_with_what_is_like_it(result: str, said: str) -> None:
    assert unread_numbers(result, ["The scanner cost 67300.", "Bought on 17 May 2024, tag 123"]) == said
