"""Answers that follow from quoted sub-results."""

import pytest

from subquest.record import Document
from subquest.runtime.evidence import Finding, support_of

PAPERS = [
    Document(
        "1",
        "Contract K12",
        "The contract with Norby was signed on 3 March 2025 and runs for 18 months. Its notice period is 45 days. "
        "The contract with Holm was signed on 20 March 2025.",
    ),
    Document(
        "2",
        "Invoices",
        "Invoices are due within 30 days. Invoice 88 was sent on 14 April 2025.",
    ),
    Document("3", "Rents", "The rent of Harbour House is 640 euros. The rent of Mill House is 215 euros."),
]
SIGNED = ("When was the contract with Norby signed?", "3 March 2025")
RUNS = ("How long does the contract with Norby run?", "18 months")
SENT = ("When was invoice 88 sent?", "14 April 2025")
DUE = ("Within how many days are invoices due?", "30")
RENTS = [("What is the rent of Harbour House?", "640 euros"), ("What is the rent of Mill House?", "215 euros")]


def supported(question: str, answer: str, *steps: tuple[str, str]) -> bool | None:
    found = support_of(answer, question, [Finding(task, result, "", PAPERS) for task, result in steps])
    assert bool(found.evidence) is bool(found.supported)
    return found.supported


@pytest.mark.parametrize(("answer", "right"), [("14 May 2025", True), ("2025-05-14", True), ("15 May 2025", False)])
def test_a_day_after_a_date(answer: str, right: bool) -> None:
    assert supported("When is invoice 88 due?", answer, SENT, DUE) is right


@pytest.mark.parametrize(("answer", "right"), [("Monday", True), ("Thursday", False)])
def test_a_day_of_the_week(answer: str, right: bool) -> None:
    assert supported("On which day of the week was invoice 88 sent?", answer, SENT) is right


@pytest.mark.parametrize("answer", ["Rent 425", "425"])
def test_what_the_question_names_is_not_computed(answer: str) -> None:
    assert supported("How much dearer is Harbour House?", answer, *RENTS) is True
    assert supported("Which house has the tenant of rent 425?", answer, *RENTS) is False


@pytest.mark.parametrize(("answer", "right"), [("425 EUR", True), ("400 EUR", False)])
def test_a_computed_number_that_a_question_offers(answer: str, right: bool) -> None:
    assert supported("Is Harbour House dearer by 425 EUR or by 400 EUR?", answer, *RENTS) is right


def test_nothing_follows_from_the_question_alone() -> None:
    question = "Which lift goes to the roof, Lift 2 or Lift 4?"
    assert supported(question, "Lift 2", (question, "Lift 2")) is False
    assert supported("Who was sent invoices 44 and 45?", "89", SENT, ("Who was sent both?", "Norby and Holm")) is False


def test_a_sub_result_may_follow_from_those_before_it() -> None:
    question = "By when must notice be given so that the contract with Norby ends after its term?"
    notice = ("How many days is the notice period of the contract with Norby?", "45")
    ends = "When does the contract with Norby end?"
    assert supported(question, "20 July 2026", SIGNED, RUNS, notice, (ends, "3 September 2026")) is True
    assert supported(question, "20 June 2026", SIGNED, RUNS, notice, (ends, "3 August 2026")) is False


@pytest.mark.parametrize(
    ("answer", "right"), [("17", True), ("17 days", True), ("20", False), ("3", False), ("23", False)]
)
def test_the_days_between_two_dates_are_not_those_of_the_month(answer: str, right: bool) -> None:
    question = "How many days lie between the signing of the contract with Norby and of that with Holm?"
    assert supported(question, answer, SIGNED, ("When was the contract with Holm signed?", "20 March 2025")) is right


@pytest.mark.parametrize(
    ("question", "answer", "right"),
    [
        ("What do the rents of Harbour House and Mill House add up to?", "855 euros", True),
        ("What do the rents of Harbour House and Mill House add up to?", "640 euros", False),
        ("What is the difference between the rents of Harbour House and Mill House?", "425 euros", True),
        ("What is the higher one of the rents of Harbour House and Mill House?", "640 euros", True),
        ("What is the higher one of the rents of Harbour House and Mill House?", "215 euros", False),
    ],
)
def test_one_of_several_results_is_no_sum_of_them(question: str, answer: str, right: bool) -> None:
    assert supported(question, answer, *RENTS) is right
