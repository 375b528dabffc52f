"""A teacher model rewrites plans; the filter's reasons are counted."""

import pytest

from subquest.data.self_instruct import find_flaw, instruct, parse
from subquest.engine.scripted import Context, ScriptedEngine
from subquest.record import Question, Step

GOLD = Question(
    "q1",
    "Where was the director of the film Salt Shore born?",
    ("Tolvik",),
    type="compositional",
    decomposition=(
        Step("Who directed the film Salt Shore?", "Ann Vik", "Salt Shore"),
        Step("Where was #1 born?", "Tolvik", "Ann Vik"),
    ),
)
ARTICLES = {"Salt Shore": "Salt Shore was directed by Ann Vik.", "Ann Vik": "Ann Vik was born in Tolvik."}
GOOD = """<question>In which place was the maker of the film Salt Shore born?</question>
<plan>
1. Who was the director of the film Salt Shore?
2. In which place was #1 born?
</plan>"""


def reply(rewritten: str, *answers: str) -> ScriptedEngine:
    rest = list(answers)

    def speak(context: Context) -> str:
        return rewritten if "Plan:" in context.last else f"<answer>{rest.pop(0)}</answer>"

    return ScriptedEngine(speak)


async def test_a_good_rewriting_is_kept() -> None:
    result = await instruct(reply(GOOD, "Ann Vik", "the Tolvik"), [GOLD], ARTICLES)
    assert not result.refused
    made = result.kept[0]
    assert made.question.startswith("In which place was the maker")
    assert [(s.question, s.answer, s.support) for s in made.decomposition] == [
        ("Who was the director of the film Salt Shore?", "Ann Vik", "Salt Shore"),
        ("In which place was #1 born?", "Tolvik", "Ann Vik"),
    ]
    assert made.meta["rewritten"] == GOLD.question


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("In which place was #1 born?", "In which place was Ann Vik born?"), "flawed reasoning: other references"),
        (("2. In which place was #1 born?\n", ""), "another number of steps"),
        (("</question>", " Is it Tolvik?</question>"), "trivial: an answer is given away"),
        (("the director of the film Salt Shore", "the director of this film"), "incorrect: a name was lost"),
        (("<plan>", "<steps>"), "malformed"),
    ],
)
async def test_the_filter_names_its_reason(change: tuple[str, str], reason: str) -> None:
    result = await instruct(reply(GOOD.replace(*change), "Ann Vik", "Tolvik"), [GOLD], ARTICLES)
    assert result.kept == []
    assert dict(result.refused) == {reason: 1}


async def test_a_sub_answer_that_the_article_does_not_give_is_not_validated() -> None:
    result = await instruct(reply(GOOD, "Ann Vik", "None"), [GOLD], ARTICLES)
    assert dict(result.refused) == {"not validated: the article gives another answer": 1}
    result = await instruct(reply(GOOD, "Ann Vik", "Tolvik"), [GOLD], {"Salt Shore": ARTICLES["Salt Shore"]})
    assert dict(result.refused) == {"not validated: no supporting article": 1}


def test_an_unchanged_plan_teaches_nothing() -> None:
    steps = "\n".join(f"{n}. {s.question}" for n, s in enumerate(GOLD.decomposition, 1))
    same = parse(f"<question>{GOLD.question}</question><plan>{steps}</plan>", GOLD)
    assert same is not None
    assert find_flaw(same, GOLD) == "unchanged"
