import pytest

from subquest.engine.torch.stops import Stops
from subquest.engine.torch.tokens import Vocabulary

from .conftest import byte_tokenizer

TEXTS = ("plain", "é ü 漢字 🙂", "  spaces\n\ttabs", "<|im_end|> inside")


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    return Vocabulary(byte_tokenizer(), 264)


@pytest.mark.parametrize("text", TEXTS)
def test_bytes_give_the_text_back(vocabulary: Vocabulary, text: str) -> None:
    ids = vocabulary.encode(text, False)
    assert vocabulary.decode(ids) == text == byte_tokenizer().decode(ids)


def test_special_tokens_are_recognised_in_control_text_alone(vocabulary: Vocabulary) -> None:
    assert vocabulary.encode("<|im_end|>", True) == (257,)
    assert len(vocabulary.encode("<|im_end|>", False)) == 10
    assert vocabulary.decode([257]) == "<|im_end|>"


def test_a_cut_character_is_replaced(vocabulary: Vocabulary) -> None:
    ids = vocabulary.encode("é", False)
    assert vocabulary.decode(ids[:1]) == "\ufffd"


def test_stop_strings_end_where_their_last_byte_arrives(vocabulary: Vocabulary) -> None:
    stops = Stops(vocabulary, [257])
    ids = vocabulary.encode("say </task>", False)
    for end in range(1, len(ids)):
        assert stops.completed(("</task>", "</answer>"), ids[:end]) == ""
    assert stops.completed(("</task>", "</answer>"), ids) == "</task>"
    assert stops.completed(("k>", "</task>"), ids) == "</task>"
    assert stops.completed((), ids) == ""


def test_only_tokens_with_the_last_byte_are_looked_into(vocabulary: Vocabulary) -> None:
    import numpy as np

    stops = Stops(vocabulary, [257])
    kind = stops.kind(("</task>", "é"))
    arrow, letter = vocabulary.encode(">", False)[0], vocabulary.encode("a", False)[0]
    accent = vocabulary.encode("é", False)[-1]
    ids = np.array([arrow, letter, accent, 257])
    assert stops.may_end(np.full(4, kind), ids).tolist() == [True, False, True, True]
    assert stops.may_end(np.zeros(4, np.int32), ids).tolist() == [False, False, False, True]
    assert stops.kind(("other>", "aé")) == kind
