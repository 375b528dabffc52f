"""Gold plans: rewritten into natural sub-questions, the same for worlds, training and the plan metric."""

import re
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.gold_plans import Refused, describe, gold_plan, name_similarity, polish, rewrite_file, rewrite_plan
from subquest.errors import DataError
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


def rewritten(question: str, *steps: tuple[str, str]) -> list[str]:
    made = rewrite_plan(Question("q", question, decomposition=tuple(Step(q, a) for q, a in steps)))
    return [s.question for s in made.decomposition]


def test_triples_without_references_are_linked() -> None:
    question = "Which film has the older director, Amber Road (1959 film) or The Quay?"
    steps = [("Amber Road (1959 film) >> director", "Ann B. Lund"), ("The Quay >> director", "Per Vold")]
    steps += [("Ann Lund (director) >> date of birth", "1901"), ("Per Vold >> date of birth", "1910")]
    assert rewritten(question, *steps) == [
        "Who directed the 1959 film Amber Road?",
        "Who directed The Quay?",
        "When was #1 born?",
        "When was #2 born?",
    ]


def test_a_subject_the_question_does_not_name_comes_from_the_step_before() -> None:
    steps = [("The Quay >> director", "P. Vold"), ('Per "Nat" Voldemarsen >> place of death', "Rome")]
    assert rewritten("Where did the director of The Quay die?", *steps)[1] == "Where did #1 die?"


def test_a_name_in_the_question_is_not_linked() -> None:
    steps = [("Ann Lund >> father", "Per Lund"), ("Bo Holt >> father", "Per Lund")]
    assert rewritten("Do Ann Lund and Bo Holt have the same father?", *steps)[1] == "Who is the father of Bo Holt?"


def test_bare_questions_get_capitals_spacing_and_a_mark() -> None:
    whole = "When did the country containing Nugegoda leave the British Empire?"
    assert polish("when did #1 leave the british empire", whole) == "When did #1 leave the British Empire?"
    assert (
        polish("what was #1 's currency before the euro", "...in the Euro?")
        == "What was #1's currency before the Euro?"
    )
    assert polish("Who was in charge of #1 ?", "") == "Who was in charge of #1?"


def test_a_title_that_is_a_question_keeps_one_mark() -> None:
    steps = [("Where Are You? >> director", "Per Vold")]
    assert rewritten("Who directed Where Are You??", *steps) == ["Who directed Where Are You?"]


def test_descriptors() -> None:
    assert describe("Decade (Nora Holt album)") == "the Nora Holt album Decade"
    assert describe("Novo River (Paraguay River)") == "Novo River (Paraguay River)"


def test_likeness() -> None:
    assert name_similarity("Adlai Stevenson I", "Adlai E. Stevenson I") > 0.5
    assert name_similarity("Thomas Carr (director)", "Thomas Carr") == 1.0
    assert name_similarity("Thomas Carr", "James Clayden") == 0.0


def test_relations_without_a_question_of_their_own_become_one_by_rule() -> None:
    assert rewritten("?", ("Ann Lund >> shoe size", "40")) == ["What is the shoe size of Ann Lund?"]
    film = rewritten("?", ("The Quay >> original language of film or TV show", "Dutch"))
    assert film == ["What is the original language of The Quay?"]


@pytest.mark.parametrize("kind", ["compositional", "inference", "comparison"])
def test_a_chain_goes_on_from_its_last_answer_whatever_its_article_is_called(kind: str) -> None:
    steps = (Step("Ann Lund >> mother", "Marie of Holt"), Step("Mary of Holtia, Duchess >> place of death", "Kalk"))
    asked = Question(
        "q", "Where did the mother of Ann Lund, of the house of Mary, die?", type=kind, decomposition=steps
    )
    last = rewrite_plan(asked).decomposition[1].question
    assert last == ("Where did Mary of Holtia, Duchess die?" if kind == "comparison" else "Where did #1 die?")


@pytest.mark.parametrize(
    ("step", "reason"),
    [("X >> influenced by", "unknown relation"), (" >> father", "malformed step"), ("#2 >> father", "later step")],
)
def test_what_the_rules_do_not_reach_is_refused(step: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        rewrite_plan(Question("q", "?", decomposition=(Step(step, "x"),)))


@pytest.mark.skipif(not DATA.is_dir(), reason="the real question sets (../shared/data) are not here")
@pytest.mark.parametrize(("name", "plans"), [("2wikimultihopqa_train", 473), ("musique_train", 74)])
def test_every_training_plan_becomes_natural(name: str, plans: int, tmp_path: Path) -> None:
    report = rewrite_file(DATA / "train" / f"{name}.jsonl.gz", tmp_path / "out.jsonl")
    assert (report.plans, report.rewritten + report.unchanged, dict(report.refused)) == (plans, plans, {})
    for question in read_questions(tmp_path / "out.jsonl"):
        for step in question.decomposition:
            assert ">>" not in step.question
            assert re.fullmatch(r"\S.*\S\?", step.question)
            assert " ?" not in step.question


@pytest.mark.skipif(not DATA.is_dir(), reason="the real question sets (../shared/data) are not here")
def test_links_follow_the_type_of_the_question() -> None:
    """A 2Wiki chain links every step but the first; a bridge comparison half of its steps; a comparison none."""
    wanted = {"compositional": lambda n: n - 1, "inference": lambda n: n - 1, "bridge_comparison": lambda n: n // 2}
    wrong = 0
    for question in read_questions(DATA / "train" / "2wikimultihopqa_train.jsonl.gz"):
        made = rewrite_plan(question).decomposition
        links = sum("#" in s.question for s in made)
        wrong += links != wanted.get(question.type, lambda n: 0)(len(made))
    assert wrong <= 1  # one bridge comparison names two nationalities of one director


def test_wrong_files_are_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"id": "a", "question": "q", "decomposition": []}\n{"id": 3\n')
    with pytest.raises(DataError, match=r"bad\.jsonl:2"):
        rewrite_file(bad, None)
    with pytest.raises(DataError, match="does not exist"):
        rewrite_file(tmp_path / "none.jsonl", None)
