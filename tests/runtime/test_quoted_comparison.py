"""Comparisons that are checked with the dates and numbers of sentences, not of sub-results."""

import pytest

from subquest.record import Document
from subquest.runtime.evidence import Finding, support_of

FERRY = Document("f", "Kestel Ferry", "The Kestel Ferry is a chain ferry. It has run since 1889 and carries 40 people.")
BRIDGE = Document(
    "b", "Orvane Bridge", "The Orvane Bridge spans the Kelm. It opened in May 1931 and is 412 metres long."
)
SPAN = Document("s", "Varn Bridge", "The Varn Bridge is 380 metres long. It was built by Odo Brask.")
SONG = Document("o", "Low Water", "Low Water is a song that Ada Lind wrote in 1950.")
TUNE = Document("u", "High Water", "High Water is a song that Bo Rusk wrote in 1940.")
ADA = Document("a", "Ada Lind", "Ada Lind (3 May 1901 – 9 June 1980) was a singer. She moved to Varn in 1890.")
BO = Document("r", "Bo Rusk", "Bo Rusk (born 12 March 1899, died 1985) was a singer.")
ALL = [FERRY, BRIDGE, SPAN, SONG, TUNE, ADA, BO]

QUESTIONS = [
    ("Which is older, the Kestel Ferry or the Orvane Bridge?", "Kestel Ferry", "Orvane Bridge", {"f", "b"}),
    ("Which opened later, the Kestel Ferry or the Orvane Bridge?", "the Orvane Bridge", "the Kestel Ferry", {"f", "b"}),
    ("Which is longer, the Orvane Bridge or the Varn Bridge?", "Orvane Bridge", "Varn Bridge", {"b", "s"}),
    ("Which song has a writer who was born first, Low Water or High Water?", "High Water", "Low Water", set("oaur")),
    ("Who died later, Ada Lind or Bo Rusk?", "Bo Rusk", "Ada Lind", {"a", "r"}),
    ("Is the Varn Bridge longer than the Orvane Bridge?", "no", "yes", {"b", "s"}),
    ("Was Bo Rusk born before Ada Lind?", "yes", "no", {"a", "r"}),
]


@pytest.mark.parametrize(("question", "right", "wrong", "quoted"), QUESTIONS)
def test_what_was_only_read_decides(question: str, right: str, wrong: str, quoted: set[str]) -> None:
    found = support_of(right, question, [Finding(question, right, "", ALL, query=question)])
    assert (found.supported, {quote.id for quote in found.evidence}) == (True, quoted)
    assert support_of(wrong, question, [Finding(question, wrong, "", ALL, query=question)]) == ((), False, False)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ("has run since 1889.", (True, False)),
        ("has run since 1889 and was renewed in 1950.", (False, True)),  # before and after the bridge opened
        ("is a chain ferry.", (False, True)),
        ("has run since 1935.", (False, False)),
    ],
)
def test_notes_decide_where_all_their_dates_agree(first: str, expected: tuple[bool, bool]) -> None:
    ferry = Document("f", "Kestel Ferry", f"The Kestel Ferry {first}")
    bridge = Document("b", "Orvane Bridge", "The Orvane Bridge opened in 1931.")
    notes = [Finding("", document.text, "", [ferry, bridge]) for document in (ferry, bridge)]
    found = support_of("Kestel Ferry", "Which is older, the Kestel Ferry or the Orvane Bridge?", notes)
    assert (found.supported, found.parts) == expected


def test_sub_results_are_compared_in_the_order_of_the_question() -> None:
    pumps = [Document(name, f"Pump {name}", f"Weight: {kilos} kg.") for name, kilos in (("P-40", 9.5), ("P-60", 14.2))]
    steps = [Finding(f"How heavy is the {d.id}?", d.text[8:-1], "", pumps) for d in pumps]
    question = "Is the P-60 heavier than the P-40?"
    for order in (steps, steps[::-1]):
        assert support_of("yes", question, order).supported is True
        assert support_of("no", question, order) == ((), False, False)
