"""Gold decompositions as plans: one wording for worlds, training and the plan metric."""

from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.plans import gold_plan, polish, rewrite_plan
from subquest.record import Question, Step
from subquest.train.facts import plan_of

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def plan(*steps: Step, question: str = "?") -> tuple[str, ...]:
    return gold_plan(Question("q", question, ("x",), decomposition=steps))


def test_triples_become_questions() -> None:
    made = plan(
        Step("Silver Harbour >> director", "Mara E. Quill"),
        Step("Tin Drumlin >> director", "Odo Lenn"),
        Step("Mara Quill >> date of birth", "1931"),
        Step("Odo Lenn >> favourite colour", "grey"),
        question="What of the directors of Silver Harbour and Tin Drumlin?",
    )
    assert made == (
        "Who directed Silver Harbour?",
        "Who directed Tin Drumlin?",
        "When was #1 born?",
        "What is the favourite colour of #2?",
    )


def test_questions_keep_their_references() -> None:
    made = plan(
        Step("Vessel >> country", "Norland"),
        Step("when did #1 leave the union ?", "1948"),
        Step("Who ruled Norland in 1948?", "Bo"),
    )
    assert made == ("In which country is Vessel?", "When did #1 leave the union?", "Who ruled #1 in #2?")


def test_nothing_stays_nothing() -> None:
    assert plan() == ()
    assert plan(Step("Is it late?", "yes"), Step("Did they say yes?", "no"))[1] == "Did they say yes?"


def test_a_relation_may_hold_braces() -> None:
    assert plan(Step("Ada >> size {y}", "3")) == ("What is the size {y} of Ada?",)


def test_a_plan_that_no_rule_reaches_stays_as_it_is() -> None:
    assert plan(Step("Ada >> influenced by", "Bo")) == ("Ada >> influenced by",)


def test_polishing_twice_is_as_good_as_once() -> None:
    for text in ("who wrote #1 : the end ?", "Who composed Back in the U.S.A.?", "When was ...And Then released?"):
        once = polish(text, "?")
        assert polish(once, "?") == once
    assert polish("When was En sømand går i land released?", "?") == "When was En sømand går i land released?"


@pytest.mark.skipif(not DATA.is_dir(), reason="the real question sets (../shared/data) are not here")
@pytest.mark.parametrize("name", ["2wikimultihopqa_test500", "musique_test500"])
def test_the_metric_and_training_word_every_plan_alike(name: str) -> None:
    for question in read_questions(DATA / "eval" / f"{name}.jsonl.gz"):
        trained = rewrite_plan(question)
        assert gold_plan(question) == gold_plan(trained) == tuple(plan_of(trained))
        assert not any(">>" in step for step in gold_plan(question))


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
