"""Which numbers of documents are counts and totals of what was asked."""

import pytest

from subquest.record import Document
from subquest.runtime.counts import counted_in, is_rate
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.word_forms import terms_of

TABLES = (
    Document(
        "1",
        "arrivals.csv",
        "Date: 2025-01-05; Vessel: Celandine 4; From: Gdynia; Tonnes: 826; Fee (florins): 38\n"
        "Date: 2025-02-06; Vessel: Gannet 59; From: Gdynia; Tonnes: 1718; Fee (florins): 61\n"
        "Date: 2025-02-08; Vessel: Hesper 17; From: Lorient; Tonnes: 2168; Fee (florins): 61",
    ),
    Document("2", "depots.csv", "Depot: North; Staff: 14; Vans: 6\nDepot: South; Staff: 9; Vans: 4"),
    Document("3", "bookings.csv", "Hotel: Astoria; Room: 12; Nights: 2\nHotel: Astoria; Room: 14; Nights: 5"),
    Document(
        "4", "hotels.csv", "Hotel: Bristol; Room count: 112; Floors: 6\nHotel: Excelsior; Room count: 40; Floors: 3"
    ),
    Document("5", "league.csv", "Team: Stanmoor; Points: 31; Won: 9\nTeam: Harwick; Points: 35; Won: 11"),
    Document("6", "Cup", "Stanmoor won the Fenwick Cup in 2024."),
    Document(
        "7", "branches.csv", "Branch: Kell; Employees: 21; Area (m2): 300\nBranch: Moor; Employees: 8; Area (m2): 250"
    ),
)
PROSE = (
    Document(
        "8", "Yard", "The yard at Fenwick has 14 staff and Lift 2 is out of order. In 2024 it moved 3,200 parcels."
    ),
    Document("9", "Fair", "The summer fair raised 2,875 euros in total. Helpers at the fair get 12 euros an hour."),
    Document("10", "Space", "Apollo 11 carried three men. Capsule 8, Gemini 8, carried 2 pilots to orbit."),
)


@pytest.mark.parametrize(
    ("question", "answer", "supported"),
    [
        ("How many vessels arrived from Gdynia in 2025?", "4", False),
        ("How many vessels arrived from Gdynia in 2025?", "59", False),
        ("What is the total number of vessels from Lorient?", "17", False),
        ("How many vessels did Lorient send?", "2168", False),
        ("How many tonnes arrived from Gdynia?", "826", False),
        ("How many tonnes arrived from Lorient?", "2168", True),
        ("How many florins did the Hesper 17 pay?", "61", True),
        ("How many staff does the North depot have?", "14", True),
        ("How many vans does the North depot have?", "6", True),
        ("How many vans does the South depot have?", "9", False),
        ("How many staff does the Kell branch have?", "21", True),
        ("How many rooms does the Astoria have?", "12", False),
        ("How many nights were booked at the Astoria?", "5", False),
        ("How many nights were booked for room 14 of the Astoria?", "5", True),
        ("How many rooms does the Bristol have?", "112", True),
        ("How many points has Stanmoor?", "31", True),
        ("How many points has the team that won the Fenwick Cup?", "31", True),
        ("How many teams are there in the league?", "9", False),
        ("What do the points of all teams add up to?", "35", False),
        ("How many staff does the yard at Fenwick have?", "14", True),
        ("How many lifts does the yard at Fenwick have?", "2", False),
        ("How many parcels did the yard at Fenwick move in 2024?", "3,200", True),
        ("How much did the summer fair raise in total?", "2,875 euros", True),
        ("How many euros do helpers at the fair get in total?", "12", False),
        ("How many euros an hour do helpers at the fair get?", "12", True),
        ("How many capsules are there in space?", "8", False),
        ("How many men did Apollo 11 carry?", "11", False),
        ("How many pilots did Gemini 8 carry?", "2", True),
    ],
)
def test_counts_and_totals(question: str, answer: str, supported: bool) -> None:
    documents = (*TABLES, *PROSE)
    read = Finding("", "", "", documents, query=question)
    concluded = Finding(question, answer, "", documents, "1", question.removeprefix("How many "))
    for finding in (read, concluded):
        assert support_of(answer, question, [finding]).supported is supported


@pytest.mark.parametrize(
    ("question", "noun"),
    [
        ("How many vessels arrived from Gdynia?", "vessels"),
        ("How many of the full-time nurses work at night?", "nurses"),
        ("What is the number of inspections by Bo Lind?", "inspections"),
        ("How many people live in Varn?", "people"),
        ("How many staff work there?", ""),
    ],
)
def test_what_is_counted(question: str, noun: str) -> None:
    counted = counted_in(question)
    assert counted is not None
    assert counted.plural == noun


def test_no_count_is_asked_for() -> None:
    for question in (
        "What is the number of the room?",
        "Who has most points?",
        "How many are there and who owns them?",
    ):
        assert counted_in(question) is None


def test_a_rate_is_for_each_of_something() -> None:
    for text in ("a vessel pays 61 florins a night", "61 florins per night", "61 florins/night"):
        assert is_rate("61", text, terms_of("What do vessels pay in total?"))
        assert not is_rate("61", text, terms_of("What do vessels pay in total each night?"))
    assert not is_rate("61", "they paid 61 florins in all", terms_of("total"))
