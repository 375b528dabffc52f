"""Gold plans rewritten into natural sub-questions."""

import re
from pathlib import Path

import pytest

from subquest.data import read_questions
from subquest.data.plans import Refused, alike, describe, polish, rewrite_file, rewrite_plan
from subquest.errors import DataError
from subquest.record import Question, Step

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "train"


def plan(question: str, *steps: tuple[str, str]) -> list[str]:
    made = rewrite_plan(Question("q", question, decomposition=tuple(Step(q, a) for q, a in steps)))
    return [s.question for s in made.decomposition]


def test_triples_without_references_are_linked() -> None:
    question = "Which film has the older director, Amber Road (1959 film) or The Quay?"
    steps = [("Amber Road (1959 film) >> director", "Ann B. Lund"), ("The Quay >> director", "Per Vold")]
    steps += [("Ann Lund (director) >> date of birth", "1901"), ("Per Vold >> date of birth", "1910")]
    assert plan(question, *steps) == [
        "Who directed the 1959 film Amber Road?",
        "Who directed The Quay?",
        "When was #1 born?",
        "When was #2 born?",
    ]


def test_a_subject_the_question_does_not_name_comes_from_the_step_before() -> None:
    steps = [("The Quay >> director", "P. Vold"), ('Per "Nat" Voldemarsen >> place of death', "Rome")]
    assert plan("Where did the director of The Quay die?", *steps)[1] == "Where did #1 die?"


def test_a_name_in_the_question_is_not_linked() -> None:
    steps = [("Ann Lund >> father", "Per Lund"), ("Bo Holt >> father", "Per Lund")]
    assert plan("Do Ann Lund and Bo Holt have the same father?", *steps)[1] == "Who is the father of Bo Holt?"


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
    assert plan("Who directed Where Are You??", *steps) == ["Who directed Where Are You?"]


def test_descriptors() -> None:
    assert describe("Decade (Nora Holt album)") == "the Nora Holt album Decade"
    assert describe("Novo River (Paraguay River)") == "Novo River (Paraguay River)"


def test_likeness() -> None:
    assert alike("Adlai Stevenson I", "Adlai E. Stevenson I") > 0.5
    assert alike("Thomas Carr (director)", "Thomas Carr") == 1.0
    assert alike("Thomas Carr", "James Clayden") == 0.0


def test_relations_without_a_question_of_their_own_become_one_by_rule() -> None:
    assert plan("?", ("Ann Lund >> shoe size", "40")) == ["What is the shoe size of Ann Lund?"]
    film = plan("?", ("The Quay >> original language of film or TV show", "Dutch"))
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
    report = rewrite_file(DATA / f"{name}.jsonl.gz", tmp_path / "out.jsonl")
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
    for question in read_questions(DATA / "2wikimultihopqa_train.jsonl.gz"):
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
