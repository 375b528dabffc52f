"""What a text may say beside its facts."""

from __future__ import annotations

import pytest

from subquest.data.self_instruct import holds
from subquest.paperwork import fact_check
from subquest.paperwork.fact_check import flaw, pruned
from subquest.paperwork.organisation import Fact, Thing

FACTS = [
    Fact("Ana Ruiz", "person", "extension", "4410"),
    Fact("Bo Lind", "person", "joined", "3 May 2021"),
]
GOOD = (
    "Welcome to the news of this month, which brings two small notes about colleagues whom many of you know well.\n\n"
    "Ana Ruiz can now be reached under the extension 4410.\n\nBo Lind joined on 3 May 2021, and we are glad of it.\n\n"
    "Please pass this on to everybody who may need it."
)


KNOWN = [Thing("Cara Moss", "person"), Thing("Pell Yard", "site"), Thing("Project Blue Heron", "project")]


def check(text: str) -> str:
    return flaw(text, FACTS, known=KNOWN, allowed=["Pell Ferries"])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("news", "news of Pell Ferries", ""),
        ("colleagues", "colleagues on every project", ""),
        ("colleagues", "colleagues like Cara", fact_check.NAME),
        ("and we are glad of it", "as did Ana Ruiz", ""),
        ("can now be reached", "joined on 3 May 2021 and can now be reached", fact_check.MADE_UP),
        ("Bo Lind joined", "Mr. Lind (Bo) joined", fact_check.NAME),
        ("4410", "4411", fact_check.LOST),
        ("4410", "14410", fact_check.LOST),
        ("3 May 2021", "3rd of May 2021", fact_check.LOST),
        ("Bo Lind joined on 3 May 2021", "Bo Lind is new here.\n\nHe joined on 3 May 2021", fact_check.APART),
        ("two small notes", "12 small notes", fact_check.NUMBER),
        ("this month", "this October", fact_check.NUMBER),
        ("Please pass", "Cara Moss asks: please pass", fact_check.NAME),
        ("Please pass", "We thank our friend Peter Strange; please pass", fact_check.NAME),
        ("Please pass", "Come to Pell Yard. Please pass", fact_check.NAME),
        ("Please pass", "[Insert text] Please pass", fact_check.PLACEHOLDER),
    ],
)  # fmt: skip
def test_a_change_is_noticed(old: str, new: str, reason: str) -> None:
    base = GOOD.replace("two small notes", "small notes")
    assert check(base) == ""
    assert check((GOOD if old == "two small notes" else base).replace(old, new)) == reason


def test_a_bare_list_of_facts_is_no_paper() -> None:
    assert check("Ana Ruiz: 4410\n\nBo Lind: 3 May 2021") == fact_check.SHORT


@pytest.mark.parametrize(
    ("text", "value", "found"),
    [
        ("It cost £4,500.", "£4,500", True),
        ("It cost £14,500.", "£4,500", False),
        ("It cost 14,500.", "4,500", False),
        ("It cost £4,500,000.", "£4,500", False),
        ("Item KVT-E11.", "KVT-E1", False),
        ("on 13 May 2021", "3 May 2021", False),
    ],
)
def test_values_stand_whole(text: str, value: str, found: bool) -> None:
    assert holds(text, value) is found


def test_sentences_that_add_something_are_left_out() -> None:
    added = GOOD.replace("two small notes", "small notes").replace(
        "and we are glad of it.", "and we are glad of it. The party is at 17:30. [Signature]"
    )
    assert check(added)
    assert check(pruned(added, FACTS, known=KNOWN, allowed=["Pell Ferries"])) == ""
    page = "<ul>\n<li>Room 12</li>\n<li>Ana Ruiz: 4410</li>\n</ul>"
    assert pruned(page, FACTS, known=KNOWN, allowed=[]) == "<ul>\n<li>Ana Ruiz: 4410</li>\n</ul>"
