"""Sentences of a model against the quotes they cite."""

import pytest

from subquest.record import Evidence
from subquest.runtime.sentence_check import check_text, is_supported

BRIDGE = Evidence("d1", "Orvane Bridge", "It was designed by Mila Torrun and opened in 1931.")
TORRUN = Evidence("d2", "Mila Torrun", "She was born in Kestel in 1889.")
TOLL = Evidence("d3", "Orvane Bridge", "The toll of 3,200 crowns was not raised before 1940.")
QUOTES = (BRIDGE, TORRUN, TOLL)


@pytest.mark.parametrize(
    ("sentence", "supported"),
    [
        ("The Orvane Bridge was designed by Mila Torrun.", True),
        ("The Orvane Bridge opened in 1931.", True),
        ("The Orvane Bridge opened in 1932.", False),  # another number
        ("The Orvane Bridge was designed by Ada Lind.", False),  # another name
        ("The Orvane Bridge was demolished, flooded and sold by Mila Torrun.", False),  # other words
        ("The Orvane Bridge was never designed by Mila Torrun.", False),  # negated
        ("Was the Orvane Bridge designed by Mila Torrun?", False),  # a question states nothing
        ("Orvane Bridge.", False),  # nor does a title
        ("unknown", False),
    ],
)
def test_names_numbers_and_words_must_stand_in_the_quote(sentence: str, supported: bool) -> None:
    assert is_supported(sentence, [BRIDGE]) is supported


def test_numbers_are_the_same_however_they_are_written() -> None:
    assert is_supported("The toll of 3200 crowns was not raised before 1940.", [TOLL])


def test_a_sentence_may_rest_on_two_quotes_together() -> None:
    text = "Mila Torrun, born in Kestel in 1889, designed the Orvane Bridge [1][2]."
    check = check_text(text, QUOTES, most=5)
    assert [s.quotes for s in check.sentences] == [(0, 1)]
    assert check_text(text.replace("[1][2]", "[1]"), QUOTES, most=5) == ((), 1)


@pytest.mark.parametrize("cited", ["[2].", ". [2]", " [ 2 ].", "[2, 3].", "[1].", ".", "[99].", "[0]."])
def test_a_wrong_or_missing_citation_is_replaced_by_the_quote_that_supports_the_sentence(cited: str) -> None:
    cited = cited.replace("[ 2 ]", "[2]")
    check = check_text(f"Mila Torrun was born in Kestel{cited}", QUOTES, most=5)
    assert [(s.text, s.quotes) for s in check.sentences] in (
        [("Mila Torrun was born in Kestel.", (1,))],
        [("Mila Torrun was born in Kestel", (1,))],
    )


def test_what_small_models_write_around_sentences_is_removed() -> None:
    text = "## Origin\nAnswer: **Mila Torrun** was born in Kestel [2].\n- The Orvane Bridge opened in 1931. [1]\n\n"
    check = check_text(text, QUOTES, most=5)
    assert [s.text for s in check.sentences] == ["Mila Torrun was born in Kestel.", "The Orvane Bridge opened in 1931."]
    assert check.dropped == 0


def test_the_title_that_stands_before_a_quote_is_not_copied() -> None:
    text = (
        "Orvane Bridge: The toll of 3,200 crowns was not raised before 1940. [3].\n"
        "Mila Torrun: She was born in Kestel. [2]"
    )
    said = [sentence.text for sentence in check_text(text, QUOTES, most=5).sentences]
    assert said == ["The toll of 3,200 crowns was not raised before 1940.", "Mila Torrun: She was born in Kestel."]
    assert check_text("Orvane Bridge: Orvane Bridge. [1]", QUOTES, most=5) == ((), 1)


def test_repetitions_count_once_and_a_text_has_a_limit() -> None:
    text = "Mila Torrun was born in Kestel [2]. " * 40 + "The Orvane Bridge opened in 1931 [1]."
    assert [s.quotes for s in check_text(text, QUOTES, most=5).sentences] == [(1,), (0,)]
    assert len(check_text(text, QUOTES, most=1).sentences) == 1
