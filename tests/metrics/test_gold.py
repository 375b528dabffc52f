"""Gold decompositions rewritten as questions with references."""

from subquest.metrics.gold import natural_plan
from subquest.record import Step


def test_triples_become_questions() -> None:
    steps = [
        Step("Silver Harbour >> director", "Mara E. Quill"),
        Step("Tin Drumlin >> director", "Odo Lenn"),
        Step("Mara Quill >> date of birth", "1931"),
        Step("Odo Lenn >> favourite colour", "grey"),
    ]
    assert natural_plan(steps) == (
        "Who directed Silver Harbour?",
        "Who directed Tin Drumlin?",
        "When was #1 born?",
        "What is the favourite colour of #2?",
    )


def test_questions_keep_their_references() -> None:
    steps = [
        Step("Vessel >> country", "Norland"),
        Step("when did #1 leave the union ?", "1948"),
        Step("Who ruled Norland in 1948?", "Bo"),
    ]
    assert natural_plan(steps) == ("Which country is Vessel in?", "when did #1 leave the union?", "Who ruled #1 in #2?")


def test_nothing_stays_nothing() -> None:
    assert natural_plan([]) == ()
    assert natural_plan([Step("Is it late?", "yes"), Step("Did they say yes?", "no")])[1] == "Did they say yes?"


def test_a_relation_may_hold_braces() -> None:
    assert natural_plan([Step("Ada >> size {x}", "3")]) == ("What is the size {x} of Ada?",)
