"""EM, F1 and CEM: numbers worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from subquest.metrics import (
    contains_answer,
    cover_exact_match,
    exact_match,
    f1,
    hotpot_f1,
    is_yes_no,
    normalize,
    score_answer,
)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The Beatles!", "beatles"),
        ("  An  Apple,  a day ", "apple day"),
        ("theatre", "theatre"),
        ("U.S.A.", "usa"),
        ("rock-and-roll", "rockandroll"),
        ("Café Müller", "café müller"),
        ("北京大学", "北 京 大 学"),
        ("「東京タワー」。", "東 京 タ ワ ー"),
        ("１９９５年", "1995 年"),
        ("约翰·史密斯", "约 翰 史 密 斯"),
        ("ジョン・スミス", "ジ ョ ン ス ミ ス"),
        ("서울 대학교", "서울 대학교"),
        ("中a文the字", "中 文 字"),
        ("", ""),
    ],
)
def test_normal_form(text: str, normal: str) -> None:
    assert normalize(text) == normal


def test_f1_by_hand() -> None:
    # "barack hussein obama" and "barack obama": 2 shared of 3 and 2 tokens, F1 = 4/5
    assert f1("Barack Hussein Obama", "Barack Obama") == pytest.approx(0.8)
    # bag of tokens: "new new york" shares one "new" and "york" with "new york new jersey"... 3 shared of 3 and 4
    assert f1("new new york", "New York, New Jersey") == pytest.approx(6 / 7)
    assert f1("Paris", ["London", "Paris, France"]) == pytest.approx(2 / 3)
    assert f1("", "Paris") == 0.0
    assert f1("the", "a") == 1.0, "both normalise to nothing, which SQuAD counts as equal"
    assert f1("Paris", []) == 0.0


def test_cjk_shares_characters() -> None:
    # 北京大学 and 北京: 2 shared of 4 and 2, F1 = 4/6
    assert f1("北京大学", "北京") == pytest.approx(2 / 3)
    assert exact_match("北京 大学。", "北京大学") == 1.0
    assert contains_answer("他毕业于北京大学。", ["北京大学"])


def test_exact_and_cover() -> None:
    assert exact_match("the Beatles", ["Queen", "Beatles"]) == 1.0
    assert exact_match("Beatles band", "Beatles") == 0.0
    assert cover_exact_match("It was the Beatles, I think", "Beatles") == 1.0
    assert cover_exact_match("status quo", "us") == 1.0, "the standard CEM looks at characters"
    assert not contains_answer("status quo", "US"), "whole tokens only"
    assert contains_answer("the US, in 1995", "us in 1995")
    assert not contains_answer("anything", "the"), "an answer without content is found nowhere"


def test_hotpot_rule() -> None:
    assert f1("yes it is", "yes") == pytest.approx(0.5)
    assert hotpot_f1("yes it is", "yes") == 0.0
    assert hotpot_f1("yes", ["yes"]) == 1.0
    assert hotpot_f1("no", "no answer") == hotpot_f1("no answer", "noanswer") == 0.0
    assert hotpot_f1("NoAnswer.", "noanswer") == 1.0
    assert hotpot_f1("Barack Hussein Obama", "Barack Obama") == pytest.approx(0.8)


def test_yes_no() -> None:
    assert is_yes_no(["Yes."])
    assert not is_yes_no(["no", "none"])
    assert not is_yes_no([])


def test_blank_prediction_scores_nothing() -> None:
    assert score_answer(" \n", ["The The"]) == (0.0, 0.0, 0.0)
    assert score_answer("It is Paris", "Paris") == (0.0, 0.5, 1.0)


@given(st.text(max_size=40), st.text(max_size=40))
def test_properties(a: str, b: str) -> None:
    assert normalize(normalize(a)) == normalize(a)
    assert 0.0 <= f1(a, b) <= 1.0
    assert f1(a, b) == f1(b, a)
    assert exact_match(a, b) <= f1(a, b)
    assert exact_match(a, b) <= cover_exact_match(a, b)
    assert f1(a, [b, a]) == 1.0


@given(st.text(max_size=30), st.lists(st.text(max_size=30), max_size=3))
def test_all_at_once_is_each_by_itself(prediction: str, golds: list[str]) -> None:
    expected = (exact_match(prediction, golds), f1(prediction, golds), cover_exact_match(prediction, golds))
    assert score_answer(prediction, golds) == (expected if prediction.strip() else (0.0, 0.0, 0.0))


@pytest.mark.parametrize("gold", ["A", "?", "The"])
def test_a_gold_answer_of_which_nothing_is_left_does_not_stand_in_every_text(gold: str) -> None:
    assert cover_exact_match("Paris", gold) == 0.0
    assert score_answer("Paris", [gold]) == (0.0, 0.0, 0.0)
    assert score_answer("a", [gold]).cem == score_answer("a", [gold]).em == 1.0
