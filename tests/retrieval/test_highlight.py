"""Which part of a passage is shown: a whole sentence, or of a long one the part with the words that were asked for."""

from __future__ import annotations

import pytest

from subquest.retrieval.analysis import Analysis
from subquest.retrieval.highlight import highlight
from subquest.retrieval.splitter import Size, split

TEXT = "Dr. Smith met Mr. Jones in St. Louis. He paid $3.50 for a hat. The U.S. Army came later! «Was it? »"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("Smith", "Dr. Smith met Mr. Jones in St. Louis."),
        ("paid 3.50", "He paid $3.50 for a hat."),
        ("army", "The U.S. Army came later!"),
    ],
)
def test_sentences_do_not_end_at_abbreviations_and_numbers(query: str, sentence: str) -> None:
    span = highlight(TEXT, query, Analysis())
    assert TEXT[span.start : span.end] == sentence


@pytest.mark.parametrize(
    ("text", "query", "sentence"),
    [
        ("दिल्ली भारत की राजधानी है। मुंबई एक बड़ा शहर है।", "मुंबई", "मुंबई एक बड़ा शहर है।"),
        ("هل القاهرة كبيرة؟ نعم هي كبيرة.", "القاهرة", "هل القاهرة كبيرة؟"),
        ("北京是首都。长城很长。", "长城", "长城很长。"),
    ],
)
def test_sentences_of_other_scripts(text: str, query: str, sentence: str) -> None:
    span = highlight(text, query, Analysis())
    assert text[span.start : span.end] == sentence


def test_the_part_of_a_long_run_without_blanks_that_has_the_words() -> None:
    text = "一" * 900 + "紫禁城" + "二" * 900
    span = highlight(text, "紫禁城", Analysis())
    assert "紫禁城" in text[span.start : span.end]
    assert span.end - span.start <= 300
    blob = "x" * 5000 + " needle"
    span = highlight(blob, "needle", Analysis())
    assert "needle" in blob[span.start : span.end]


def test_passages_end_with_sentences_of_other_scripts() -> None:
    text = "यह एक छोटा वाक्य है। " * 40
    assert all(passage.text.endswith("।") for passage in split(text, Size(20)))
