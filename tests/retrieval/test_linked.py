"""Linked passages: results that other results name."""

from __future__ import annotations

from pathlib import Path

import pytest

from subquest.record import Document, Hit
from subquest.retrieval import Index
from subquest.retrieval.analysis import Analysis
from subquest.retrieval.rerank import Linked, Reranked
from subquest.retrieval.titles import linked_first

QUESTION = "Where was the designer of the Orvane Bridge born?"
DOCUMENTS = [
    Document("bridge", "Orvane Bridge (Kelso)", "The Orvane Bridge was drawn by Mira Tolland."),
    Document("noise", "Houses", "Where the designer was born, and where that designer's designer was born."),
    Document("more", "Births", "Born, born and born: where was who born, and which designer was born where?"),
    Document("tolland", "Mira Tolland", "She was born in Vessel, kept the accounts of a mill and drew for a living."),
]


def test_scores_are_rank_score_and_links() -> None:
    documents = [*DOCUMENTS[:2], DOCUMENTS[3], Document("stop", "The", "A passage whose title is in every text.")]
    hits = [Hit(document, score) for document, score in zip(documents, (0.5, 1.0, 0.0, 0.25), strict=True)]
    found = linked_first(QUESTION, hits, Analysis())
    # bridge 0.5 + 0.7 for standing in the question; Tolland 0 + 0.6 · min(1, 1.2); "The" is told from no other word
    assert {hit.document.id: hit.score for hit in found} == pytest.approx(
        {"bridge": 1.2, "noise": 1.0, "tolland": 0.6, "stop": 0.25}
    )
    assert [hit.document.id for hit in found] == ["bridge", "noise", "tolland", "stop"]
    assert linked_first(QUESTION, [], Analysis()) == []
    assert linked_first("x", [Hit(documents[0], 3.0)], Analysis())[0].score == 0.0


def test_a_passage_does_not_vouch_for_its_own_article() -> None:
    twins = [Hit(Document(str(i), "Kelso", "Kelso lies on the Tweed."), 1.0 - i) for i in range(2)]
    assert [hit.score for hit in linked_first("river", twins, Analysis())] == [1.0, 0.0]


async def test_the_second_hop_comes_forward(tmp_path: Path) -> None:
    Index.build(tmp_path / "a.sq", DOCUMENTS).close()
    with Index.open(tmp_path / "a.sq", mode="bm25") as index:
        assert [hit.document.id for hit in index.search(QUESTION, 4)].index("tolland") == 3
        ordered = index.search(QUESTION, 4, mode="linked")
        places = {hit.document.id: place for place, hit in enumerate(ordered)}
        assert places["bridge"] == 0
        assert places["tolland"] < 3
        assert index.search(QUESTION, 2, mode="linked") == ordered[:2]
        (same,) = await Reranked(index, Linked(), depth=100).retrieve([QUESTION], 4)
        assert same == ordered
