"""Pointwise reranking by an engine that shows how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from subquest.engine.interface import Message
from subquest.errors import EngineUnavailable, SearchRefused, UsageError
from subquest.record import Document
from subquest.retrieval.rerank import LONGEST, Pointwise, Reranked, judgement, odds_of_yes

from .test_around import Fixed


class Sure:
    """An engine that shows how sure it is."""

    name, context_window = "sure", None

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
        self.asked.append(len(prompts))
        assert words == ("yes", "Yes", "no", "No")
        return [
            tuple(map(math.log, (0.3, 0.3, 0.1, 0.1) if "good" in p[-1].content else (0.05, 0.05, 0.2, 0.1)))
            for p in prompts
        ]


async def test_pointwise_mixes_what_the_judge_says_with_the_search() -> None:
    found = Fixed("bad", "good one", "worse", "good two")  # scores 1.0, 0.9, 0.8, 0.7: from 1 to 0 in thirds
    assert odds_of_yes([math.log(p) for p in (0.3, 0.3, 0.1, 0.1)]) == pytest.approx(0.75)
    engine = Sure()
    scores = {}
    for trust in (1.0, 0.5, 0.0):
        (hits,) = await Reranked(found, Pointwise(engine, trust=trust, at_once=3)).retrieve(["q"], 4)  # type: ignore[arg-type]
        scores[trust] = {hit.document.id: hit.score for hit in hits}
        assert list(scores[trust].values()) == sorted(scores[trust].values(), reverse=True)
    assert engine.asked == [3, 1] * 3
    assert scores[1.0] == pytest.approx({"1": 0.75, "3": 0.75, "0": 0.25, "2": 0.25})
    assert scores[0.5] == pytest.approx({"1": 0.375 + 1 / 3, "0": 0.625, "3": 0.375, "2": 0.125 + 1 / 6})
    assert list(scores[0.0]) == ["0", "1", "2", "3"]
    with pytest.raises(UsageError, match="trust is 2"):
        Pointwise(engine, trust=2)  # type: ignore[arg-type]
    assert await Pointwise(engine).rerank("q", []) == []  # type: ignore[arg-type]


def test_a_judge_reads_a_passage_up_to_a_length() -> None:
    _, question = judgement("q", Document("1", "Title", "word " * 1000))
    assert question.content.startswith("Question: q\n\nPassage: Title\nword word")
    assert question.content.endswith("word\n\nHelpful (yes or no)?")
    assert len(question.content) < LONGEST + 100


async def test_a_judge_that_fails_is_a_failed_search() -> None:
    """Whoever searches records it and goes on; it is not their own model that has failed."""

    class Down(Sure):
        async def choose(self, prompts: Sequence[Sequence[Message]], words: Sequence[str]) -> list[tuple[float, ...]]:
            raise EngineUnavailable("no judge at home")

    with pytest.raises(SearchRefused, match="the reranker failed: no judge at home"):
        await Reranked(Fixed("good"), Pointwise(Down())).retrieve(["q"], 1)  # type: ignore[arg-type]
