"""Answers that are lists: supported if each of their parts is."""

import pytest

from subquest.record import Document
from subquest.runtime.answer_kind import is_misfit
from subquest.runtime.answer_list import parts_of
from subquest.runtime.evidence import Finding, support_of
from subquest.runtime.statements import claim_of

DOCUMENTS = (
    Document(
        "1",
        "arrivals.csv",
        "Vessel: Quillfeather; From: Gdynia; Berth: C7; Cargo: wind turbine blades\n"
        "Vessel: Gannet 59; From: Bergen; Berth: B2; Cargo: timber",
    ),
    Document("2", "Vault", "Rosa Lind keeps the vault. It was built in 1931 and has 7 doors. Mia Holt paints it."),
    Document("3", "Roof", "Otto Brandt mends the roof."),
    Document("4", "Harbour", "The harbour trades with Norway and Sweden. Its master was born in Denmark."),
    Document("5", "Film", "The film was directed by Ada Lowe and Ben Carr. Its composer was Kim Dahl."),
)
CARGO = "What cargo did the Quillfeather bring and at which berth did it land?"
KEEPERS = "Who keeps the vault and who mends the roof?"
VAULT = "Who keeps the vault, and when was it built?"


@pytest.mark.parametrize(
    ("question", "answer", "supported"),
    [
        *((CARGO, f"wind turbine blades{mark}C7", True) for mark in (", ", "; ", " / ", "\n", " and ")),
        (CARGO, "C7, wind turbine blades", True),
        (CARGO, "wind turbine blades, B2", False),
        (CARGO, "timber, C7", False),
        *((KEEPERS, f"Rosa Lind{mark}Otto Brandt", True) for mark in (", ", "; ", "/", " and ", ", and ")),
        (KEEPERS, "- Rosa Lind\n- Otto Brandt", True),
        (KEEPERS, "Rosa Lind, Ada Lowe", False),
        (KEEPERS, "Rosa Lind and Ada Lowe", False),
        (VAULT, "Rosa Lind, 1931", True),
        (VAULT, "Rosa Lind, unknown", False),
        ("With which countries does the harbour trade?", "Sweden, Norway", True),
        ("With which countries does the harbour trade?", "Norway, Denmark", False),
        ("Who directed the film?", "Ada Lowe, Ben Carr", True),
        ("Who directed the film?", "Ada Lowe, Kim Dahl", False),
        ("How many doors has the vault and when was it built?", "7, 1931", True),
        ("How many doors has the vault?", "7, 1931", False),
    ],
)
def test_a_list_is_supported_if_each_of_its_parts_is(question: str, answer: str, supported: bool) -> None:
    for finding in (Finding("", "", "", DOCUMENTS, query=question), Finding(question, answer, "", DOCUMENTS, "1")):
        found = support_of(answer, question, [finding])
        assert found.supported is supported
        assert bool(found.evidence) is supported


def test_each_part_has_its_quote() -> None:
    steps = (("Who keeps the vault?", "Rosa Lind"), ("Who mends the roof?", "Otto Brandt"))
    findings = [Finding(task, result, "", DOCUMENTS, f"1.{n}") for n, (task, result) in enumerate(steps, 1)]
    found = support_of("Rosa Lind, Otto Brandt", KEEPERS, findings)
    stating = [(quote.quote, quote.trajectory) for quote in found.evidence if quote.states_answer]
    assert stating == [("Rosa Lind keeps the vault.", "1.1"), ("Otto Brandt mends the roof.", "1.2")]


@pytest.mark.parametrize(
    ("answer", "parts"),
    [
        ("1,200", []),
        ("80 km/h", []),
        ("Mila Torrun", []),
        ("C7, C7", []),
        ("Orvane, Sarn", []),  # the question names them: a choice
        ("Mila Torrun designed the bridge in Kestel, and it was opened by Bo Lind", []),
        ("1,200, 3,400", ["1,200", "3,400"]),
        ("Smith, John; Holt, Mia", ["Smith, John", "Holt, Mia"]),
        ("Rosa, Otto, and Mia", ["Rosa", "Otto", "Mia"]),
        ("1. Rosa\n2. Otto", ["Rosa", "Otto"]),
    ],
)
def test_parts(answer: str, parts: list[str]) -> None:
    assert parts_of(answer, "Which is longer, the Orvane or the Sarn?") == parts


def test_what_stands_verbatim_is_one_answer() -> None:
    text = "The meeting of 12 May 1990, 10:00 is in Paris, France. Its chair is Smith, John. It cost 1,200 euros."
    for question, answer in (
        ("Where is the meeting?", "Paris, France"),
        ("Who is the chair of the meeting?", "Smith, John"),
        ("How many euros did the meeting cost?", "1,200"),
        ("When is the meeting?", "12 May 1990, 10:00"),
    ):
        finding = Finding(question, answer, "", (Document("1", "Meeting", text),))
        found = support_of(answer, question, [finding])
        assert found.supported
        assert len(found.evidence) == 1


def test_an_answer_is_of_the_kind_of_one_of_the_things_that_were_asked() -> None:
    assert is_misfit(claim_of("1931"), "Who keeps the vault?")
    assert not is_misfit(claim_of("1931"), VAULT)
    assert is_misfit(claim_of("1931"), KEEPERS)
