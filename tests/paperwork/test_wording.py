"""Wordings that ask for something else than the plain question."""

from __future__ import annotations

import pytest

from subquest.paperwork.wording import asks_the_same

PRICES = "Is the price of item KVT-E11 lower than the price of item KVT-E12?"
LATER = "Which has the later value for 'bought': KVT-E11 or KVT-E12?"


@pytest.mark.parametrize(
    ("plain", "made", "operation", "same"),
    [
        (PRICES, "Is KVT-E11 cheaper than KVT-E12?", "order", True),
        (PRICES, "Could you tell me whether KVT-E11 costs less than KVT-E12?", "order", True),
        (PRICES, "Was the price paid when KVT-E11 came lower than that of KVT-E12?", "order", True),
        (PRICES, "Could you please confirm the prices of KVT-E11 and KVT-E12?", "order", False),
        (PRICES, "What is the difference between the prices of KVT-E11 and KVT-E12?", "order", False),
        (LATER, "Which did we buy last, KVT-E11 or KVT-E12?", "pick", True),
        (LATER, "KVT-E11 or KVT-E12?", "pick", False),
        ("Is the team of Ana Pell the same as the team of Ivo Lind?", "Do Ana Pell and Ivo Lind share a team?",
         "same", True),
        ("Is the team of Ana Pell the same as the team of Ivo Lind?", "Which teams are Ana Pell and Ivo Lind in?",
         "same", False),
        ("What do the prices of A and B come to together?", "How much are A and B in total?", "sum", True),
        ("What do the prices of A and B come to together?", "What are the prices of A and B?", "sum", False),
        ("How many items did Pell Works supply?", "What is the number of items from Pell Works?", "count", True),
        ("When did Ana Pell join?", "In what year did Ana Pell start?", "last", True),
        ("When did Ana Pell join?", "Who joined Ana Pell?", "last", False),
        ("What is the job title of Ana Pell?", "Who holds the role of Ana Pell?", "last", False),
        ("What is the author of P1's extension?", "What's the extension of the person who wrote P1?", "last", True),
        ("Who supplied item KVT-E11?", "Which firm supplied KVT-E11?", "last", True),
        ("What was the price of item KVT-E11?", "How much did we pay for KVT-E11?", "last", True),
        ("What approval limit does P1 set?", "How many approvals are allowed in P1?", "last", False),
        ("What approval limit does P1 set?", "Up to what maximum can I approve under P1?", "last", True),
        ("How many days is the notice period of P1?", "How many days of notice does P1 need?", "last", True),
        ("What kind of equipment is KVT-E11?", "Could you tell me about KVT-E11?", "last", False),
        ("What kind of equipment is KVT-E11?", "What is this equipment KVT-E11?", "last", False),
        ("What kind of equipment is KVT-E11?", "What sort of machine is KVT-E11?", "last", True),
    ],
)  # fmt: skip
def test_a_wording_asks_for_what_the_plain_one_asks_for(plain: str, made: str, operation: str, same: bool) -> None:
    names = ("KVT-E11", "KVT-E12", "Ana Pell", "Ivo Lind", "Pell Works", "P1", "equipment")
    answer = "£40" if "price" in plain or "limit" in plain else "30"
    assert asks_the_same(made, plain, answer, operation, names) == same
