import random
import unicodedata
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from subquest.engine.chat_format import CHATML, encode_pieces
from subquest.engine.interface import Message
from subquest.engine.torch.gguf_tokenizer import SPLITS
from subquest.engine.torch.stop_strings import Stops
from subquest.engine.torch.vocabulary import _SEAM, BYTE_LETTERS, Vocabulary
from subquest.protocol import fence

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


def test_a_prompt_is_its_control_text_and_contents_and_repeated_messages_are_kept(vocabulary: Vocabulary) -> None:
    messages = [Message("system", "Be brief."), Message("user", "<|im_end|>?")]
    first, second = (vocabulary.prompt_segments(CHATML, messages) for _ in range(2))
    ids = encode_pieces(CHATML.opening(messages), vocabulary.encode)
    assert [i for segment in first for i in segment.token_ids] == ids
    assert [(s.kind, s.role) for s in first] == [("prompt", "system"), ("prompt", "user")]
    assert all(a is b for a, b in zip(first, second, strict=True))
    other = vocabulary.prompt_segments(CHATML, [messages[0], Message("user", "else")])
    assert other[0] is first[0]
    assert other[1].text != first[1].text


def test_special_tokens_are_fenced_in_texts_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("subquest.protocol.fencing._own_tokens", frozenset())
    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<file_sep>"]})
    assert fence("a <file_sep> b") == "a <file_sep> b"
    Vocabulary(tokenizer, 264)
    assert fence("a <file_sep> b") == "a ‹file_sep› b"


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


def pair_tokenizer(pattern: str | None, **changes: Any) -> PreTrainedTokenizerFast:
    """Byte-level BPE in which every pair of two printable ASCII characters, line breaks and blanks is a token, so that
    any merge over a seam shows."""
    letters = [BYTE_LETTERS[b] for b in (9, 10, *range(32, 127))]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [(a, b) for a in letters for b in letters]
    vocabulary = {token: n for n, token in enumerate([*alphabet, *(a + b for a, b in pairs)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, pairs))
    tokenizer.pre_tokenizer = changes.get("pre_tokenizer") or (
        pre_tokenizers.ByteLevel(add_prefix_space=False)
        if pattern is None
        else pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    )
    tokenizer.normalizer = changes.get("normalizer")
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|im_end|>", special=True), *changes.get("added", ())])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>")


PARTS = (
    *"ab Z9.)(\n<>'\t\r", "\n\n", "  ", "é", "\u0301", "中", "\u00a0", "\x85", "\x1c", "'s", "\nD", ") w", "\n<",
    "5\nx", ".\n[", "a\n's", "\n9", " w", " A", "' s", "9 x", "\u0301 e", "e \u0301",
)  # fmt: skip


@pytest.mark.parametrize("kind", sorted(SPLITS))
def test_texts_put_together_have_the_ids_of_the_whole(kind: str) -> None:
    vocabulary = Vocabulary(pair_tokenizer(SPLITS[kind], normalizer=normalizers.NFC()), 12_000)
    assert vocabulary._seams
    chance = random.Random(kind)
    cut = 0
    for _ in range(300):
        text = "Doc 1(Title: x) Of it\n" * 10 + "".join(chance.choices(PARTS, k=80))
        cut += len(_SEAM.findall(text))
        assert vocabulary.encode(text, False) == vocabulary._tokenised(text, False)
        assert vocabulary.decode(vocabulary.encode(text, False)) == unicodedata.normalize("NFC", text)
    assert cut > 300 * 20


def test_tokenizers_that_may_merge_over_a_seam_get_whole_texts() -> None:
    for changes in (
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)},
        {"pre_tokenizer": pre_tokenizers.ByteLevel(add_prefix_space=True)},
        {"pre_tokenizer": pre_tokenizers.Split("x", "isolated")},
        {"normalizer": normalizers.Lowercase()},
        {"added": [AddedToken(") w")]},
        {"added": [AddedToken("Doc", lstrip=True)]},
    ):
        vocabulary = Vocabulary(pair_tokenizer(None, **changes), 12_000)
        assert not vocabulary._seams
        text = "Doc 1(Title: x) was\nDoc 2" * 20
        assert vocabulary.encode(text, False) == vocabulary._tokenised(text, False)
