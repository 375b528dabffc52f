"""Gold decompositions rewritten as questions with references."""

from subquest.metrics.gold import gold_plan, natural_plan
from subquest.record import Question, Step


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


def test_a_gold_plan_names_nothing_that_only_a_list_brings() -> None:
    first = ["Which films did Ann direct?", "When was the film Dusk released?", "When was the film Noon released?"]
    steps = tuple(Step(text, "") for text in first)
    meta = {"program": [["all", "a", "directed"], ["get", "#1.0", "date"], ["get", "#1.1", "date"]]}
    meta["items"] = {"1": ["Dusk", "Noon"]}
    question = Question("q", "Which of Ann's films came first?", ("Noon",), decomposition=steps, meta=meta)
    assert gold_plan(question) == ("Which films did Ann direct?", "When was the film #1 released?")
    both = ("Which films did Ann direct?", "Which films did Bo score?", "Who wrote Dusk?")
    meta = {"program": [["all", "a", "directed"], ["all", "b", "scored"], ["get", "#1&2", "writer"]]}
    meta["items"] = {"1": ["Dusk", "Noon"], "2": ["Dusk", "Eve"]}
    question = Question("q", "?", ("Cy",), decomposition=tuple(Step(text, "") for text in both), meta=meta)
    assert gold_plan(question)[2] == "Who wrote the one in #1 and #2?"
    chain = (Step("Who directed Dusk?", "Ann"), Step("Where was Ann born?", "Rome"))
    assert gold_plan(Question("q", "?", ("Rome",), decomposition=chain)) == ("Who directed Dusk?", "Where was #1 born?")
