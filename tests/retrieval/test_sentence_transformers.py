"""Encoders and cross-encoders of the sentence-transformers library, with small random models made on the spot."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.record import Document, Hit
from subquest.retrieval import Index

pytest.importorskip("sentence_transformers", reason="needs the extra `sentence-transformers`")

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "query", "passage", ":", *"abcdefghijklmnopqrstuvwxyz"]


def tiny_bert(folder: Path, heads: int | None) -> Path:
    """A BERT of two layers with random weights; with `heads` outputs it is a classifier."""
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import BertProcessing
    from transformers import BertConfig, BertForSequenceClassification, BertModel, PreTrainedTokenizerFast

    torch.manual_seed(0)
    folder.mkdir()
    config = BertConfig(
        vocab_size=len(VOCABULARY),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=heads or 2,
    )
    model = BertForSequenceClassification(config) if heads else BertModel(config)
    model.save_pretrained(folder)
    words = {word: i for i, word in enumerate(VOCABULARY)}
    wordpiece = Tokenizer(WordPiece(words, unk_token="[UNK]"))
    wordpiece.pre_tokenizer = Whitespace()
    wordpiece.post_processor = BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {name: f"[{name[:3].upper()}]" for name in ("pad_token", "unk_token", "cls_token", "sep_token")}
    PreTrainedTokenizerFast(tokenizer_object=wordpiece, **special).save_pretrained(folder)
    return folder


def test_any_model_encodes(tmp_path: Path) -> None:
    model = tiny_bert(tmp_path / "e5-tiny", None)
    documents = [Document(letter, "", f"{letter} {letter} {letter}") for letter in "abcdef"]
    with Index.build(tmp_path / "i", documents, encoder=f"st:{model}") as index:
        recorded = index.info().encoder
        assert recorded is not None
        assert recorded["query_prefix"] == "query: "
        assert recorded["passage_prefix"] == "passage: "
        assert len(index.search("c c c", 6, mode="dense")) == 6
    with Index.open(tmp_path / "i") as again:
        hits = again.search("c c c", 1, mode="hybrid")
        assert hits[0].document.id == "c"


async def test_cross_encoder_orders_by_its_scores(tmp_path: Path) -> None:
    from subquest.retrieval.rerank import CrossEncoder

    reranker = CrossEncoder(str(tiny_bert(tmp_path / "cross", 1)))
    hits = [Hit(Document(letter, "", letter), 1.0) for letter in "abcdefghij"]
    found = await reranker.rerank("c", hits)
    assert sorted(hit.document.id for hit in found) == list("abcdefghij")
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) > 1
    late = CrossEncoder(str(tmp_path / "cross"), seconds=-1.0)
    assert [hit.document.id for hit in await late.rerank("c", hits)] == list("abcdefghij")
